import assert from "node:assert/strict";
import { test } from "node:test";

import { dropped, Drops, shownStream } from "../../dashboard/static/dashboard/js/walldrops.js";

const AT = 1000;
const DROP = {
  id: "session-1",
  stream: 1,
  app: "live",
  name: "arena",
  node: "n1",
  at: AT,
  words: "Connection reset",
  advice: "Check the uplink.",
  back: null,
  seen: false,
};

const update = (...drops) => ({ kind: "update", at: AT, drops });
const snapshot = (at, ...drops) => ({ kind: "snapshot", at, drops });

function after(...messages) {
  const drops = new Drops();
  for (const message of messages) drops.take(message);
  return drops;
}

/* ---- taking in ---- */

test("drop touches its stream and is open", () => {
  const drops = new Drops();
  assert.deepEqual(drops.take(update(DROP)), new Set([1]));
  assert.equal(drops.open(1).id, "session-1");
  assert.equal(drops.open(2), undefined);
});

test("message without drops touches nothing", () => assert.deepEqual(after().take({ kind: "update", at: AT }), new Set()));

test("drop that a snapshot lacks stays for 15 s, as the database may not know it yet", () => {
  const drops = after(update(DROP));
  assert.deepEqual(drops.take(snapshot(AT + 15)), new Set([1]));
  assert.ok(drops.open(1));
  drops.take(snapshot(AT + 15.1));
  assert.equal(drops.open(1), undefined);
});

test("drop that arrives twice is the same", () => {
  const drops = after(update(DROP), update(DROP));
  assert.deepEqual(drops.open(1), DROP);
});

test("drop that is known to be seen, or back, stays so when an older text of it arrives", () => {
  const seen = after(update({ ...DROP, seen: true }), update(DROP));
  assert.equal(seen.open(1), undefined);
  const back = after(update({ ...DROP, back: AT + 38 }), update(DROP));
  assert.equal(back.closed(0)[0].back, AT + 38);
});

test("earlier drop of the stream that arrives late is ignored", () => {
  const drops = after(update(DROP), update({ ...DROP, id: "session-0", at: AT - 100 }));
  assert.equal(drops.open(1).id, "session-1");
});

test("later drop of the stream replaces one that was seen", () => {
  const drops = after(update({ ...DROP, seen: true }), update({ ...DROP, id: "session-2", at: AT + 100 }));
  assert.equal(drops.open(1).id, "session-2");
});

/* ---- what ends a drop ---- */

test("stream that another encoder session publishes is back since then", () => {
  const drops = after(update(DROP));
  drops.heed({ id: 1, session_id: "session-2", since: AT + 38 });
  assert.equal(drops.open(1), undefined);
  assert.equal(drops.closed(0)[0].back, AT + 38);
});

test("stream whose new session has no begin is back since the drop", () => {
  const drops = after(update(DROP));
  drops.heed({ id: 1, session_id: "session-2", since: null });
  assert.equal(drops.closed(0)[0].back, AT);
});

test("stream that is of the session that ended, or of players alone, is not back", () => {
  const drops = after(update(DROP));
  drops.heed({ id: 1, session_id: "session-1", since: 500 });
  drops.heed({ id: 1, session_id: null, since: null });
  drops.heed({ id: 2, session_id: "session-3", since: 500 });
  assert.ok(drops.open(1));
});

test("stream that comes back a second time keeps its first return", () => {
  const drops = after(update(DROP));
  drops.heed({ id: 1, session_id: "session-2", since: AT + 38 });
  drops.heed({ id: 1, session_id: "session-3", since: AT + 90 });
  assert.equal(drops.closed(0)[0].back, AT + 38);
});

test("closed drops are those that are back or seen, the latest first", () => {
  const drops = after(
    update(
      DROP,
      { ...DROP, id: "b", stream: 2, at: AT + 1, seen: true },
      { ...DROP, id: "c", stream: 3, at: AT + 2, back: AT + 9 },
      { ...DROP, id: "d", stream: 4, at: AT - 900, seen: true },
    ),
  );
  assert.deepEqual(drops.closed(AT - 900).map(({ id }) => id), ["c", "b"]);
});

/* ---- what the wall shows ---- */

const LIVE = { id: 1, state: "live", session_id: "session-1", since: 500, players: 3, media: { video_codec: "H.264" }, encoder: "OBS", thumbnail: 5 };

test("stream without a drop is shown as its node reports it", () => {
  assert.equal(shownStream(1, LIVE, after(), undefined), LIVE);
  assert.equal(shownStream(1, undefined, after(), LIVE), undefined);
});

test("stream that dropped is shown with what its card knew", () => {
  const shown = shownStream(1, undefined, after(update(DROP)), LIVE);
  assert.deepEqual([shown.state, shown.health, shown.session_id, shown.since], ["dropped", "bad", null, AT]);
  assert.deepEqual([shown.players, shown.media, shown.encoder, shown.thumbnail], [3, LIVE.media, "OBS", 5]);
});

test("stream that dropped while players wait is shown as dropped, with these players", () => {
  const waiting = { id: 1, state: "waiting", session_id: null, since: null, players: 9 };
  const shown = shownStream(1, waiting, after(update(DROP)), LIVE);
  assert.deepEqual([shown.state, shown.players], ["dropped", 9]);
});

test("stream whose node still has the session that ended is shown as live", () =>
  assert.equal(shownStream(1, LIVE, after(update(DROP)), undefined).state, "live"));

test("stream that is back is shown as live", () => {
  const back = { ...LIVE, session_id: "session-2", since: AT + 5 };
  assert.equal(shownStream(1, back, after(update(DROP)), undefined), back);
});

test("stream whose drop somebody has seen is not shown", () =>
  assert.equal(shownStream(1, undefined, after(update({ ...DROP, seen: true })), LIVE), undefined));

test("stream that dropped before the page was opened has no figures", () => {
  const shown = dropped(DROP, undefined);
  assert.deepEqual([shown.id, shown.app, shown.name, shown.node], [1, "live", "arena", "n1"]);
  assert.deepEqual([shown.players, shown.media, shown.encoder, shown.thumbnail], [0, {}, "", null]);
});

test("stream that dropped has its end as its issue", () => {
  const [issue] = dropped(DROP, LIVE).issues;
  assert.deepEqual([issue.level, issue.since, issue.title, issue.advice], ["bad", AT, "Dropped: connection reset.", "Check the uplink."]);
});
