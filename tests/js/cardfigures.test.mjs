import assert from "node:assert/strict";
import { test } from "node:test";

import {
  bitrateWords,
  cardPictureWords,
  cardPlayersWords,
  CardPoints,
  cardWaitingWords,
  encoderWords,
  isAudioOnly,
  isStarving,
  issueFact,
  pushingWords,
  shownKbps,
  sortedIssues,
} from "../../dashboard/static/dashboard/js/cardfigures.js";
import { plain } from "./support.mjs";

const LIVE = {
  app: "live",
  name: "arena",
  state: "live",
  health: "good",
  issues: [],
  since: 1000,
  idle_ms: 20,
  target_kbps: 2500,
  video_kbps: 2480,
  audio_kbps: 128,
  media: { video_codec: "H.264", audio_codec: "AAC" },
};
const SOUND = { ...LIVE, video_kbps: 0, media: { audio_codec: "AAC" } };

/* ---- the bitrate ---- */

test("stream with audio and neither video nor a video codec is audio only", () => {
  assert.equal(isAudioOnly(SOUND), true);
  assert.equal(isAudioOnly({ ...SOUND, video_kbps: null, media: undefined }), true);
});

test("stream with video, or that sends nothing, is not audio only", () => {
  assert.equal(isAudioOnly(LIVE), false);
  assert.equal(isAudioOnly({ ...LIVE, video_kbps: 0 }), false, "its picture stands still");
  assert.equal(isAudioOnly({ ...SOUND, audio_kbps: 0 }), false);
});

test("card shows the video's bitrate, and the audio's of a stream that is audio only", () => {
  assert.equal(shownKbps(LIVE), 2480);
  assert.equal(shownKbps(SOUND), 128);
});

test("card shows the target only where the stream needs attention", () => {
  assert.equal(bitrateWords(LIVE), "kbit/s");
  assert.equal(plain(bitrateWords({ ...LIVE, health: "warning" })), "of 2,500 kbit/s");
  assert.equal(plain(bitrateWords({ ...LIVE, health: "bad" })), "of 2,500 kbit/s");
  assert.equal(bitrateWords({ ...LIVE, health: "bad", target_kbps: null }), "kbit/s");
  assert.equal(bitrateWords({ ...SOUND, health: "bad" }), "kbit/s of audio");
});

/* ---- the last minute ---- */

const kbps = (points) => points.list.map(({ at, kbps: value }) => [at, value]);

test("point is added for each second of a live stream", () => {
  const points = new CardPoints();
  points.sample(LIVE, 100);
  points.sample({ ...LIVE, video_kbps: 1000, health: "bad" }, 101);
  assert.deepEqual(points.list, [
    { at: 100, kbps: 2480, health: "good" },
    { at: 101, kbps: 1000, health: "bad" },
  ]);
});

test("point of a tick that arrives twice is added once", () => {
  const points = new CardPoints();
  for (const at of [100, 100, 100.4, 100.5]) points.sample(LIVE, at);
  assert.deepEqual(points.list.map(({ at }) => at), [100, 100.5]);
});

test("point that arrives late is not added", () => {
  const points = new CardPoints();
  for (const at of [100, 99, 101]) points.sample(LIVE, at);
  assert.deepEqual(points.list.map(({ at }) => at), [100, 101]);
});

test("stream that is not live has no points, and its old ones go after a minute", () => {
  const points = new CardPoints();
  points.sample(LIVE, 100);
  points.sample({ ...LIVE, state: "waiting" }, 161);
  assert.equal(points.list.length, 1);
  points.sample({ ...LIVE, state: "waiting" }, 162);
  assert.equal(points.list.length, 0);
});

test("seconds before the page was opened are put in front, as means of five", () => {
  const points = new CardPoints();
  points.sample(LIVE, 106);
  const video_kbps = [1000, 2000, 3000, 4000, 5000, 6000];
  points.seed(LIVE, { at: [100, 101, 102, 103, 104, 105], video_kbps, audio_kbps: [], health: Array(6).fill("good") });
  assert.deepEqual(kbps(points), [[100, 1000], [101, 1500], [102, 2000], [103, 2500], [104, 3000], [105, 4000], [106, 2480]]);
});

test("seconds that the page has seen are not put in front again", () => {
  const points = new CardPoints();
  points.sample(LIVE, 101);
  points.seed(LIVE, { at: [100, 100.6, 101, 102], video_kbps: [1, 1, 1, 1], audio_kbps: [], health: [] });
  assert.deepEqual(points.list.map(({ at }) => at), [100, 101]);
});

test("seconds before the page was opened are of the audio if the stream is audio only", () => {
  const points = new CardPoints();
  points.seed(SOUND, { at: [100], video_kbps: [0], audio_kbps: [128], health: ["good"] });
  assert.deepEqual(kbps(points), [[100, 128]]);
});

/* ---- words ---- */

test("waiting stream says who is there already", () => {
  assert.equal(cardWaitingWords({ session_id: null, since: null }, 1000), "Players wait for an encoder.");
  assert.equal(plain(cardWaitingWords({ session_id: "a", since: 994 }, 1000)), "An encoder is accepted, but no media has arrived for 6 s.");
  assert.equal(cardWaitingWords({ session_id: "a", since: null }, 1000), "An encoder is accepted, but no media has arrived.");
});

