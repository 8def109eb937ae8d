import assert from "node:assert/strict";
import { test } from "node:test";

import {
  bitrate,
  bitrateParts,
  clock,
  count,
  day,
  duration,
  instant,
  number,
  seconds,
  time,
  timeWithUtc,
  unit,
  utcBeside,
  utcDay,
  utc as utcWords,
} from "../../dashboard/static/dashboard/js/format.js";
import { inZone, plain, utc } from "./support.mjs";

/* ---- numbers ---- */

test("number of thousands has a comma at each thousand", () => {
  assert.equal(number(999), "999");
  assert.equal(number(1000), "1,000");
  assert.equal(number(1234567), "1,234,567");
});

test("number 0 is shown as 0", () => assert.equal(number(0), "0"));

test("negative number keeps its sign and its comma", () => assert.equal(number(-1500), "-1,500"));

test("number is rounded to whole ones unless decimals are asked for", () => {
  assert.equal(number(1.4), "1");
  assert.equal(number(1.5), "2");
  assert.equal(number(999.5), "1,000");
});

test("number with decimals has exactly so many", () => {
  assert.equal(number(0, 1), "0.0");
  assert.equal(number(29.97, 1), "30.0");
  assert.equal(number(29.97, 2), "29.97");
  assert.equal(number(4, 2), "4.00");
});

for (const [name, value] of [["null", null], ["undefined", undefined], ["NaN", NaN], ["Infinity", Infinity], ["a text", "12"]])
  test(`number of ${name} is a dash`, () => assert.equal(number(value), "–"));

test("number of null shows the caller's own word", () => assert.equal(number(null, 0, "none"), "none"));

test("unit is joined to its number by a no-break space", () => assert.equal(unit(2500, "kbit/s"), "2,500\u00a0kbit/s"));

test("unit of 0 is shown", () => assert.equal(plain(unit(0, "ms", 1)), "0.0 ms"));

test("unit of null is a dash without the unit", () => {
  assert.equal(unit(null, "ms"), "–");
  assert.equal(unit(NaN, "ms"), "–");
  assert.equal(unit(undefined, "ms", 0, ""), "");
});

/* ---- bitrates ---- */

for (const [kbps, words] of [
  [0, "0 kbit/s"],
  [999, "999 kbit/s"],
  [2612.4, "2,612 kbit/s"],
  [9999, "9,999 kbit/s"],
  [10_000, "10.0 Mbit/s"],
  [12_340, "12.3 Mbit/s"],
  [999_900, "999.9 Mbit/s"],
  [1_000_000, "1.00 Gbit/s"],
  [12_345_000, "12.35 Gbit/s"],
  [-5, "-5 kbit/s"],
])
  test(`bitrate of ${kbps} kbit/s is shown as ${words}`, () => assert.equal(plain(bitrate(kbps)), words));

test("bitrate that is unknown is a dash in kbit/s", () => {
  for (const unknown of [null, undefined, NaN]) assert.deepEqual(bitrateParts(unknown), ["–", "kbit/s"]);
});

/* ---- lengths of time: `lasted` of Python has the same table ---- */

for (const [length, words] of [
  [0, "0 s"],
  [14, "14 s"],
  [59, "59 s"],
  [59.9, "59 s"],
  [60, "1 min 0 s"],
  [112, "1 min 52 s"],
  [3599, "59 min 59 s"],
  [3600, "1 h 0 min"],
  [5909, "1 h 38 min"],
  [86_399, "23 h 59 min"],
  [86_400, "1 d 0 h"],
  [6 * 86_400 + 4 * 3600 + 1, "6 d 4 h"],
  [-5, "0 s"],
])
  test(`duration of ${length} s is shown as ${words}`, () => assert.equal(plain(duration(length)), words));

test("duration that is unknown is a dash", () => assert.equal(duration(NaN), "–"));

test("duration of null is 0 s", () => assert.equal(plain(duration(null)), "0 s"));

test("duration keeps each number with its unit", () => assert.equal(duration(112), "1\u00a0min 52\u00a0s"));

for (const [at, words] of [
  [0, "0:00:00"],
  [59.9, "0:00:59"],
  [60, "0:01:00"],
  [228, "0:03:48"],
  [3599, "0:59:59"],
  [3600, "1:00:00"],
  [4360, "1:12:40"],
  [360_000, "100:00:00"],
  [-5, "0:00:00"],
])
  test(`place ${at} s in a recording is shown as ${words}`, () => assert.equal(clock(at), words));

/* ---- moments ---- */

test("time in UTC shows UTC after it", () => {
  const at = utc("2026-11-14 13:31:46");
  assert.equal(time(at), "13:31:46");
  assert.equal(plain(day(at)), "14 Nov");
  assert.equal(timeWithUtc(at), "13:31:46 UTC");
});

