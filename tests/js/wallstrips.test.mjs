import assert from "node:assert/strict";
import { test } from "node:test";

import { refusedSeenAt } from "../../dashboard/static/dashboard/js/refused.js";
import { Drops } from "../../dashboard/static/dashboard/js/walldrops.js";
import { Dropped, Missing, NodeStrip, Refused } from "../../dashboard/static/dashboard/js/wallstrips.js";
import { inZone, plain, utc } from "./support.mjs";

const NOW = utc("2026-11-14 13:31:46");

/* ---- nodes ---- */

const node = (name, at = NOW, fields = {}) => ({ node: name, at, ...fields });
const snapshot = (...nodes) => ({ kind: "snapshot", nodes });
const update = (name, ...nodes) => ({ kind: "update", node: name, nodes });

function strip(...messages) {
  const found = new NodeStrip(null);
  for (const message of messages) found.take(message);
  return found;
}

const namesOf = ({ nodes }) => [...nodes.keys()];

test("snapshot's nodes replace those that were known", () =>
  assert.deepEqual(namesOf(strip(snapshot(node("a"), node("b")), snapshot(node("b")))), ["b"]));

test("update changes its node and keeps the others", () => {
  const found = strip(snapshot(node("a", NOW, { players: 1 }), node("b")), update("a", node("a", NOW + 1, { players: 2 })));
  assert.deepEqual(namesOf(found), ["a", "b"]);
  assert.equal(found.nodes.get("a").players, 2);
});

test("update of a node that is new adds it", () => assert.deepEqual(namesOf(strip(update("c", node("c")))), ["c"]));

test("update without figures is of a node that stopped in order", () =>
  assert.deepEqual(namesOf(strip(snapshot(node("a"), node("b")), update("a"))), ["b"]));

test("update without refusals keeps those that were told last", () => {
  const refused = [{ reason: "key_unknown" }];
  const found = strip(snapshot(node("a", NOW, { refused })), update("a", node("a", NOW + 1)));
  assert.deepEqual(found.nodes.get("a").refused, refused);
  found.take(update("a", node("a", NOW + 2, { refused: [] })));
  assert.deepEqual(found.nodes.get("a").refused, []);
});

test("node that is silent for more than 5 s is taken out", () => {
  const found = strip(snapshot(node("a", NOW - 5), node("b", NOW - 5.1), node("c")));
  found.removeSilent(NOW);
  assert.deepEqual(namesOf(found), ["a", "c"]);
});

test("last node stays however long it is silent", () => {
  const found = strip(snapshot(node("a", NOW - 500)));
  found.removeSilent(NOW);
  assert.deepEqual(namesOf(found), ["a"]);
});

/* ---- refused encoders ---- */

const GROUP = { reason: "key_unknown", words: "Wrong key", app: "live", name: "…", address: "203.0.113.7", count: 8, since: NOW - 45, at: NOW - 5 };

function refused(groups, seenAt = 0) {
  return new Refused(strip(snapshot(...groups.map((each, index) => node(`n${index}`, NOW, { refused: each })))), "/attempts/", () => seenAt);
}

test("encoder that two nodes refuse is one item, with all of its tries", () => {
  const [item, ...more] = refused([[GROUP], [{ ...GROUP, count: 4, since: NOW - 60, at: NOW - 1 }]]).items(NOW);
  assert.deepEqual(more, []);
  assert.deepEqual([item.count, item.since, item.at], [12, NOW - 60, NOW - 1]);
});

test("encoders that are refused for other reasons, streams or addresses are items of their own", () => {
  const groups = [GROUP, { ...GROUP, reason: "key_expired" }, { ...GROUP, name: "other" }, { ...GROUP, address: "192.0.2.1" }];
  assert.equal(refused([groups]).items(NOW).length, 4);
});

test("encoder that was refused last more than ten minutes ago is no item", () => {
  assert.equal(refused([[{ ...GROUP, at: NOW - 600 }]]).items(NOW).length, 1);
  assert.equal(refused([[{ ...GROUP, at: NOW - 601 }]]).items(NOW).length, 0);
});

test("encoder that began before somebody had seen it is no item", () => {
  assert.equal(refused([[GROUP]], GROUP.since - 1).items(NOW).length, 1);
  assert.equal(refused([[GROUP]], GROUP.since).items(NOW).length, 0);
});

test("encoders that are refused are those that began last first", () => {
  const groups = [{ ...GROUP, address: "a", since: 1 }, { ...GROUP, address: "b", since: 3 }, { ...GROUP, address: "c", since: 2 }];
  assert.deepEqual(refused([groups]).items(NOW).map(({ address }) => address), ["b", "c", "a"]);
});

