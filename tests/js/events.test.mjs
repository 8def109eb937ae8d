import assert from "node:assert/strict";
import { test } from "node:test";

import { describeEvent, Feed, mediaWords, mergedEvents, placeAt, rowsByDay } from "../../dashboard/static/dashboard/js/events.js";
import { inZone, plain, utc } from "./support.mjs";

const event = (kind, fields = {}) => ({ kind, session_id: "s1", sequence: 1, at: 1000, level: "", code: "", description: "", detail: {}, ...fields });
const text = (kind, fields, plays) => describeEvent(event(kind, fields), plays).text;

/* ---- what arrives ---- */

test("media in words are its size and codecs, as far as they are known", () => {
  assert.equal(mediaWords({ width: 1920, height: 1080, video_codec: "H.264", audio_codec: "AAC" }), "1920 × 1080, H.264 and AAC");
  assert.equal(mediaWords({ audio_codec: "AAC" }), "AAC");
  assert.equal(mediaWords({ width: 1280, height: 720 }), "1280 × 720");
  assert.equal(mediaWords({}), "");
});

/* ---- why a session ended ---- */

test("session that ended says why", () => {
  assert.equal(text("session.ended", { code: "tcp_reset" }), "Session ended: connection reset.");
  assert.equal(text("session.ended", { code: "client_unpublish" }), "Session ended: encoder stopped.");
});

test("session that ended says what was noted", () =>
  assert.equal(text("session.ended", { code: "kicked", description: "Wrong scene" }), "Session ended: kicked by an operator. Wrong scene"));

test("session of a player that ended says so in a player's words", () => {
  assert.equal(text("session.ended", { code: "client_unpublish" }, true), "Session ended: player left.");
  assert.equal(text("session.ended", { code: "key_revoked" }, true), "Session ended: not allowed to play any more.");
  assert.equal(text("session.ended", { code: "tcp_reset" }, true), "Session ended: connection reset.");
});

test("session that ended for a reason that the page does not know says that", () =>
  assert.equal(text("session.ended", { code: "new_reason" }), "Session ended: for an unknown reason."));

/* ---- issues, pushes, what operators did ---- */

test("issue that was resolved says which", () => {
  const { text: words, icon, classes } = describeEvent(event("health.cleared", { level: "bad", description: "Bitrate is far below its target" }));
  assert.deepEqual([words, icon, classes], ["Resolved: bitrate is far below its target", "good", "w-good"]);
});

test("issue that was resolved without a description says its code", () =>
  assert.equal(text("health.cleared", { code: "rtt_high" }), "Resolved: rtt_high"));

test("issue that ended with its session was not fixed", () => {
  const found = describeEvent(event("health.cleared", { description: "Keyframes are far apart", detail: { by: "session.ended" } }));
  assert.deepEqual([found.text, found.icon, found.classes], ["Not fixed when the session ended: keyframes are far apart", "out", ""]);
});

test("push says to where it goes, or does not", () => {
  assert.equal(text("push.live", { description: "YouTube" }), "Pushed to YouTube");
  assert.equal(text("push.failed", { description: "YouTube" }), "Not pushed to YouTube");
  assert.equal(text("push.stopped", { description: "YouTube" }), "No longer pushed to YouTube");
  assert.equal(text("operator.push", { description: "YouTube", code: "start", detail: { by: "mira" } }), "mira started the push to YouTube.");
  assert.equal(text("operator.push", { description: "YouTube", code: "stop", detail: { by: "mira" } }), "mira stopped the push to YouTube.");
});

test("note has its author and its text, as it was written", () =>
  assert.equal(text("operator.note", { description: "Venue moved to <b>Wi-Fi</b>.", detail: { by: "omar" } }), "omar: “Venue moved to <b>Wi-Fi</b>.”"));

test("kick says who, and why if that was noted", () => {
  assert.equal(text("operator.kick", { description: "Wrong scene", detail: { by: "omar" } }), "omar kicked the encoder: “Wrong scene”");
  assert.equal(text("operator.kick", { detail: { by: "omar" } }), "omar kicked the encoder.");
});

test("act without an author was somebody's", () => {
  assert.equal(text("operator.kick", { detail: {} }), "Somebody kicked the encoder.");
  assert.equal(text("operator.kick", { detail: undefined }), "Somebody kicked the encoder.");
});

test("silence says of which alerts", () => {
  const detail = { by: "mira", name: "Keyframes too far apart" };
  assert.equal(text("operator.mute", { detail }), "mira silenced all alerts.");
  assert.equal(text("operator.mute", { detail, code: "gop_long" }), "mira silenced the alerts of “Keyframes too far apart”.");
  assert.equal(text("operator.unmute", { detail, code: "gop_long" }), "mira lifted the silence of the alerts of “Keyframes too far apart”");
});

test("acknowledgement says of what, with its note", () => {
  const detail = { by: "mira", name: "Keyframes too far apart" };
  assert.equal(text("operator.ack", { detail, description: "On it" }), "mira acknowledged: keyframes too far apart: “On it”");
});

test("metadata are what arrives, or just settings", () => {
  assert.equal(text("metadata", { detail: { media: { video_codec: "H.264" } } }), "H.264");
  assert.equal(text("metadata", { detail: null }), "Encoder's settings received");
});

/* ---- other kinds, icons, codes ---- */

test("event says its own description, or else what its kind means", () => {
  assert.equal(text("record.failed", { description: "The disk is full" }), "The disk is full");
  assert.equal(text("record.failed"), "Recording failed");
});

test("event of a kind that the page does not know is shown with its kind", () =>
  assert.deepEqual(describeEvent(event("new.kind")), { text: "new.kind", code: "new.kind", icon: "info", classes: "" }));