test("time of a fraction of a second is cut, not rounded", () => assert.equal(time(utc("2026-11-14 13:31:46") + 0.999), "13:31:46"));

test("midnight in UTC is 00:00:00 of the new day", () => {
  const at = utc("2026-12-01 00:00:00");
  assert.deepEqual([time(at - 1), plain(day(at - 1))], ["23:59:59", "30 Nov"]);
  assert.deepEqual([time(at), plain(day(at))], ["00:00:00", "1 Dec"]);
});

test("time in another zone has UTC next to it", (t) => {
  inZone(t, "Europe/Berlin");
  assert.equal(timeWithUtc(utc("2026-11-14 13:31:46")), "14:31:46 (13:31:46 UTC)");
});

test("time whose day differs from the day in UTC has both days", (t) => {
  inZone(t, "Europe/Berlin");
  const at = utc("2026-12-31 23:30:00");
  assert.deepEqual([time(at), plain(day(at)), plain(utcDay(at))], ["00:30:00", "1 Jan", "31 Dec"]);
  assert.equal(plain(timeWithUtc(at)), "00:30:00 (31 Dec, 23:30:00 UTC)");
  assert.equal(plain(utcWords(at)), "31 Dec, 23:30:00 UTC");
});

test("time in a zone of half hours is that of its clocks, in summer and in winter", (t) => {
  inZone(t, "America/St_Johns");
  const [summer, winter] = [utc("2026-07-01 00:10:00"), utc("2026-12-01 00:10:00")];
  assert.deepEqual([time(summer), plain(day(summer))], ["21:40:00", "30 Jun"]);
  assert.equal(plain(timeWithUtc(summer)), "21:40:00 (1 Jul, 00:10:00 UTC)");
  assert.deepEqual([time(winter), plain(day(winter))], ["20:40:00", "30 Nov"]);
});

test("midnight in a zone is 00:00:00 of the new day there", (t) => {
  inZone(t, "Asia/Tokyo");
  const at = utc("2026-11-14 15:00:00");
  assert.deepEqual([time(at - 1), plain(day(at - 1))], ["23:59:59", "14 Nov"]);
  assert.deepEqual([time(at), plain(day(at))], ["00:00:00", "15 Nov"]);
});

test("time in a zone whose clocks show UTC has UTC after it once", (t) => {
  inZone(t, "Europe/London");
  assert.equal(timeWithUtc(utc("2026-11-14 13:31:46")), "13:31:46 UTC");
  assert.equal(timeWithUtc(utc("2026-07-14 13:31:46")), "14:31:46 (13:31:46 UTC)");
});

test("UTC stands next to each time only if the operator wants it", (t) => {
  const at = utc("2026-11-14 13:31:46");
  inZone(t, "Asia/Tokyo");
  assert.equal(utcBeside(at), "");
  inZone(t, "Asia/Tokyo", true);
  assert.equal(utcBeside(at), "(13:31:46 UTC)");
  assert.equal(plain(utcBeside(utc("2026-11-14 20:00:00"))), "(14 Nov, 20:00:00 UTC)");
});

test("UTC does not stand next to a time that is UTC", (t) => {
  inZone(t, "UTC", true);
  assert.equal(utcBeside(utc("2026-11-14 13:31:46")), "");
});

test("seconds of a number are that number", () => {
  assert.equal(seconds(0), 0);
  assert.equal(seconds(1_700_000_000.25), 1_700_000_000.25);
});

test("seconds of an ISO 8601 text are since the epoch", () => {
  assert.equal(seconds("1970-01-02T00:00:00Z"), 86_400);
  assert.equal(seconds("1970-01-01T01:00:00.500+01:00"), 0.5);
});

test("seconds of a text that is no time are NaN", () => assert.ok(Number.isNaN(seconds("soon"))));

test("instant is a whole second in UTC, also in another zone", (t) => {
  inZone(t, "Asia/Tokyo");
  assert.equal(instant(utc("2026-11-28 20:14:03") + 0.7), "2026-11-28T20:14:03Z");
});

/* ---- counts ---- */

test("count of one thing is singular, of any other number plural", () => {
  assert.equal(count(0, "stream"), "0 streams");
  assert.equal(count(1, "stream"), "1 stream");
  assert.equal(count(2, "stream"), "2 streams");
  assert.equal(count(1200, "stream"), "1,200 streams");
});

test("count takes a plural of its own", () => {
  assert.equal(count(1, "push fails", "pushes fail"), "1 push fails");
  assert.equal(count(2, "push fails", "pushes fail"), "2 pushes fail");
});
