import assert from "node:assert/strict";
import { test } from "node:test";

import { edgesOf, slotWords, spread, tallest } from "../../dashboard/static/dashboard/js/slots.js";
import { inZone, plain, utc } from "./support.mjs";

const HOUR = 3600;
const DAY = 86_400;
const MIDNIGHT = utc("2026-11-14 00:00:00");

/* ---- words ---- */

test("hours are shown by their begin", () => {
  const { nowWord, utc: byUtc, tick, moment } = slotWords({ from: MIDNIGHT, step: HOUR });
  assert.deepEqual([nowWord, byUtc], ["last hour", false]);
  assert.equal(tick(MIDNIGHT + 2 * HOUR, HOUR), "02:00");
  assert.equal(plain(moment(MIDNIGHT + 2.5 * HOUR)), "14 Nov, 02:00");
  assert.equal(plain(moment(MIDNIGHT + 3 * HOUR - 1)), "14 Nov, 02:00");
});

test("hours have their day at midnight, and where labels are a day apart", () => {
  const { tick } = slotWords({ from: MIDNIGHT, step: HOUR });
  assert.equal(plain(tick(MIDNIGHT, HOUR)), "14 Nov");
  assert.equal(plain(tick(MIDNIGHT + HOUR, DAY)), "14 Nov");
});

test("hours are of the page's zone", (t) => {
  inZone(t, "Asia/Tokyo");
  const { tick, moment } = slotWords({ from: MIDNIGHT, step: HOUR });
  assert.equal(tick(MIDNIGHT, HOUR), "09:00");
  assert.equal(plain(tick(MIDNIGHT + 15 * HOUR, HOUR)), "15 Nov");
  assert.equal(plain(moment(MIDNIGHT + 15.5 * HOUR)), "15 Nov, 00:00");
});

test("days are of UTC in any zone", (t) => {
  inZone(t, "Asia/Tokyo");
  const { nowWord, utc: byUtc, tick, moment } = slotWords({ from: MIDNIGHT, step: DAY });
  assert.deepEqual([nowWord, byUtc], ["last day", true]);
  assert.equal(plain(tick(MIDNIGHT, DAY)), "14 Nov");
  assert.equal(plain(moment(MIDNIGHT + DAY - 1)), "14 Nov");
  assert.equal(plain(moment(MIDNIGHT + DAY)), "15 Nov");
});

/* ---- points ---- */

const spreadOf = (p50, fields = {}) =>
  spread({ from: 0, until: p50.length * 100, step: 100, p50, p5: p50.map((value) => value && value - 1), p95: p50.map((value) => value && value + 1), ...fields });

test("slots that follow each other are joined at their middles, with the outer edges", () => {
  const { times, p50, p5, p95 } = spreadOf([10, 20]);
  assert.deepEqual(times, [0, 50, 150, 199]);
  assert.deepEqual([p50, p5, p95], [[10, 10, 20, 20], [9, 9, 19, 19], [11, 11, 21, 21]]);
});

test("slots in the midst of a run, or next to a gap, have an edge only at that gap", () => {
  assert.deepEqual(spreadOf([10, 20, 30]).times, [0, 50, 150, 250, 299]);
  assert.deepEqual(spreadOf([10, 20, null]).times, [0, 50, 150, 199, 250]);
  assert.deepEqual(spreadOf([null, 10, 20]).times, [50, 100, 150, 250, 299]);
});

test("slot alone is a short line", () => {
  const { times, p50 } = spreadOf([null, 10, null]);
  assert.deepEqual(times, [50, 100, 150, 199, 250]);
  assert.deepEqual(p50, [null, 10, 10, 10, null]);
});

test("slot that goes on ends now", () => {
  const { times } = spreadOf([10, 20], { until: 160 });
  assert.deepEqual(times, [0, 50, 130, 159]);
});

test("slots without values are gaps, and no slots are none", () => {
  assert.deepEqual(spreadOf([null, null]).p50, [null, null]);
  assert.deepEqual(spreadOf([]).times, []);
});

test("slot whose value is 0 is no gap", () => assert.deepEqual(spreadOf([0]).p50, [0, 0, 0]));

test("edges of slots follow each other up to now", () =>
  assert.deepEqual(edgesOf(3, { from: 0, until: 250, step: 100 }), [[0, 100], [100, 200], [200, 250]]));

test("tallest of several lines ignores gaps", () => {
  assert.deepEqual(tallest([[1, null, null, 0], [5, 2, null, null]]), [5, 2, null, 0]);
  assert.deepEqual(tallest([[]]), []);
});
