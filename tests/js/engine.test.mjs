import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { makeEngine } from "../../dashboard/static/watch/engine.js";

const FOLDER = "https://example.org/hls/live/sunday/";

class FakeHls {
  static Events = { ERROR: "error", MANIFEST_PARSED: "parsed", LEVEL_SWITCHED: "level", AUDIO_TRACKS_UPDATED: "tracks", AUDIO_TRACK_SWITCHED: "track" };
  static ErrorTypes = { MEDIA_ERROR: "media", NETWORK_ERROR: "network" };
  static ErrorDetails = {
    BUFFER_STALLED_ERROR: "stalled",
    MANIFEST_INCOMPATIBLE_CODECS_ERROR: "manifest codecs",
    BUFFER_INCOMPATIBLE_CODECS_ERROR: "buffer codecs",
    BUFFER_ADD_CODEC_ERROR: "add codec",
  };
  static isSupported = () => true;

  lowLatencyMode = true;
  levels = [];
  audioTracks = [];
  recovered = 0;
  listeners = {};

  on(name, action) {
    this.listeners[name] = action;
  }

  loadSource(url) {
    this.url = url;
  }

  attachMedia() {}

  recoverMediaError() {
    this.recovered += 1;
  }

  fail(details, fields = {}) {
    this.listeners.error("error", { fatal: true, type: "other", details, ...fields });
  }
}

class FakeVideo extends EventTarget {
  constructor(canPlay = "") {
    super();
    this.canPlay = canPlay;
    this.seekable = { length: 0 };
    this.currentTime = 0;
  }

  canPlayType(type) {
    return type === "application/vnd.apple.mpegurl" ? this.canPlay : "";
  }

  /** What can be played, in seconds. */
  has(start, end) {
    const last = (index, value) => (index === 0 ? value : NaN);
    this.seekable = { length: 1, start: (index) => last(index, start), end: (index) => last(index, end) };
  }
}

afterEach(() => {
  for (const name of ["MediaSource", "ManagedMediaSource", "location"]) delete globalThis[name];
});

/** What `makeEngine` chooses: {engine, hls, failures, loads}. */
async function made({ video = new FakeVideo(), Hls = FakeHls } = {}) {
  const [failures, loads] = [[], []];
  let told = 0;
  const on = { failed: (kind) => failures.push(kind), tracks: () => (told += 1) };
  const engine = await makeEngine(video, FOLDER, "/hls.js", on, async (url) => {
    loads.push(url);
    return Hls;
  });
  return { engine, hls: engine?.hls, video, failures, loads, tracks: () => told };
}

async function withHls(t, now = { ms: 100_000 }) {
  globalThis.MediaSource = class {};
  t.mock.method(performance, "now", () => now.ms);
  return { ...(await made()), now };
}

/* ---- which engine ---- */

test("browser with Media Source Extensions plays by hls.js", async () => {
  globalThis.MediaSource = class {};
  const { hls, loads } = await made({ video: new FakeVideo("maybe") });
  assert.deepEqual(loads, ["/hls.js"]);
  assert.equal(hls.url, `${FOLDER}index.m3u8`);
});

test("browser with managed Media Source Extensions alone plays by hls.js", async () => {
  globalThis.ManagedMediaSource = class {};
  assert.ok((await made()).hls);
});

test("browser without Media Source Extensions plays by itself, and loads no hls.js", async () => {
  const { engine, hls, loads, video } = await made({ video: new FakeVideo("maybe") });
  assert.equal(hls, undefined);
  assert.deepEqual(loads, []);
  assert.equal(video.src, `${FOLDER}index.m3u8`);
  assert.deepEqual([engine.viewer, engine.isLowLatency, engine.qualities], [null, false, []]);
});

test("browser that hls.js does not support plays by itself, if it can", async () => {
  globalThis.MediaSource = class {};
  const Hls = class extends FakeHls {
    static isSupported = () => false;
  };
  assert.ok((await made({ Hls, video: new FakeVideo("maybe") })).video.src);
  assert.equal((await made({ Hls })).engine, null);
});

test("browser that has neither has no engine", async () => assert.equal((await made()).engine, null));

