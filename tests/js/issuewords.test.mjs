import assert from "node:assert/strict";
import { test } from "node:test";

import { ackWords, levelCounts, openWords, silenceWords, sortedWithAcks } from "../../dashboard/static/dashboard/js/issuewords.js";
import { inZone, plain, utc } from "./support.mjs";

const NOW = utc("2026-11-14 13:00:00");
const CHECKS = { gop_long: { name: "Keyframes too far apart" } };
const issue = (check, level, since) => ({ check, level, since });
const ack = (check, level, since, session = "s1") => ({ code: check, session_id: session, detail: { level, since } });
const sorted = (issues, acks = []) => sortedWithAcks({ session_id: "s1", issues }, acks).map(({ issue: { check } }) => check);

/* ---- order ---- */

test("issues are the worst first, and of one level the oldest", () =>
  assert.deepEqual(sorted([issue("a", "warning", 1), issue("b", "bad", 9), issue("c", "bad", 5)]), ["c", "b", "a"]));

test("issues that somebody takes care of come after the others of their level", () => {
  const issues = [issue("a", "bad", 1), issue("b", "bad", 9), issue("c", "warning", 1)];
  assert.deepEqual(sorted(issues, [ack("a", "bad", 1)]), ["b", "a", "c"]);
});

test("issue is acknowledged in its own session only", () => {
  const found = (acks) => sortedWithAcks({ session_id: "s1", issues: [issue("a", "bad", 5)] }, acks)[0].ack;
  assert.equal(found([]), undefined);
  assert.equal(found([ack("a", "bad", 5, "s2")]), undefined);
  assert.equal(found([ack("b", "bad", 5)]), undefined);
  assert.equal(found([ack("a", "bad", 99)]), undefined);
  assert.equal(found([ack("b", "bad", 5), ack("a", "bad", 5)]).code, "a");
});

test("issues that are none have no order", () => assert.deepEqual(sorted([]), []));

/* ---- words ---- */

test("counts of issues are by level, without levels that have none", () => {
  const [bad, warning] = [issue("a", "bad", 1), issue("b", "warning", 1)];
  assert.deepEqual(levelCounts([bad, bad, warning]), [["bad", "2 bad"], ["warning", "1 warning"]]);
  assert.deepEqual(levelCounts([warning, warning]), [["warning", "2 warnings"]]);
  assert.deepEqual(levelCounts([]), []);
});

test("issue says how long it is open", () => {
  assert.equal(plain(openWords(issue("a", "bad", NOW - 75), NOW)), "open for 1 min 15 s");
  assert.equal(plain(openWords(issue("a", "bad", NOW + 1), NOW)), "open for 0 s");
});

const acknowledged = (fields) => plain(ackWords({ detail: { by: "mira" }, at: "2026-11-14T12:31:46Z", description: "", ...fields }, NOW));

test("acknowledgement says who and when", () => {
  assert.equal(acknowledged({}), "Acknowledged by mira at 12:31:46");
  assert.equal(acknowledged({ description: "On it" }), "Acknowledged by mira at 12:31:46: “On it”");
});

test("acknowledgement of a former day has its day", () =>
  assert.equal(acknowledged({ at: "2026-11-13T23:59:59Z" }), "Acknowledged by mira at 13 Nov, 23:59:59"));

test("acknowledgement in another zone has the zone's day, and UTC", (t) => {
  inZone(t, "Asia/Tokyo");
  assert.equal(acknowledged({ at: "2026-11-13T23:59:59Z" }), "Acknowledged by mira at 08:59:59 (13 Nov, 23:59:59 UTC)");
});

const silence = (fields) => plain(silenceWords({ check: "", of: "", until: null, note: "", by: "", ...fields }, CHECKS, NOW));

test("silence says until when, without seconds of a full minute", () => {
  assert.equal(silence({}), "Silenced until somebody lifts it.");
  assert.equal(silence({ until: utc("2026-11-14 14:30:00") }), "Silenced until 14:30.");
  assert.equal(silence({ until: utc("2026-11-14 14:30:05") }), "Silenced until 14:30:05.");
  assert.equal(silence({ until: utc("2026-11-15 06:00:00") }), "Silenced until 15 Nov, 06:00.");
});

test("silence until midnight has the next day", () =>
  assert.equal(silence({ until: utc("2026-11-15 00:00:00") }), "Silenced until 15 Nov, 00:00."));

test("silence in another zone has UTC, without seconds in both", (t) => {
  inZone(t, "Europe/Berlin");
  assert.equal(silence({ until: utc("2026-11-14 14:30:00") }), "Silenced until 15:30 (14:30 UTC).");
});

test("silence says whose, of what and why", () => {
  const until = utc("2026-11-14 14:30:00");
  assert.equal(silence({ until, by: "mira" }), "Silenced until 14:30 by mira.");
  assert.equal(silence({ until, check: "gop_long" }), "Silenced until 14:30 (“Keyframes too far apart”).");
  assert.equal(silence({ until, check: "new_check", of: "all of live" }), "Silenced until 14:30 (“new_check”, all of live).");
  assert.equal(silence({ until, by: "mira", of: "everything", note: "Encoder swap" }), "Silenced until 14:30 by mira (everything): Encoder swap");
});
