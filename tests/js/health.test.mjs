import assert from "node:assert/strict";
import { test } from "node:test";

import { acknowledges, health, healthOf } from "../../dashboard/static/dashboard/js/health.js";

const ISSUE = { check: "gop_long", level: "warning", since: 500 };
const ACK = { check: "gop_long", level: "warning", since: 500 };

test("healths are ordered from bad to good", () => {
  const names = ["good", "none", "bad", "warning"];
  assert.deepEqual(names.sort((a, b) => health(a).rank - health(b).rank), ["bad", "warning", "none", "good"]);
});

test("health of an unknown name is pending", () => {
  assert.equal(health("purple").word, "Pending");
  assert.equal(health(undefined).word, "Pending");
});

test("health of a stream in its first seconds says how many are left", () => {
  assert.equal(healthOf({ health: "none", checking_s: 7 }).word, "Checking, 7 s");
  assert.equal(healthOf({ health: "none", checking_s: 0 }).word, "Pending");
  assert.equal(healthOf({ health: "none", checking_s: null }).word, "Pending");
});

test("health of a stream that is judged has no seconds left", () => {
  assert.equal(healthOf({ health: "good", checking_s: 7 }).word, "Good");
  assert.equal(healthOf({ health: "bad" }).word, "Bad");
});

test("acknowledgement is of the same check since it opened", () => {
  assert.equal(acknowledges(ACK, ISSUE), true);
  assert.equal(acknowledges({ ...ACK, check: "rtt_high" }, ISSUE), false);
});

test("acknowledgement is of the same opening within half a second", () => {
  assert.equal(acknowledges({ ...ACK, since: 500.4 }, ISSUE), true);
  assert.equal(acknowledges({ ...ACK, since: 499.6 }, ISSUE), true);
  assert.equal(acknowledges({ ...ACK, since: 500.5 }, ISSUE), false);
});

test("acknowledgement of a bad issue holds when it gets better, of a warning not when it gets worse", () => {
  assert.equal(acknowledges({ ...ACK, level: "bad" }, ISSUE), true);
  assert.equal(acknowledges(ACK, { ...ISSUE, level: "bad" }), false);
});
