import assert from "node:assert/strict";
import { test } from "node:test";

import {
  nextStream,
  pictureWords,
  playersWords,
  relaysWords,
  slowestWords,
  tileWords,
  upWords,
  waitingWords,
} from "../../dashboard/static/dashboard/js/streamwords.js";
import { plain } from "./support.mjs";

const LIVE = {
  id: 1,
  state: "live",
  health: "bad",
  issues: [{ check: "starving" }],
  players: 3,
  session_id: "a",
  since: 1000,
  target_kbps: 2500,
  metadata: { framerate: 30 },
  video_kbps: 2480.5,
};

/* ---- what comes after a message ---- */

test("stream after a message is the one that the message has", () => {
  const next = { ...LIVE, video_kbps: 1 };
  assert.equal(nextStream(LIVE, next), next);
  assert.equal(nextStream(null, next), next);
});

test("stream that no node knows any more is off air, with what is known of it", () => {
  const stream = nextStream(LIVE, null);
  assert.deepEqual([stream.state, stream.health, stream.issues, stream.session_id, stream.since], ["offline", "none", [], null, null]);
  assert.deepEqual([stream.id, stream.players, stream.target_kbps, stream.metadata], [1, 0, 2500, { framerate: 30 }]);
});

test("stream that was never known is off air", () => assert.equal(nextStream(null, null).state, "offline"));

test("stream that waits keeps the target and the metadata of its last minutes", () => {
  const waiting = { state: "waiting", target_kbps: null, metadata: {} };
  assert.deepEqual(nextStream(LIVE, waiting), { state: "waiting", target_kbps: 2500, metadata: { framerate: 30 } });
});

test("stream that waits with a target and metadata of its own has these", () => {
  const waiting = { state: "waiting", target_kbps: 6000, metadata: { framerate: 50 } };
  assert.deepEqual(nextStream(LIVE, waiting), waiting);
});

test("live stream without a target does not keep a former one", () =>
  assert.equal(nextStream(LIVE, { ...LIVE, target_kbps: null }).target_kbps, null));

test("stream that is off air twice keeps its target", () => assert.equal(nextStream(nextStream(LIVE, null), null).target_kbps, 2500));

/* ---- the head ---- */

test("live stream says how long it is live, a waiting one how long it is connected", () => {
  assert.equal(plain(upWords(LIVE, 1075)), "Live for 1 min 15 s");
  assert.equal(plain(upWords({ state: "waiting", since: 1000 }, 1006)), "Connected for 6 s");
});

test("stream whose begin is ahead of the clock is live for 0 s", () => assert.equal(plain(upWords(LIVE, 999)), "Live for 0 s"));

test("stream without a begin is just live", () => assert.equal(upWords({ state: "live", since: null }, 1000), "Live"));

test("players of a stream are counted, and those of them that watch by HLS", () => {
  assert.equal(playersWords({ players: 1 }), "1 player");
  assert.equal(playersWords({ players: null }), "0 players");
  assert.equal(playersWords({ players: 1200, viewers: 9 }), "1,200 players, 9 by HLS");
});

test("relays of a stream are named with their players", () => {
  assert.equal(relaysWords({}), "");
  assert.equal(relaysWords({ relayed_to: [] }), "");
  const relayed_to = [{ node: "edge-1", players: 1 }, { node: "edge-2", players: 40 }];
  assert.equal(relaysWords({ relayed_to }), "relayed by edge-1 (1 player), edge-2 (40 players)");
});

test("stream whose encoder sends no media says since when", () => {
  const words = "An encoder connected, 6 s ago, but has sent no media. Start streaming in it.";
  assert.equal(plain(waitingWords({ state: "waiting", session_id: "a", since: 1000 }, 1006)), words);
  assert.match(waitingWords({ state: "waiting", session_id: "a", since: null }, 1006), /^An encoder connected, but has sent/);
});

test("stream that players wait for says how many", () => {
  assert.match(waitingWords({ state: "waiting", players: 1 }, 0), /^1 player waits for it\. Start streaming\./);
  assert.match(waitingWords({ state: "waiting", players: 12 }, 0), /^12 players wait for it\. Start streaming\./);
});

test("stream that is off air says what to do", () => assert.match(waitingWords({ state: "offline" }, 0), /^Start streaming\./));

/* ---- the tiles ---- */

const LIMITS = { gop_long: { warning: 4, bad: 10 }, rtt_high: { warning: null, bad: 250.5 } };
const tiles = (fields, limits = LIMITS) =>
  Object.fromEntries(Object.entries(tileWords({ ...LIVE, slowest: [], ...fields }, limits)).map(([name, words]) => [name, plain(words)]));

