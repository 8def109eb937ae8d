import assert from "node:assert/strict";
import { test } from "node:test";

import { figures, isPushEvent, lookOf } from "../../dashboard/static/dashboard/js/pushes.js";
import { plain } from "./support.mjs";

const LIVE = { state: "live", since: 1000, kbps: 2612.4, behind_ms: 0, retry_at: null };
const words = (fields) => plain(figures({ ...LIVE, ...fields }, 1075));

test("push that is live has its bitrate, and how long it goes", () => {
  assert.equal(words({}), "2,612 kbit/s for 1 min 15 s");
  assert.equal(words({ kbps: 12_000 }), "12.0 Mbit/s for 1 min 15 s");
  assert.equal(words({ since: null }), "2,612 kbit/s");
});

test("push that is a second behind says so", () => {
  assert.equal(words({ behind_ms: 999 }), "2,612 kbit/s for 1 min 15 s");
  assert.equal(words({ behind_ms: 1000 }), "2,612 kbit/s for 1 min 15 s, 1 s behind");
});

test("push that tries again says when", () => {
  assert.equal(words({ state: "retrying", retry_at: 1079 }), "again in 4 s");
  assert.equal(words({ state: "retrying", retry_at: 1070 }), "again in 0 s");
});

test("push in another state says since when it is in it", () => {
  assert.equal(words({ state: "connecting" }), "for 1 min 15 s");
  assert.equal(words({ state: "retrying" }), "for 1 min 15 s");
  assert.equal(words({ state: "stopped", since: null }), "");
});

test("push that stopped by a failure has failed", () => {
  assert.deepEqual(lookOf({ state: "stopped", failure: "refused" }), ["bad", "Failed"]);
  assert.deepEqual(lookOf({ state: "stopped", failure: "" }), ["none", "Stopped"]);
  assert.deepEqual(lookOf({ state: "retrying", failure: "refused" }), ["warn", "Tries again"]);
});

test("push in a state that the page does not know has stopped", () => assert.deepEqual(lookOf({ state: "dancing", failure: "" }), ["none", "Stopped"]));

test("events of pushes are those of nodes and of operators", () => {
  for (const kind of ["push.live", "push.failed", "operator.push", "operator.push.removed"]) assert.equal(isPushEvent({ kind }), true, kind);
  for (const kind of ["pushed", "operator.kick", "session.push"]) assert.equal(isPushEvent({ kind }), false, kind);
});