test("hls.js that can't be loaded is an error", async () => {
  globalThis.MediaSource = class {};
  const load = () => Promise.reject(new Error("hls.js"));
  await assert.rejects(makeEngine(new FakeVideo("maybe"), FOLDER, "/hls.js", {}, load), /hls\.js/);
});

/* ---- errors of hls.js ---- */

test("error that is not fatal is no failure", async (t) => {
  const { hls, failures } = await withHls(t);
  hls.fail("manifest codecs", { fatal: false });
  assert.deepEqual(failures, []);
});

for (const details of ["manifest codecs", "buffer codecs", "add codec"])
  test(`error of ${details} is a codec that the browser does not play`, async (t) => {
    const { hls, failures } = await withHls(t);
    hls.fail(details, { type: "media" });
    assert.deepEqual(failures, ["codec"]);
    assert.equal(hls.recovered, 0);
  });

test("error of the network is a failure of the network", async (t) => {
  const { hls, failures } = await withHls(t);
  hls.fail("timeout", { type: "network" });
  assert.deepEqual(failures, ["network"]);
});

test("error of the media is recovered from once in five seconds", async (t) => {
  const { hls, failures, now } = await withHls(t);
  hls.fail("append", { type: "media" });
  assert.deepEqual([hls.recovered, failures], [1, []]);
  now.ms += 5000;
  hls.fail("append", { type: "media" });
  assert.deepEqual([hls.recovered, failures], [1, ["media"]]);
  now.ms += 1;
  hls.fail("append", { type: "media" });
  assert.deepEqual([hls.recovered, failures], [2, ["media"]]);
});

test("error of another kind is a failure of the media", async (t) => {
  const { hls, failures } = await withHls(t);
  hls.fail("whatever");
  assert.deepEqual(failures, ["media"]);
});

/* ---- stalls ---- */

async function stalling(t, gaps) {
  const found = await withHls(t);
  Object.assign(found.hls, { latestLevelDetails: { targetduration: 2, partTarget: 0.5 }, liveSyncPosition: 90 });
  found.video.currentTime = 95;
  for (const gap of gaps) {
    found.now.ms += gap;
    found.hls.fail("stalled", { fatal: false });
  }
  return found;
}

test("third stall within a minute ends low latency, and goes back to what is at hand", async (t) => {
  const { engine, hls, video } = await stalling(t, [0, 20_000, 39_999]);
  assert.equal(engine.isLowLatency, false);
  assert.equal(hls.targetLatency, 5.2, "2.6 target durations of 2 s");
  assert.equal(video.currentTime, 90);
});

test("two stalls, or three in more than a minute, keep low latency", async (t) => {
  assert.equal((await stalling(t, [0, 1000])).engine.isLowLatency, true);
  assert.equal((await stalling(t, [0, 20_000, 40_000])).engine.isLowLatency, true);
});

test("stall of a viewer who is further behind leaves the position", async (t) => {
  const found = await stalling(t, [0, 1000]);
  found.video.currentTime = 50;
  found.hls.fail("stalled", { fatal: false });
  assert.equal(found.video.currentTime, 50);
});

test("latency is ordinary if the playlist has no parts, or none is known", async (t) => {
  const { engine, hls } = await withHls(t);
  assert.equal(engine.isLowLatency, false);
  hls.latestLevelDetails = { targetduration: 2 };
  assert.equal(engine.isLowLatency, false);
});

/* ---- what is told of it ---- */

test("viewer is the one that the server put into the playlist's address", async (t) => {
  const { engine, hls } = await withHls(t);
  globalThis.location = { href: "https://example.org/watch/live/sunday" };
  assert.equal(engine.viewer, null);
  hls.levels = [{ url: ["/hls/live/sunday/v0.m3u8?viewer=abc"] }];
  assert.equal(engine.viewer, "abc");
  hls.levels = [{ url: "/hls/live/sunday/v0.m3u8" }];
  assert.equal(engine.viewer, null);
});

test("stream is ended only if its playlist says so", async (t) => {
  const { engine, hls } = await withHls(t);
  assert.equal(engine.isEnded, false);
  hls.latestLevelDetails = { live: true };
  assert.equal(engine.isEnded, false);
  hls.latestLevelDetails = { live: false };
  assert.equal(engine.isEnded, true);
});