test("tiles show each figure with its decimals", () => {
  const words = tiles({ audio_kbps: 128.25, fps: 29.97, keyframe_interval: 2, missing_frames_est: 1200, rtt_ms: 14.5, players: 3 });
  assert.equal(words.video_kbps, "2,481");
  assert.equal(words.audio_kbps, "128");
  assert.equal(words.fps, "30.0");
  assert.equal(words.keyframe_interval, "2.0");
  assert.equal(words.missing_frames_est, "1,200");
  assert.equal(words.rtt_ms, "15");
  assert.equal(words["players-tile"], "3");
});

test("tiles of what is not measured yet are dashes", () => {
  const words = tiles({ video_kbps: null, audio_kbps: undefined, fps: null, keyframe_interval: null, rtt_ms: null, out_kbps: null });
  for (const name of ["video_kbps", "audio_kbps", "fps", "keyframe_interval", "rtt_ms", "out_kbps"]) assert.equal(words[name], "–", name);
});

test("tile of an RTT below 10 ms has a decimal", () => {
  assert.equal(tiles({ rtt_ms: 9.4 }).rtt_ms, "9.4");
  assert.equal(tiles({ rtt_ms: 0 }).rtt_ms, "0.0");
  assert.equal(tiles({ rtt_ms: 10 }).rtt_ms, "10");
});

test("tile of the egress changes its unit at 10,000 kbit/s", () => {
  assert.deepEqual([tiles({ out_kbps: 9999 }).out_kbps, tiles({ out_kbps: 9999 })["out-unit"]], ["9,999", "kbit/s"]);
  assert.deepEqual([tiles({ out_kbps: 10_000 }).out_kbps, tiles({ out_kbps: 10_000 })["out-unit"]], ["10.0", "Mbit/s"]);
});

test("tile of the bitrate has its target", () => {
  assert.equal(tiles({})["video-limit"], "of 2,500, 5 s mean");
  assert.equal(tiles({ target_kbps: null })["video-limit"], "5 s mean");
});

test("tile of the audio has the bitrate that the encoder claims", () => {
  assert.equal(tiles({ metadata: { audiodatarate: 160 } })["audio-limit"], "of 160, 5 s mean");
  for (const audiodatarate of [0, -1, "160", undefined]) assert.equal(tiles({ metadata: { audiodatarate } })["audio-limit"], "5 s mean");
});

test("tile of the frame rate has the nominal one", () => {
  assert.equal(tiles({})["fps-limit"], "of 30");
  assert.equal(tiles({ metadata: { framerate: 29.97 } })["fps-limit"], "of 29.97");
  assert.equal(tiles({ metadata: {} })["fps-limit"], "as received");
});

test("tiles have the limits of their checks, without one none", () => {
  assert.deepEqual([tiles({})["keyframe-limit"], tiles({})["rtt-limit"]], ["limit 4 s", "limit 250.5 ms"]);
  assert.deepEqual([tiles({}, {})["keyframe-limit"], tiles({}, {})["rtt-limit"]], ["", ""]);
});

test("tile of the players says how many are slow, and what they lost", () => {
  assert.equal(tiles({ slow_players: 0 }).slow, "none slow");
  assert.equal(tiles({ slow_players: 2, dropped_frames: 0 }).slow, "2 slow");
  assert.equal(tiles({ slow_players: 2, dropped_frames: 1 }).slow, "2 slow, 1 frame dropped in the last minute");
  assert.equal(tiles({ slow_players: 0, dropped_frames: 50 }).slow, "none slow");
  assert.equal(tiles({ slow_players: 1, dropped_frames: 1500, viewers: 9 }).slow, "9 by HLS, 1 slow, 1,500 frames dropped in the last minute");
});

test("slowest players have a line each", () => {
  const slowest = [
    { session_id: "0123456789", queued_ms: 2500, dropped_video: 1, dropped_audio: 0 },
    { session_id: "abcdefghij", queued_ms: 0, dropped_video: 1200, dropped_audio: 2 },
  ];
  assert.equal(
    plain(slowestWords({ slowest })),
    "01234567: 2.5 s behind, 1 video frame and 0 audio frames dropped\nabcdefgh: 0.0 s behind, 1,200 video frames and 2 audio frames dropped",
  );
  assert.equal(slowestWords({ slowest: [] }), "");
});

test("picture that arrives has its size and frame rate, as far as they are known", () => {
  assert.equal(plain(pictureWords({ media: { width: 1920, height: 1080 }, fps: 29.97 })), "1920 × 1080, 30.0 fps");
  assert.equal(plain(pictureWords({ media: {}, fps: 25 })), "25.0 fps");
  assert.equal(pictureWords({ media: { width: 1280, height: 720 }, fps: null }), "1280 × 720");
  assert.equal(pictureWords({ media: {}, fps: null }), "");
});