test("nodes that say nothing of refusals have no items", () => assert.deepEqual(refused([undefined]).items(NOW), []));

test("encoder that is refused says how often, in how long and from where", () => {
  const words = (fields) => plain(refused([]).words({ ...GROUP, ...fields }));
  assert.equal(words({}), "8 in 40 s, from 203.0.113.7");
  assert.equal(words({ count: 1200, since: NOW - 3605 }), "1,200 in 1 h 0 min, from 203.0.113.7");
  assert.equal(words({ count: 2, since: NOW - 5 }), "2 in 1 s, from 203.0.113.7");
  assert.equal(words({ count: 1 }), "Once, from 203.0.113.7");
  assert.equal(words({ count: 1, address: "" }), "Once, from many addresses");
});

test("encoder that is refused says for which stream, and when last", () => {
  const state = (fields) => plain(refused([]).state({ ...GROUP, ...fields }, NOW)[2]);
  assert.equal(state({}), "For live/…, last 5 s ago");
  assert.equal(state({ name: "" }), "For live, last 5 s ago");
  assert.equal(state({ app: "", name: "" }), "Last 5 s ago");
});

test("encoder that is refused leads to the list of its refusals", () => {
  assert.equal(refused([]).href(GROUP), "/attempts/?reason=key_unknown&address=203.0.113.7");
  assert.equal(refused([]).href({ ...GROUP, address: "" }), "/attempts/?reason=key_unknown");
});

test("cookie says until when refusals are seen", () => {
  assert.equal(refusedSeenAt("theme=dark; refused_seen=1700000000; other=1"), 1_700_000_000);
  assert.equal(refusedSeenAt("refused_seen_not=5"), 0);
  assert.equal(refusedSeenAt("refused_seen=soon"), 0);
  assert.equal(refusedSeenAt(""), 0);
});

/* ---- streams that dropped ---- */

const DROP = { id: "s1", stream: 1, app: "live", name: "arena", at: NOW - 100, words: "Connection reset", back: null, seen: true };

function droppedStrip(...drops) {
  const found = new Drops();
  found.take({ kind: "update", at: NOW, drops });
  return new Dropped(found, (id) => `/sessions/${id}/`);
}

test("stream that dropped within 15 min is an item, once it is back or seen", () => {
  const items = (fields) => droppedStrip({ ...DROP, ...fields }).items(NOW).length;
  assert.equal(items({}), 1);
  assert.equal(items({ seen: false }), 0);
  assert.equal(items({ seen: false, back: NOW - 62 }), 1);
  assert.equal(items({ at: NOW - 899 }), 1);
  assert.equal(items({ at: NOW - 900 }), 0);
});

test("stream that dropped says why, and how long it was off", () => {
  const shown = droppedStrip(DROP);
  assert.equal(shown.subject(DROP), "live/arena");
  assert.equal(shown.href(DROP), "/sessions/s1/");
  assert.equal(shown.words(DROP), "Dropped: connection reset");
  const state = (fields) => plain(shown.state({ ...DROP, ...fields }, NOW)[2]);
  assert.equal(state({ at: NOW - 700 }), "Off for 11 min 40 s");
  assert.equal(state({ back: NOW - 62 }), "Back after 38 s");
  assert.equal(state({ back: NOW - 101 }), "Back after 0 s");
});

/* ---- streams that should be live ---- */

const EXPECTED = { id: 1, app: "live", name: "demo", since: utc("2026-11-14 13:00:00"), until: utc("2026-11-14 14:00:00"), was_live: false };

function missing(...found) {
  const strip = new Missing("/expected", () => "", (id) => id === 9);
  strip.found = found;
  return strip;
}

test("stream that should be live is an item until its time ends, unless it is live", () => {
  const keys = (strip, now) => strip.items(now).map(({ key }) => key);
  assert.deepEqual(keys(missing(EXPECTED, { ...EXPECTED, id: 9 }), NOW), [`1 ${EXPECTED.since}`]);
  assert.deepEqual(keys(missing(EXPECTED), EXPECTED.until), []);
});

test("stream that should be live says since when", () => {
  assert.equal(missing().words(EXPECTED), "Should be live since 13:00");
  assert.equal(missing().words({ ...EXPECTED, was_live: true }), "Off air since 13:00, expected until 14:00");
  assert.equal(plain(missing().state(EXPECTED, NOW)[2]), "Missing for 31 min 46 s");
});

test("stream that should be live says so in the page's zone", (t) => {
  inZone(t, "America/St_Johns");
  assert.equal(missing().words(EXPECTED), "Should be live since 09:30");
});
