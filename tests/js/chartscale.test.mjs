import assert from "node:assert/strict";
import { test } from "node:test";

import {
  levelOf,
  nearest,
  niceScale,
  takeRow,
  tickWords,
  timeStep,
  timeTicks,
  valueScale,
  valueWords,
} from "../../dashboard/static/dashboard/js/chartscale.js";
import { offset } from "../../dashboard/static/dashboard/js/zone.js";
import { inZone, plain, utc } from "./support.mjs";

const HOUR = 3600;
const DAY = 86_400;

/* ---- gridlines ---- */

test("scale up to a round value ends at it", () => {
  assert.deepEqual(niceScale(0, 100, 4), [0, 25, 50, 75, 100]);
  assert.deepEqual(niceScale(0, 2, 2), [0, 1, 2]);
});

test("scale may end a third of a step below the value", () => {
  assert.deepEqual(niceScale(0, 6100, 4), [0, 2000, 4000, 6000]);
  assert.deepEqual(niceScale(0, 7000, 4), [0, 2000, 4000, 6000, 8000]);
});

test("scale of fractions has no rounding errors", () => assert.deepEqual(niceScale(0, 0.3, 2), [0, 0.15, 0.3]));

test("scale of negative values begins below 0", () => assert.deepEqual(niceScale(-3, 3, 2), [-3, 0, 3]));

test("scale has 0 also if all values are above it", () => assert.equal(niceScale(900, 1000, 4)[0], 0));

test("scale of nothing has two gridlines", () => assert.equal(niceScale(0, 0, 2).length, 2));

test("scale never has more steps than asked for, and always shows the value", () => {
  for (const count of [2, 4])
    for (let high = 1; high <= 5000; high += 7) {
      const ticks = niceScale(0, high, count);
      const step = ticks[1] - ticks[0];
      assert.ok(ticks.length - 1 <= count, `${high} in ${count} steps: ${ticks}`);
      assert.ok(ticks.at(-1) + 0.36 * step >= high, `${high} stands too high over ${ticks}`);
    }
});

test("top of a chart without values is its last gridline", () =>
  assert.deepEqual(valueScale([[]], { ticks: 2 }), { ticks: [0, 0.5, 1], top: 1 }));

test("top of a chart leaves room over a value at the last gridline", () => {
  const { ticks, top } = valueScale([[10, 4000, null]], { ticks: 4 });
  assert.deepEqual(ticks, [0, 1000, 2000, 3000, 4000]);
  assert.equal(top, 4240);
});

test("top of a chart is the last gridline if the values stay below it", () =>
  assert.deepEqual(valueScale([[3500]], { ticks: 4 }), { ticks: [0, 1000, 2000, 3000, 4000], top: 4000 }));

test("chart always holds its target, its band and its usual top", () => {
  assert.equal(valueScale([[100]], { dashed: 2500, ticks: 4 }).top, 3000);
  assert.equal(valueScale([[100]], { band: [1750, 3250], ticks: 4 }).ticks.at(-1), 3000);
  assert.ok(valueScale([[100]], { band: [1750, 3250], ticks: 4 }).top > 3250);
  assert.equal(valueScale([[1]], { top: 30, ticks: 2 }).ticks.at(-1), 30);
});

test("chart holds the extremes of its spread, and ignores gaps and missing columns", () => {
  const low = valueScale([[1, null], null, [-2, undefined]], { ticks: 2 });
  assert.ok(low.ticks[0] <= -2);
  assert.equal(valueScale([[1, null], [10, null], null], { ticks: 2 }).ticks.at(-1), 10);
});

/* ---- words at gridlines and of values ---- */

test("gridlines up to 9,999 are in full", () => {
  assert.equal(tickWords(5000, 9999, 0), "5,000");
  assert.equal(tickWords(0, 9999, 0), "0");
  assert.equal(tickWords(0.5, 1, 1), "0.5");
});

test("gridlines from 10,000 on are in thousands", () => {
  assert.equal(tickWords(10_000, 10_000, 0), "10k");
  assert.equal(tickWords(2500, 10_000, 0), "2.5k");
  assert.equal(tickWords(0, 10_000, 0), "0");
});

test("value of a chart has its unit and its decimals", () => {
  assert.equal(valueWords(2612.4, { unit: "kbit/s" }), "2,612\u00a0kbit/s");
  assert.equal(plain(valueWords(1.25, { unit: "s", decimals: 1 })), "1.3 s");
  assert.equal(valueWords(12, { unit: "" }), "12");
  assert.equal(plain(valueWords(0, { unit: "ms" })), "0 ms");
});

test("value of a gap is no data", () => {
  assert.equal(valueWords(null, { unit: "ms" }), "no data");
  assert.equal(valueWords(undefined), "no data");
});

/* ---- the time axis ---- */

