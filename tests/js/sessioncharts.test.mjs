import assert from "node:assert/strict";
import { test } from "node:test";

import { clockWords, differs, expectations, onGrid, view } from "../../dashboard/static/dashboard/js/sessioncharts.js";
import { inZone, plain, utc } from "./support.mjs";

const DAY = 86_400;

/* ---- what is expected ---- */

test("bitrate of a session with a target is judged by shares of it", () => {
  const { dashed, band, limits } = expectations({ target: 1000, metadata: {} }).bitrate;
  assert.equal(dashed, 1000);
  assert.deepEqual(band, [700, 1300]);
  assert.deepEqual(limits, { warnBelow: 700, badBelow: 400 });
});

test("bitrate of a session without a target is not judged", () => {
  assert.deepEqual(expectations({ target: null, metadata: {} }).bitrate, {});
  assert.deepEqual(expectations({ target: 0, metadata: {} }).bitrate, {});
});

test("frame rate is judged by the one that the encoder claims", () =>
  assert.deepEqual(expectations({ target: null, metadata: { framerate: 50 } }).fps, { top: 50, limits: { warnBelow: 45, badBelow: 30 } }));

test("frame rate without a claim, or with a bad one, is not judged", () => {
  for (const metadata of [undefined, null, {}, { framerate: 0 }, { framerate: "25" }])
    assert.deepEqual(expectations({ target: null, metadata }).fps, { top: 30 });
});

/* ---- words of times ---- */

const NOON = utc("2026-11-14 12:00:00");

test("times of a short session have no day, and seconds only where labels are close", () => {
  const { tick, moment } = clockWords([NOON, NOON + 3600]);
  assert.equal(tick(NOON, 30), "12:00:00");
  assert.equal(tick(NOON, 60), "12:00");
  assert.equal(moment(NOON + 5), "12:00:05");
});

test("times of a session of more than a day have their day, labels at midnight", () => {
  const { tick, moment } = clockWords([NOON, NOON + DAY + 1]);
  assert.equal(plain(tick(utc("2026-11-15 00:00:00"), 21_600)), "15 Nov");
  assert.equal(tick(utc("2026-11-15 06:00:00"), 21_600), "06:00");
  assert.equal(plain(moment(NOON)), "14 Nov, 12:00:00");
});

test("times of a session of exactly a day have no day", () => {
  const { tick, moment } = clockWords([NOON, NOON + DAY]);
  assert.equal(tick(utc("2026-11-15 00:00:00"), 21_600), "00:00");
  assert.equal(moment(NOON), "12:00:00");
});

test("labels a day apart are days", () => assert.equal(plain(clockWords([NOON, NOON + 9 * DAY]).tick(NOON, DAY)), "14 Nov"));

test("midnight of a label is that of the page's zone", (t) => {
  inZone(t, "Asia/Tokyo");
  const { tick } = clockWords([NOON, NOON + 2 * DAY]);
  assert.equal(plain(tick(utc("2026-11-14 15:00:00"), 21_600)), "15 Nov");
  assert.equal(tick(utc("2026-11-15 00:00:00"), 21_600), "09:00");
});

/* ---- columns ---- */

const series = (at, fields = {}) => {
  const column = (value) => at.map((_, index) => value + index);
  const columns = (value) => ({ video_kbps: column(value), drift_dev: at.map(() => -250) });
  return { at, step_s: 0, values: columns(100), low: columns(90), high: columns(110), gaps: [], lanes: { range: [0, 100] }, ...fields };
};

test("seconds that follow each other have no gap, nor extremes", () => {
  const found = view(series([10, 11, 12.5]));
  assert.deepEqual(found.times, [10, 11, 12.5]);
  assert.deepEqual(found.column("video_kbps"), { values: [100, 101, 102], low: null, high: null });
  assert.deepEqual(found.range, [0, 100]);
});

test("pause of more than 2.6 s is a row without values", () => {
  const found = view(series([10, 13, 14]));
  assert.deepEqual(found.times, [10, 11, 13, 14]);
  assert.deepEqual(found.column("video_kbps").values, [100, null, 101, 102]);
});

