import assert from "node:assert/strict";
import { test } from "node:test";

import { isUtc, moment, offset, offsetWords, serverName, showsUtc, zone } from "../../dashboard/static/dashboard/js/zone.js";
import { inZone, utc } from "./support.mjs";

const HOUR = 3600;
const WINTER = utc("2026-12-01 00:10:00");
const SUMMER = utc("2026-07-01 00:10:00");

test("zone without a page is UTC", () => assert.deepEqual([zone, isUtc, showsUtc], ["UTC", true, false]));

test("offset in UTC is 0 at all times", () => assert.deepEqual([offset(0), offset(WINTER), offset(SUMMER)], [0, 0, 0]));

test("offset of a zone east of UTC is positive", (t) => {
  inZone(t, "Asia/Tokyo");
  assert.deepEqual([offset(WINTER), offset(SUMMER)], [9 * HOUR, 9 * HOUR]);
  assert.equal(isUtc, false);
});

test("offset of a zone west of UTC is negative, with its half hour", (t) => {
  inZone(t, "America/St_Johns");
  assert.deepEqual([offset(WINTER), offset(SUMMER)], [-3.5 * HOUR, -2.5 * HOUR]);
});

test("offset changes in the second in which the clocks do", (t) => {
  inZone(t, "Europe/Berlin");
  const [forward, back] = [utc("2026-03-29 01:00:00"), utc("2026-10-25 01:00:00")];
  assert.deepEqual([offset(forward - 1), offset(forward)], [HOUR, 2 * HOUR]);
  assert.deepEqual([offset(back - 1), offset(back)], [2 * HOUR, HOUR]);
});

test("offset before 1970 is that of the zone", (t) => {
  inZone(t, "Asia/Tokyo");
  assert.equal(offset(-1), 9 * HOUR);
});

test("offset of no time is 0", (t) => {
  inZone(t, "Asia/Tokyo");
  for (const none of [NaN, null, undefined]) assert.equal(offset(none), 0);
});

test("offset in a zone that the browser does not know is 0", (t) => {
  inZone(t, "Mars/Olympus_Mons");
  assert.equal(offset(WINTER), 0);
});

test("offset after the zone was changed is the new zone's", (t) => {
  inZone(t, "Asia/Tokyo");
  assert.equal(offset(WINTER), 9 * HOUR);
  inZone(t, "Europe/Berlin");
  assert.equal(offset(WINTER), HOUR);
});

for (const [name, at, words] of [
  ["UTC", WINTER, "UTC"],
  ["Europe/London", WINTER, "UTC"],
  ["Europe/London", SUMMER, "UTC+1"],
  ["Asia/Kathmandu", WINTER, "UTC+5:45"],
  ["America/St_Johns", WINTER, "UTC-3:30"],
  ["America/New_York", WINTER, "UTC-5"],
])
  test(`offset of ${name} at ${at} in words is ${words}`, (t) => {
    inZone(t, name);
    assert.equal(offsetWords(at), words);
  });

test("moment of a local time is when the zone's clocks show it", (t) => {
  inZone(t, "America/St_Johns");
  assert.equal(moment(utc("2026-07-01 21:40:00")), utc("2026-07-02 00:10:00"));
  assert.equal(moment(utc("2026-12-01 20:40:00")), utc("2026-12-02 00:10:00"));
});

test("moment shortly before or after the clocks change is when they show it", (t) => {
  inZone(t, "Europe/Berlin"); // From 02:00 to 03:00 at 01:00 UTC.
  assert.equal(moment(utc("2026-03-29 01:30:00")), utc("2026-03-29 00:30:00"));
  assert.equal(moment(utc("2026-03-29 03:30:00")), utc("2026-03-29 01:30:00"));
});

test("moment in UTC is the local time itself", () => assert.equal(moment(WINTER), WINTER));

test("moment of an hour that the clocks show twice is one of the two", (t) => {
  inZone(t, "Europe/Berlin");
  const shown = utc("2026-10-25 02:30:00");
  assert.ok([utc("2026-10-25 00:30:00"), utc("2026-10-25 01:30:00")].includes(moment(shown)));
});

test("moments of full hours are full hours of the clocks, also on the night of the change", (t) => {
  inZone(t, "America/St_Johns");
  const back = utc("2026-11-01 04:30:00"); // There 02:00 of summer, and 01:00 again.
  const begin = Math.ceil((back - 5400 + offset(back - 5400)) / HOUR) * HOUR;
  const hours = [0, 1, 2].map((hour) => moment(begin + hour * HOUR));
  assert.deepEqual(hours.map((at) => (at + offset(at)) % HOUR), [0, 0, 0]);
  assert.deepEqual(hours.map((at) => Math.abs(at - back) % HOUR), [0, 0, 0]);
});

for (const name of ["UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "Universal", "Etc/Unknown"])
  test(`zone ${name} is UTC to the server`, () => assert.equal(serverName(name), "UTC"));

for (const name of ["Europe/London", "Etc/GMT+1", "Africa/Abidjan", ""])
  test(`zone "${name}" keeps its name`, () => assert.equal(serverName(name), name));
