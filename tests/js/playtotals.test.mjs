import assert from "node:assert/strict";
import { test } from "node:test";

import { PlayTotals } from "../../dashboard/static/watch/playtotals.js";

const PLAYS = { isPaused: false, behindS: 3 };

/** Totals of a viewer who wanted to play at 1000 ms and had the first picture at 1800 ms. */
function begun() {
  const totals = new PlayTotals(1000, 1000);
  totals.plays(1800, true);
  totals.tick(1800, PLAYS);
  return totals;
}

test("totals before the first picture are 0", () => {
  const totals = new PlayTotals(1000, 1000);
  totals.tick(1500, PLAYS);
  assert.equal(totals.joinMs, null);
  assert.deepEqual(totals.report(1500), { join_ms: 0, stalls: 0, stalled_ms: 0, watched_ms: 0, behind_ms: 0 });
});

test("first picture ends the time to join, later ones do not", () => {
  const totals = new PlayTotals(1000, 1000);
  assert.equal(totals.plays(1500, false), false, "the video says that it plays, and has no picture");
  assert.equal(totals.plays(1800, true), true);
  assert.equal(totals.plays(1900, true), false);
  assert.equal(totals.report(2000).join_ms, 800);
});

test("time that the video plays is watched", () => {
  const totals = begun();
  totals.tick(2300, PLAYS);
  totals.tick(2800, { isPaused: false, behindS: 4.5 });
  const { watched_ms, behind_ms } = totals.report(2800);
  assert.deepEqual([watched_ms, behind_ms], [1000 + 800, 4500], "with the tick in which it began");
});

test("time that the video is paused is not watched, nor the time before its next tick", () => {
  const totals = begun();
  const { watched_ms: before } = totals.report(1800);
  totals.tick(2300, { isPaused: true, behindS: 3 });
  totals.tick(60_000, { isPaused: true, behindS: 60 });
  totals.tick(60_500, PLAYS);
  assert.equal(totals.report(60_500).watched_ms - before, 500);
  assert.equal(totals.report(60_500).behind_ms, 3000);
});

test("stall is counted once, with its length", () => {
  const totals = begun();
  totals.waits(2000, false);
  totals.waits(2100, false);
  totals.plays(2600, true);
  totals.plays(2700, true);
  const { stalls, stalled_ms } = totals.report(3000);
  assert.deepEqual([stalls, stalled_ms], [1, 600]);
});

test("stall that goes on is in the report up to now", () => {
  const totals = begun();
  totals.waits(2000, false);
  assert.deepEqual([totals.report(2500).stalled_ms, totals.report(4000).stalled_ms], [500, 2000]);
});

test("stalls add up", () => {
  const totals = begun();
  for (const at of [2000, 5000]) {
    totals.waits(at, false);
    totals.plays(at + 250, true);
  }
  const { stalls, stalled_ms } = totals.report(9000);
  assert.deepEqual([stalls, stalled_ms], [2, 500]);
});

test("time of a stall is not watched, and how far behind it is stays as it was", () => {
  const totals = begun();
  const before = totals.report(1800);
  totals.waits(1800, false);
  totals.tick(5000, { isPaused: false, behindS: 9 });
  assert.deepEqual([totals.report(5000).watched_ms, totals.report(5000).behind_ms], [before.watched_ms, 3000]);
});

test("waiting before the first picture is no stall", () => {
  const totals = new PlayTotals(1000, 1000);
  totals.waits(1200, false);
  assert.equal(totals.report(5000).stalls, 0);
});

test("waiting while somebody seeks, or in a pause, is no stall", () => {
  const totals = begun();
  totals.waits(2000, true);
  assert.deepEqual([totals.report(5000).stalls, totals.report(5000).stalled_ms], [0, 0]);
});

test("tick counts only while the video plays", () => {
  const totals = new PlayTotals(1000, 1000);
  assert.equal(totals.tick(1500, PLAYS), false);
  totals.plays(1800, true);
  assert.equal(totals.tick(2000, { isPaused: true, behindS: 3 }), false);
  assert.equal(totals.tick(2500, PLAYS), true);
});

test("report has whole milliseconds, and none below 0", () => {
  const totals = new PlayTotals(1000.4, 1000.4);
  totals.plays(1800.9, true);
  totals.tick(1801, { isPaused: false, behindS: -0.5 });
  const { join_ms, behind_ms } = totals.report(1801);
  assert.deepEqual([join_ms, behind_ms], [801, 0]);
});