test("spans have extremes, and a gap where more than one is missing", () => {
  const found = view(series([0, 10, 30, 60], { step_s: 10 }));
  assert.deepEqual(found.times, [0, 10, 30, 40, 60]);
  assert.deepEqual(found.column("video_kbps"), {
    values: [100, 101, 102, null, 103],
    low: [90, 91, 92, null, 93],
    high: [110, 111, 112, null, 113],
  });
});

test("value within a gap is none, and the gap is a zone with its length", () => {
  const found = view(series([10, 11, 12], { gaps: [[10.5, 11.5]] }));
  assert.deepEqual(found.column("video_kbps").values, [100, null, 102]);
  assert.deepEqual(found.zones.map(({ from, to, label }) => [from, to, plain(label)]), [[10.5, 11.5, "off 1 s"]]);
});

test("span whose middle is within a gap has no value", () => {
  const found = view(series([0, 10, 20], { step_s: 10, gaps: [[12, 19]] }));
  assert.deepEqual(found.column("video_kbps").values, [100, null, 102]);
});

test("delay change is shown without its sign, and without extremes", () =>
  assert.deepEqual(view(series([0, 10], { step_s: 10 })).column("drift_dev"), { values: [250, 250], low: null, high: null }));

test("session without samples has no columns", () => {
  const found = view(series([]));
  assert.deepEqual([found.times, found.zones, found.column("video_kbps").values], [[], [], []]);
});

/* ---- two sessions compared ---- */

const GRID = { length: 3, step: 10 };

test("values of a session are means of the spans since its begin", () => {
  const session = { at: [100, 105, 109.9, 110, 125], step_s: 0, gaps: [], values: { fps: [10, 20, 30, 40, 50] } };
  assert.deepEqual(onGrid(session, 100, "fps", GRID), [20, 40, 50]);
});

test("spans without a known value are none", () => {
  const session = { at: [100, 101], step_s: 0, gaps: [], values: { fps: [null, undefined] } };
  assert.deepEqual(onGrid(session, 100, "fps", GRID), [null, null, null]);
  assert.deepEqual(onGrid({ ...session, at: [] }, 100, "fps", GRID), [null, null, null]);
});

test("values of 0 count", () => {
  const session = { at: [100, 101], step_s: 0, gaps: [], values: { fps: [0, 10] } };
  assert.deepEqual(onGrid(session, 100, "fps", GRID), [5, null, null]);
});

test("values outside of the grid, and within a gap, do not count", () => {
  const session = { at: [99, 100, 104, 130], step_s: 0, gaps: [[103, 105]], values: { fps: [1, 2, 3, 4] } };
  assert.deepEqual(onGrid(session, 100, "fps", GRID), [2, null, null]);
});

test("values at the edges of a gap count, and spans by their middle", () => {
  const session = { at: [100, 102, 104, 106], step_s: 0, gaps: [[102, 104]], values: { fps: [1, 2, 3, 4] } };
  assert.deepEqual(onGrid(session, 100, "fps", GRID), [2.5, null, null]);
  const spans = { at: [100, 110], step_s: 10, gaps: [[104, 106]], values: { fps: [1, 2] } };
  assert.deepEqual(onGrid(spans, 100, "fps", GRID), [null, 2, null]);
});

test("delay changes of both signs do not cancel each other", () => {
  const session = { at: [100, 101], step_s: 0, gaps: [], values: { drift_dev: [-100, 300] } };
  assert.deepEqual(onGrid(session, 100, "drift_dev", GRID), [200, null, null]);
});

for (const [a, b, differ] of [
  [100, 90, false],
  [100, 89, true],
  [89, 100, true],
  [0, 0, false],
  [0, 1, true],
  [null, null, false],
  [null, 0, true],
  [5, null, true],
  [-100, -90, false],
  [-100, 100, true],
])
  test(`totals ${a} and ${b} ${differ ? "differ" : "are alike"}`, () => assert.equal(differs(a, b), differ));