test("event has the icon of its level before that of its kind", () => {
  const look = (kind, level) => describeEvent(event(kind, { level })).icon;
  assert.equal(look("onstatus", "error"), "bad");
  assert.equal(look("onstatus", "warning"), "warn");
  assert.equal(look("onstatus", "status"), "info");
  assert.equal(look("session.started", ""), "live");
});

test("event has its code, except where its kind says more", () => {
  const code = (kind) => describeEvent(event(kind, { code: "publish", detail: { name: "X" } })).code;
  assert.equal(code("session.ended"), "publish");
  assert.equal(code("session.started"), "session.started");
  assert.equal(code("operator.ack"), "operator.ack");
  assert.equal(describeEvent(event("onstatus")).code, "onstatus");
});

/* ---- the feed ---- */

/** A feed that notes what it takes in. */
function feed() {
  const taken = [];
  const found = new Feed(null, null);
  found.add = (events) => taken.push(...events.map(({ session_id: session }) => session));
  return { found, taken };
}

test("feed takes events of publishers that it knows, and of the one on air", () => {
  const { found, taken } = feed();
  found.replace([event("session.ended", { session_id: "former" })]);
  found.push(event("health.opened", { session_id: "former" }), "now");
  found.push(event("health.opened", { session_id: "now" }), "now");
  found.push(event("health.opened", { session_id: "player" }), "now");
  assert.deepEqual(taken, ["former", "former", "now"]);
});

test("feed takes events of a publisher that has just begun, and of no player", () => {
  const { found, taken } = feed();
  found.push(event("session.started", { session_id: "next", code: "publish" }), undefined);
  found.push(event("health.opened", { session_id: "next", code: "publish" }), undefined);
  found.push(event("session.started", { session_id: "player", code: "play" }), undefined);
  found.push(event("health.opened", { session_id: "other", code: "publish" }), undefined);
  assert.deepEqual(taken, ["next", "next"]);
});

const listed = (events) => [...events.values()].map(({ session_id: session, sequence }) => `${session} ${sequence}`);

test("events are the newest first, of one time the later in their session", () => {
  const events = [event("a", { sequence: 1, at: 100 }), event("c", { sequence: 2, at: 300 }), event("b", { sequence: 3, at: 300 })];
  assert.deepEqual(listed(mergedEvents(new Map(), events)), ["s1 3", "s1 2", "s1 1"]);
});

test("event that arrives twice is one event, as it arrived last", () => {
  const first = mergedEvents(new Map(), [event("a", { description: "old" })]);
  const merged = mergedEvents(first, [event("a", { description: "new" })]);
  assert.deepEqual([...merged.values()].map(({ description }) => description), ["new"]);
});

test("event that arrives late takes its place by its time", () => {
  const known = mergedEvents(new Map(), [event("a", { sequence: 1, at: 100 }), event("c", { sequence: 3, at: 300 })]);
  assert.deepEqual(listed(mergedEvents(known, [event("b", { sequence: 2, at: 200 })])), ["s1 3", "s1 2", "s1 1"]);
});

test("events of several sessions with the same number are several events", () =>
  assert.equal(mergedEvents(new Map(), [event("a"), event("a", { session_id: "s2" })]).size, 2));

test("events with a text for their time are in seconds", () => {
  const [found] = mergedEvents(new Map(), [event("a", { at: "1970-01-01T00:01:40Z" })]).values();
  assert.equal(found.at, 100);
});

test("events are the latest two hundred", () => {
  const events = Array.from({ length: 250 }, (_, index) => event("a", { sequence: index, at: index }));
  const merged = mergedEvents(new Map(), events);
  assert.equal(merged.size, 200);
  assert.equal(listed(merged).at(-1), "s1 50");
});

test("events that are known stay as they were", () => {
  const known = mergedEvents(new Map(), [event("a")]);
  mergedEvents(known, [event("b", { sequence: 2 })]);
  assert.equal(known.size, 1);
});

const rows = (times, today) => rowsByDay(times.map((at) => ({ at })), today).map(({ day, event: shown }) => (day ? plain(day) : shown.at));

test("events of today have no heading", () => {
  const at = utc("2026-11-14 10:00:00");
  assert.deepEqual(rows([at, at - 60], "14\u00a0Nov"), [at, at - 60]);
});

test("events of former days have a heading for each day", () => {
  const [today, late, early, before] = ["14 10:00:00", "13 23:59:59", "13 00:00:00", "12 23:59:59"].map((each) => utc(`2026-11-${each}`));
  assert.deepEqual(rows([today, late, early, before], "14\u00a0Nov"), [today, "13 Nov", late, early, "12 Nov", before]);
});

test("events have headings for days of the page's zone", (t) => {
  inZone(t, "Asia/Tokyo");
  const [after, before] = [utc("2026-11-13 15:00:00"), utc("2026-11-13 14:59:59")];
  assert.deepEqual(rows([after, before], "14\u00a0Nov"), [after, "13 Nov", before]);
});

test("events that are none have no rows", () => assert.deepEqual(rows([], "14\u00a0Nov"), []));

test("place of a moment is that of the event then, or the last one before", () => {
  assert.equal(placeAt([300, 200, 100], 200), 1);
  assert.equal(placeAt([300, 200, 100], 250), 1);
  assert.equal(placeAt([300, 200.5, 100], 200), 1, "a link has whole seconds");
  assert.equal(placeAt([300, 200.6, 100], 200), 2);
  assert.equal(placeAt([300, 200, 100], 50), -1);
  assert.equal(placeAt([], 50), -1);
});