for (const [fields, words] of [
  [{ players: 0 }, "0"],
  [{ players: 12, viewers: 0, slow_players: 0 }, "12"],
  [{ players: 12, viewers: 0, slow_players: 1 }, "12, 1 slow"],
  [{ players: 12, viewers: 9, slow_players: 0 }, "12, 9 by HLS"],
  [{ players: 1200, viewers: 9, slow_players: 1 }, "1,200, 9 by HLS, 1 slow"],
])
  test(`players ${JSON.stringify(fields)} are shown as ${words}`, () => assert.equal(plain(cardPlayersWords(fields)), words));

for (const [pushing, words] of [
  [{ live: 1, failing: 0 }, "Pushed to 1 other server"],
  [{ live: 2, failing: 1 }, "Pushed to 2 other servers, 1 push fails"],
  [{ live: 0, failing: 2 }, "2 pushes fail"],
  [{ live: 0, failing: 0 }, ""],
  [null, ""],
  [undefined, ""],
])
  test(`pushes ${JSON.stringify(pushing)} are shown as "${words}"`, () => {
    const found = pushingWords({ ...LIVE, pushing });
    assert.equal(found.words, words);
    assert.equal(found.failing, pushing?.failing ?? 0);
  });

test("pushes of a stream that is not live are not shown", () =>
  assert.equal(pushingWords({ ...LIVE, state: "waiting", pushing: { live: 1, failing: 1 } }).words, ""));

test("encoder is shown after what it sends", () => {
  assert.equal(encoderWords({ media: LIVE.media, encoder: "OBS 30" }), "H.264 and AAC, OBS 30");
  assert.equal(encoderWords({ media: {}, encoder: "" }), "");
});

/* ---- the picture ---- */

test("stream that sends nothing for two seconds is starving", () => {
  assert.equal(isStarving({ ...LIVE, idle_ms: 1999 }), false);
  assert.equal(isStarving({ ...LIVE, idle_ms: 2000 }), true);
  assert.equal(isStarving({ ...LIVE, state: "waiting", idle_ms: 9000 }), false);
});

test("picture has its application where the stream is well, and nothing where it needs attention", () => {
  assert.equal(cardPictureWords(LIVE, 2000, true), "live");
  assert.equal(cardPictureWords({ ...LIVE, health: "bad" }, 2000, true), "");
});

test("picture of a starving stream has its age", () =>
  assert.equal(plain(cardPictureWords({ ...LIVE, idle_ms: 14_200 }, 2000, true)), "Last picture 14 s ago"));

test("picture of a stream that dropped is its last one", () =>
  assert.equal(cardPictureWords({ ...LIVE, state: "dropped", health: "bad", drop: {} }, 2000, true), "Last picture"));

test("stream without a picture says why there is none", () => {
  assert.equal(cardPictureWords(SOUND, 2000, false), "live, audio only");
  assert.equal(cardPictureWords(LIVE, 1021, false), "live, no picture of H.264");
  assert.equal(cardPictureWords({ ...LIVE, state: "waiting", media: {} }, 2000, false), "live, no picture yet");
});

test("stream in its first 20 s, or that starves, has no picture yet", () => {
  assert.equal(cardPictureWords(LIVE, 1020, false), "live, no picture yet");
  assert.equal(cardPictureWords({ ...LIVE, idle_ms: 2000 }, 1021, false), "live, no picture yet");
  assert.equal(cardPictureWords({ ...LIVE, since: null }, 1021, false), "live, no picture yet");
});

test("stream that needs attention says why it has no picture, without its application", () =>
  assert.equal(cardPictureWords({ ...LIVE, health: "bad" }, 1021, false), "no picture of H.264"));

test("stream that dropped without a picture says nothing of it", () =>
  assert.equal(cardPictureWords({ ...LIVE, state: "dropped", health: "bad", drop: {} }, 2000, false), ""));

/* ---- issues ---- */

const issue = (check, level, since = 50) => ({ check, level, since, title: check, actual: "", expected: "" });

test("issues of a card are the worst first", () => {
  const issues = [issue("a", "warning"), issue("b", "bad"), issue("c", "warning"), issue("d", "bad")];
  assert.deepEqual(sortedIssues({ issues }, {}).map(({ check }) => check), ["b", "d", "a", "c"]);
});

test("issues that somebody takes care of come last, also bad ones", () => {
  const issues = [issue("a", "bad"), issue("b", "warning")];
  const found = sortedIssues({ issues }, { acknowledged: [{ check: "a", level: "bad", since: 50 }] });
  assert.deepEqual(found.map(({ check, known }) => [check, known]), [["b", false], ["a", true]]);
});

test("issues of the stream itself stay as they are", () => {
  const issues = [issue("a", "warning"), issue("b", "bad")];
  sortedIssues({ issues }, {});
  assert.deepEqual(issues, [issue("a", "warning"), issue("b", "bad")]);
});

test("fact of an issue has what was measured and what is expected", () => {
  const fields = { title: "Bitrate is far below its target", actual: "980 kbit/s", expected: "1,750 kbit/s at least" };
  assert.equal(issueFact(fields), "Bitrate is far below its target: 980 kbit/s, expected 1,750 kbit/s at least.");
  assert.equal(issueFact({ ...fields, expected: "" }), "Bitrate is far below its target: 980 kbit/s.");
  assert.equal(issueFact({ ...fields, actual: "" }), "Bitrate is far below its target");
});

test("fact of an issue whose title is a sentence is that sentence", () =>
  assert.equal(issueFact({ title: "Dropped: connection reset.", actual: "7 s", expected: "" }), "Dropped: connection reset."));
