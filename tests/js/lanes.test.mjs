import assert from "node:assert/strict";
import { test } from "node:test";

import {
  brief,
  dotPlaces,
  dotWords,
  healthPlaces,
  healthWords,
  percent,
  shareOf,
  statePlaces,
  stateWords,
} from "../../dashboard/static/dashboard/js/lanes.js";
import { inZone, plain, utc } from "./support.mjs";

const NOON = utc("2026-11-14 12:00:00");
const RANGE = [0, 1000];

/* ---- places ---- */

test("share of a time is its place within the range, also outside of it", () => {
  const share = shareOf([100, 300]);
  assert.deepEqual([share(100), share(150), share(300), share(0)], [0, 0.25, 1, -0.5]);
});

test("percent of a share stays between 0 and 100", () => {
  assert.deepEqual([-0.5, 0, 0.25, 1, 2].map(percent), ["0.000%", "0.000%", "25.000%", "100.000%", "100.000%"]);
});

const spanned = (level, from, to) => ({ level, from, to });

test("state of a session has its length, and a label where there is room", () => {
  const state = [spanned("live", 0, 150), spanned("off", 150, 200), spanned("live", 200, 1000)];
  const places = statePlaces({ state, range: RANGE });
  assert.deepEqual(places.map(({ x, width }) => [x, Number(width.toFixed(3))]), [[0, 0.15], [0.15, 0.05], [0.2, 0.8]]);
  assert.deepEqual(places.map(({ words }) => plain(words)), ["Live for 2 min 30 s", "No media for 50 s", "Live for 13 min 20 s"]);
  assert.deepEqual(places.map(({ hasLabel }) => hasLabel), [false, false, true]);
});

test("state of a short session that was live all the time has its label", () => {
  assert.equal(statePlaces({ state: [spanned("live", 0, 10)], range: RANGE })[0].hasLabel, true);
  assert.equal(statePlaces({ state: [spanned("live", 5, 5)], range: [5, 5] })[0].hasLabel, true);
});

test("state of one of several short spans has no label", () => {
  const state = [spanned("live", 1000, 1010), spanned("off", 1010, 1100)];
  assert.deepEqual(statePlaces({ state, range: [1000, 1100] }).map(({ hasLabel }) => hasLabel), [false, false]);
});

test("state without media never has a label", () =>
  assert.equal(statePlaces({ state: [spanned("off", 0, 1000)], range: RANGE })[0].hasLabel, false));

const labelled = (health) => healthPlaces({ health, range: RANGE }).map(({ hasLabel }) => hasLabel);

test("health has a label where it is not good and its span has room", () => {
  assert.deepEqual(labelled([spanned("good", 0, 500), spanned("bad", 500, 1000)]), [false, true]);
  assert.deepEqual(labelled([spanned("bad", 0, 79), spanned("warning", 79, 160)]), [false, true]);
});

test("health's span has its width", () => {
  const [, { x, width }] = healthPlaces({ health: [spanned("good", 100, 150), spanned("bad", 150, 200)], range: [100, 200] });
  assert.deepEqual([x, width], [0.5, 0.5]);
});

test("health has no label next to another one", () => {
  assert.deepEqual(labelled([spanned("bad", 300, 400), spanned("warning", 400, 600)]), [true, false]);
  assert.deepEqual(labelled([spanned("bad", 0, 100), spanned("warning", 100, 200), spanned("bad", 200, 300)]), [true, false, true]);
});

test("health near the right edge has its label to the left", () => {
  const places = healthPlaces({ health: [spanned("bad", 780, 880), spanned("bad", 880, 1000)], range: RANGE });
  assert.deepEqual(places.map(({ isLeft }) => isLeft), [false, true]);
});

const dots = (...times) => dotPlaces(times.map((at) => ({ kind: "operator.note", at })), RANGE);

test("dot has a label if there is room up to the next one", () => {
  assert.deepEqual(dots(0, 159, 400).map(({ hasLabel }) => hasLabel), [false, true, true]);
  assert.deepEqual(dots(700).map(({ hasLabel, isLeft }) => [hasLabel, isLeft]), [[true, false]]);
});