test("viewer is live up to three seconds behind the target", async (t) => {
  const { engine, hls } = await withHls(t);
  assert.equal(engine.liveWithin, 9, "of hls.js's usual 6 s");
  hls.targetLatency = 2;
  assert.equal(engine.liveWithin, 5);
});

test("qualities are a choice only if there are several", async (t) => {
  const { engine, hls } = await withHls(t);
  hls.levels = [{ height: 720, bitrate: 2_500_000 }];
  assert.deepEqual(engine.qualities, []);
  Object.assign(hls, {
    levels: [{ height: 720, bitrate: 2_500_000 }, { height: 360, bitrate: 860_000 }, { name: "Stage" }, {}],
    currentLevel: 1,
    autoLevelEnabled: true,
  });
  assert.deepEqual(engine.qualities.map(({ id, words }) => [id, words]), [
    [-1, "Automatic (360p)"],
    [0, "720p, 2.5 Mbit/s"],
    [1, "360p, 0.9 Mbit/s"],
    [2, "Stage"],
    [3, "Picture 4"],
  ]);
  assert.deepEqual(engine.qualities.map(({ chosen }) => chosen), [true, false, false, false, false]);
});

test("quality that somebody chose is the chosen one", async (t) => {
  const { engine, hls } = await withHls(t);
  Object.assign(hls, { levels: [{ height: 720 }, { height: 360 }], currentLevel: 1, autoLevelEnabled: false });
  assert.deepEqual(engine.qualities.map(({ chosen }) => chosen), [false, false, true]);
  engine.chooseQuality(0);
  assert.equal(hls.nextLevel, 0);
});

test("quality is automatic without a height before the first level is known", async (t) => {
  const { engine, hls } = await withHls(t);
  Object.assign(hls, { levels: [{ height: 720 }, { height: 360 }], currentLevel: -1, autoLevelEnabled: true });
  assert.equal(engine.qualities[0].words, "Automatic");
});

test("sound tracks are a choice only if there are several", async (t) => {
  const { engine, hls } = await withHls(t);
  hls.audioTracks = [{ name: "Main" }];
  assert.deepEqual(engine.tracks, []);
  hls.audioTracks = [{ name: "Main" }, { lang: "de" }];
  assert.equal(engine.tracks.length, 2);
  Object.assign(hls, { audioTracks: [{ name: "Main" }, { lang: "de" }, {}], audioTrack: 1 });
  assert.deepEqual(engine.tracks.map(({ id, words, chosen }) => [id, words, chosen]), [[0, "Main", false], [1, "de", true], [2, "Track 3", false]]);
});

test("choices are looked at again when hls.js has read them", async (t) => {
  const { hls, tracks } = await withHls(t);
  for (const name of ["parsed", "level", "tracks", "track"]) hls.listeners[name]();
  assert.equal(tracks(), 4);
});

/* ---- the browser's own ---- */

test("browser's own engine is behind by what can be played after the picture", async () => {
  const { engine, video } = await made({ video: new FakeVideo("maybe") });
  assert.deepEqual([engine.behind, engine.livePosition], [0, null], "nothing is there yet");
  video.has(0, 60);
  video.currentTime = 52.5;
  assert.deepEqual([engine.behind, engine.livePosition], [7.5, 58]);
  video.currentTime = 61;
  assert.equal(engine.behind, 0);
  video.has(0, Infinity);
  assert.deepEqual([engine.behind, engine.livePosition], [0, null]);
});

test("browser's own error is of the network if it says so, else of the media", async () => {
  const { failures, video } = await made({ video: new FakeVideo("maybe") });
  for (const code of [2, 3, undefined]) {
    video.error = code && { code };
    video.dispatchEvent(new Event("error"));
  }
  assert.deepEqual(failures, ["network", "media", "media"]);
});

test("browser's own sound tracks are a choice only if there are several", async () => {
  const { engine, video } = await made({ video: new FakeVideo("maybe") });
  assert.deepEqual(engine.tracks, []);
  video.audioTracks = [{ label: "Main", enabled: true }, { language: "de", enabled: false }, { enabled: false }];
  assert.deepEqual(engine.tracks.map(({ words, chosen }) => [words, chosen]), [["Main", true], ["de", false], ["Track 3", false]]);
  engine.chooseTrack(1);
  assert.deepEqual(video.audioTracks.map(({ enabled }) => enabled), [false, true, false]);
});