for (const [span, width, step] of [
  [300, 640, 30],
  [300, 639, 60],
  [300, 50, 300],
  [300, 4000, 30],
  [60, 640, 15],
  [1800, 640, 300],
  [10_800, 640, 1800],
  [DAY, 640, 10_800],
  [365 * DAY, 640, 7 * DAY],
])
  test(`labels of ${span} s on ${width} px are ${step} s apart`, () => assert.equal(timeStep(span, width), step));

test("labels in larger letters are further apart", () => assert.equal(timeStep(300, 640, 2), 60));

test("labels in UTC stand at round times within the range", () => {
  const noon = utc("2026-11-14 12:00:00");
  assert.deepEqual(timeTicks([noon, noon + 150], 60), [noon, noon + 60, noon + 120]);
  assert.deepEqual(timeTicks([noon + 1, noon + 120], 60), [noon + 60, noon + 120]);
  assert.deepEqual(timeTicks([noon + 1, noon + 59], 60), []);
});

test("labels end before the first one that has no room", () => {
  const noon = utc("2026-11-14 12:00:00");
  assert.deepEqual(timeTicks([noon, noon + 180], 60, { fits: (at) => at < noon + 100 }), [noon, noon + 60]);
});

test("labels of hours stand at full hours of the zone's clocks", (t) => {
  inZone(t, "Asia/Kathmandu"); // UTC+5:45.
  const noon = utc("2026-11-14 12:00:00");
  assert.deepEqual(timeTicks([noon, noon + 2 * HOUR], HOUR), [noon + 900, noon + 4500]);
});

test("labels of days stand at midnight of the zone, or of UTC if asked for", (t) => {
  inZone(t, "Asia/Tokyo");
  const range = [utc("2026-11-14 12:00:00"), utc("2026-11-16 12:00:00")];
  assert.deepEqual(timeTicks(range, DAY), [utc("2026-11-14 15:00:00"), utc("2026-11-15 15:00:00")]);
  assert.deepEqual(timeTicks(range, DAY, { utc: true }), [utc("2026-11-15 00:00:00"), utc("2026-11-16 00:00:00")]);
});

test("labels of days stay at midnight when the clocks change", (t) => {
  inZone(t, "Europe/Berlin");
  const range = [utc("2026-10-24 12:00:00"), utc("2026-10-27 12:00:00")];
  assert.deepEqual(timeTicks(range, DAY), [
    utc("2026-10-24 22:00:00"),
    utc("2026-10-25 23:00:00"),
    utc("2026-10-26 23:00:00"),
  ]);
});

test("labels of hours follow each other when the clocks change", (t) => {
  inZone(t, "Europe/Berlin");
  for (const day of ["2026-03-29", "2026-10-25"]) {
    const midnight = utc(`${day} 00:00:00`);
    const ticks = timeTicks([midnight - 2 * HOUR, midnight + 5 * HOUR], HOUR);
    assert.ok(ticks.length >= 6);
    assert.ok(ticks.every((at, index) => index === 0 || at > ticks[index - 1]), "each once, in their order");
    assert.ok(ticks.every((at) => (at + offset(at)) % HOUR === 0), "at full hours");
  }
});

/* ---- the nearest time, levels, rows of labels ---- */

test("nearest of no times is none", () => assert.equal(nearest([], 5), null));

test("nearest time is the closer one, the earlier one of two", () => {
  assert.equal(nearest([10, 20, 30], 24), 1);
  assert.equal(nearest([10, 20, 30], 26), 2);
  assert.equal(nearest([10, 20, 30], 15), 0);
});

test("nearest time to a moment outside is the first or the last", () => {
  assert.equal(nearest([10, 20, 30], -100), 0);
  assert.equal(nearest([10, 20, 30], 100), 2);
});

const LIMITS = { warnBelow: 70, badBelow: 40, warnAbove: 130, badAbove: 200 };
for (const [value, level] of [
  [39.9, "bad"],
  [40, "warn"],
  [69.9, "warn"],
  [70, "ok"],
  [130, "ok"],
  [130.1, "warn"],
  [200, "warn"],
  [200.1, "bad"],
])
  test(`level of ${value} within limits 40, 70, 130 and 200 is ${level}`, () => assert.equal(levelOf(LIMITS, value), level));

test("level without limits is ok", () => assert.equal(levelOf({}, 0), "ok"));

test("labels take the first row that has room, and may touch", () => {
  const rows = [[], []];
  assert.equal(takeRow(rows, 0, 10), 0);
  assert.equal(takeRow(rows, 5, 15), 1);
  assert.equal(takeRow(rows, 10, 20), 0);
});

test("labels without room in any row have none, and take nothing", () => {
  const rows = [[[0, 10]], [[5, 15]]];
  assert.equal(takeRow(rows, 8, 12), -1);
  assert.deepEqual(rows, [[[0, 10]], [[5, 15]]]);
});