test("dot near the right edge has its label to the left, if there is room there", () => {
  assert.deepEqual(dots(500, 900).map(({ hasLabel, isLeft }) => [hasLabel, isLeft]), [[true, false], [true, true]]);
  assert.deepEqual(dots(850, 900).map(({ hasLabel }) => hasLabel), [true, false]);
});

test("dot near another one has no label", () => assert.equal(dots(400, 500)[0].hasLabel, false));

test("dot that is the last one and near the right edge needs no room there", () => assert.equal(dots(0, 850)[1].hasLabel, true));

test("dots are the latest sixty", () => {
  const places = dots(...Array.from({ length: 70 }, (_, index) => index));
  assert.equal(places.length, 60);
  assert.equal(places[0].event.at, 10);
});

/* ---- words ---- */

const status = (code, at = NOON) => ({ kind: "onstatus", code, at });

test("status in few words is what it means, or its code", () => {
  assert.equal(brief(status("NetStream.Publish.Start")), "Publishing");
  assert.equal(brief(status("NetStream.Play.InsufficientBW")), "Too slow");
  assert.equal(brief(status("NetConnection.Connect.Closed")), "Connect.Closed");
});

test("act of an operator in few words is what and by whom", () => {
  assert.equal(brief({ kind: "operator.ack", detail: { by: "mira" } }), "Acknowledged by mira");
  assert.equal(brief({ kind: "operator.note" }), "Note");
  assert.equal(brief({ kind: "operator.dance", detail: { by: "mira" } }), "operator.dance by mira");
});

test("other events in few words are settings, or what they say", () => {
  assert.equal(brief({ kind: "metadata" }), "Encoder’s settings");
  assert.equal(brief({ kind: "record.failed", description: "The disk is full" }), "The disk is full");
});

test("state in words is from when to when, how often without media, and why it ended", () => {
  const range = [NOON, NOON + 3600];
  const off = spanned("off", NOON, NOON + 10);
  assert.equal(stateWords({ state: [], open: true, end: "", range }), "on air from 12:00:00 to now");
  assert.equal(stateWords({ state: [off], open: false, end: "", range }), "on air from 12:00:00 to 13:00:00; 1 time without media");
  assert.equal(
    stateWords({ state: [off, off], open: false, end: "connection reset", range }),
    "on air from 12:00:00 to 13:00:00; 2 times without media; connection reset",
  );
});

test("health in words is what was not good", () => {
  assert.equal(healthWords({ health: [] }), "good all the time");
  assert.equal(healthWords({ health: [spanned("good", NOON, NOON + 9)] }), "good all the time");
  const health = [spanned("bad", NOON, NOON + 5), spanned("good", NOON + 5, NOON + 6), spanned("warning", NOON + 6, NOON + 9)];
  assert.equal(healthWords({ health }), "bad 12:00:00 to 12:00:05, warning 12:00:06 to 12:00:09");
});

test("health in words of three times is all of them", () => {
  const health = [0, 10, 20].map((at) => spanned("bad", NOON + at, NOON + at + 5));
  assert.equal(healthWords({ health }), "bad 12:00:00 to 12:00:05, bad 12:00:10 to 12:00:15, bad 12:00:20 to 12:00:25");
});

test("health in words of more than three times is the latest three", () => {
  const health = [0, 10, 20, 30].map((at) => spanned("bad", NOON + at, NOON + at + 5));
  assert.equal(healthWords({ health }), "lately bad 12:00:10 to 12:00:15, bad 12:00:20 to 12:00:25, bad 12:00:30 to 12:00:35");
});

test("dots in words are the latest three, with how many there are", () => {
  assert.equal(dotWords([]), "none");
  assert.equal(dotWords([status("NetStream.Publish.Start")]), "Publishing 12:00:00");
  const three = [0, 1, 2].map((at) => status("NetStream.Seek.Notify", NOON + at));
  assert.equal(dotWords(three), "Seek 12:00:00, Seek 12:00:01, Seek 12:00:02");
  const events = [0, 1, 2, 3].map((at) => status("NetStream.Seek.Notify", NOON + at));
  assert.equal(dotWords(events), "4, lately Seek 12:00:01, Seek 12:00:02, Seek 12:00:03");
});

test("lanes in words are of the page's zone", (t) => {
  inZone(t, "America/St_Johns");
  assert.equal(stateWords({ state: [], open: true, end: "", range: [NOON, NOON] }), "on air from 08:30:00 to now");
});
