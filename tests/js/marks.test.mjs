import assert from "node:assert/strict";
import { test } from "node:test";

import { isAcknowledged, silencedWords, silencesAt, unattendedWeight } from "../../dashboard/static/dashboard/js/marks.js";
import { inZone, plain, utc } from "./support.mjs";

const NOW = utc("2026-11-14 13:00:00");
const CHECKS = { gop_long: "Keyframes too far apart", rtt_high: "RTT high" };
const BAD = { check: "bitrate_low", level: "bad", since: 500 };
const WARNING = { check: "gop_long", level: "warning", since: 600 };
const stream = (...issues) => ({ state: "live", issues });

test("silence holds until its end, and one without an end until it is lifted", () => {
  const mutes = [{ check: "a", until: NOW - 1 }, { check: "b", until: NOW }, { check: "c", until: NOW + 1 }, { check: "d", until: null }];
  assert.deepEqual(silencesAt(mutes, NOW).map(({ check }) => check), ["c", "d"]);
});

test("silences of a stream without any are none", () => {
  assert.deepEqual(silencesAt(undefined, NOW), []);
  assert.deepEqual(silencesAt(null, NOW), []);
});

test("issue is acknowledged only as it opened", () => {
  const marks = { acknowledged: [{ check: "bitrate_low", level: "bad", since: 500 }] };
  assert.equal(isAcknowledged(marks, BAD), true);
  assert.equal(isAcknowledged(marks, { ...BAD, since: 900 }), false, "it opened again");
  assert.equal(isAcknowledged(marks, WARNING), false);
  assert.equal(isAcknowledged({}, BAD), false);
});

test("weight of a bad issue is more than that of all warnings", () => {
  const warnings = Array.from({ length: 20 }, (_, index) => ({ ...WARNING, check: `check-${index}` }));
  assert.ok(unattendedWeight(stream(BAD), {}, NOW) > unattendedWeight(stream(...warnings), {}, NOW));
  assert.ok(unattendedWeight(stream(BAD, WARNING), {}, NOW) > unattendedWeight(stream(BAD), {}, NOW));
});

test("weight of a stream without issues is 0", () => assert.equal(unattendedWeight(stream(), {}, NOW), 0));

test("weight leaves out what is acknowledged or silenced", () => {
  const one = unattendedWeight(stream(WARNING), {}, NOW);
  const acknowledged = { acknowledged: [{ check: "bitrate_low", level: "bad", since: 500 }] };
  assert.equal(unattendedWeight(stream(BAD, WARNING), acknowledged, NOW), one);
  assert.equal(unattendedWeight(stream(BAD, WARNING), { muted: [{ check: "bitrate_low", until: null }] }, NOW), one);
  assert.equal(unattendedWeight(stream(BAD, WARNING), { muted: [{ check: "", until: NOW + 1 }] }, NOW), 0);
});

test("weight counts a silence that is over no more", () =>
  assert.equal(unattendedWeight(stream(BAD), { muted: [{ check: "", until: NOW }] }, NOW), unattendedWeight(stream(BAD), {}, NOW)));

test("weight of a stream that dropped is more than that of one that is bad on air", () =>
  assert.ok(unattendedWeight({ state: "dropped", issues: [BAD] }, {}, NOW) > unattendedWeight(stream(BAD, WARNING), {}, NOW)));

test("words for a stream that is not silenced are none", () => {
  assert.equal(silencedWords({}, NOW, CHECKS), null);
  assert.equal(silencedWords({ muted: [{ check: "", until: NOW - 1 }] }, NOW, CHECKS), null);
});

test("words for a stream that is silenced say until when", () => {
  assert.deepEqual(silencedWords({ muted: [{ check: "", until: null }] }, NOW, CHECKS), ["Silenced", "No alerts."]);
  const until = utc("2026-11-14 14:30:00");
  assert.deepEqual(silencedWords({ muted: [{ check: "", until }] }, NOW, CHECKS), ["Silenced", "No alerts until 14:30:00 UTC."]);
});

test("words for a stream that is silenced are of the page's zone", (t) => {
  inZone(t, "Europe/Berlin");
  const [, title] = silencedWords({ muted: [{ check: "", until: utc("2026-11-14 23:30:00") }] }, NOW, CHECKS);
  assert.equal(plain(title), "No alerts until 00:30:00 (14 Nov, 23:30:00 UTC).");
});

test("words for a stream of which some checks are silenced name them", () => {
  const muted = [{ check: "gop_long", until: null }, { check: "new_check", until: null }];
  assert.deepEqual(silencedWords({ muted }, NOW, CHECKS), ["Partly silenced", "No alerts of “Keyframes too far apart”, “new_check”."]);
});

test("words for a stream of which all and some checks are silenced are those for all", () => {
  const muted = [{ check: "gop_long", until: null }, { check: "", until: null }];
  assert.deepEqual(silencedWords({ muted }, NOW, CHECKS), ["Silenced", "No alerts."]);
});
