import assert from "node:assert/strict";
import { test } from "node:test";

import { compareMetadata } from "../../dashboard/static/dashboard/js/metadata.js";
import { plain } from "./support.mjs";

/** The row of that name as [claimed, measured, health]; undefined if there is none. */
function row(name, stream) {
  const found = compareMetadata({ metadata: {}, media: {}, ...stream }).find((each) => each.name === name);
  return found && [plain(found.claimed), plain(found.measured), found.health];
}

test("comparison of nothing claimed and nothing measured has no rows", () => {
  assert.deepEqual(compareMetadata({ metadata: null, media: {} }), []);
  assert.deepEqual(compareMetadata({ metadata: undefined, media: {}, video_kbps: null, fps: undefined }), []);
});

test("claim without a measurement, and a measurement without a claim, say so", () => {
  assert.deepEqual(row("Video bitrate", { metadata: { videodatarate: 2500 } }), ["2,500 kbit/s", "none", "good"]);
  assert.deepEqual(row("Video bitrate", { video_kbps: 2480 }), ["not given", "2,480 kbit/s", "good"]);
});

test("bitrate below 70 % of the claim is a warning, below 40 % it is bad", () => {
  const health = (video_kbps) => row("Video bitrate", { metadata: { videodatarate: 1000 }, video_kbps })[2];
  assert.deepEqual([700, 699, 400, 399, 0].map(health), ["good", "warning", "warning", "bad", "bad"]);
  assert.equal(health(5000), "good");
});

test("audio bitrate is judged as the video's is", () => {
  const health = (audio_kbps) => row("Audio bitrate", { metadata: { audiodatarate: 100 }, audio_kbps })[2];
  assert.deepEqual([70, 69, 39].map(health), ["good", "warning", "bad"]);
  assert.deepEqual(row("Audio bitrate", { metadata: { audiodatarate: 160 } }), ["160 kbit/s", "none", "good"]);
});

test("bitrate that is claimed as 0, a text or a negative number is not judged", () => {
  for (const videodatarate of [0, "2500", -1, NaN]) assert.equal(row("Video bitrate", { metadata: { videodatarate }, video_kbps: 5 })[2], "good");
});

test("frame rate below 90 % of the claim is a warning, below 60 % it is bad", () => {
  const health = (fps) => row("Frame rate", { metadata: { framerate: 50 }, fps })[2];
  assert.deepEqual([45, 44.9, 30, 29.9].map(health), ["good", "warning", "warning", "bad"]);
});

test("frame rate that is claimed has decimals only if it needs them", () => {
  assert.deepEqual(row("Frame rate", { metadata: { framerate: 30 }, fps: 29.97 }), ["30", "30.0", "good"]);
  assert.deepEqual(row("Frame rate", { metadata: { framerate: 29.97 }, fps: 29.97 }), ["29.97", "30.0", "good"]);
});

test("picture of another size than the claimed one is a warning", () => {
  const metadata = { width: 1920, height: 1080 };
  assert.deepEqual(row("Picture", { metadata, media: { width: 1920, height: 1080 } }), ["1920 × 1080", "1920 × 1080", "good"]);
  assert.deepEqual(row("Picture", { metadata, media: { width: 1280, height: 720 } }), ["1920 × 1080", "1280 × 720", "warning"]);
});

test("picture whose size is half known, or 0, is not given", () => {
  assert.equal(row("Picture", { metadata: { width: 1920 }, media: {} }), undefined);
  assert.deepEqual(row("Picture", { metadata: { width: 0, height: 0 }, media: { width: 1280, height: 720 } }), ["not given", "1280 × 720", "good"]);
});

for (const [value, words] of [
  [7, "H.264"],
  [12, "H.265"],
  ["avc1", "H.264"],
  ["AVC1", "H.264"],
  ["hvc1", "H.265"],
  [0x61_76_30_31, "AV1"], // "av01" as one number, as Enhanced RTMP has it.
  [0x76_70_30_39, "VP9"],
  [99, "99"],
  ["x264", "x264"],
])
  test(`video codec that is claimed as ${value} is ${words}`, () =>
    assert.equal(row("Video codec", { metadata: { videocodecid: value } })[0], words));

for (const [value, words] of [[10, "AAC"], [2, "MP3"], ["mp4a", "AAC"], [".mp3", "MP3"], ["opus", "Opus"], [0x4f_70_75_73, "Opus"]])
  test(`audio codec that is claimed as ${value} is ${words}`, () =>
    assert.equal(row("Audio codec", { metadata: { audiocodecid: value } })[0], words));

test("audio codec is as it is measured", () =>
  assert.deepEqual(row("Audio codec", { media: { audio_codec: "HE-AAC" } }), ["not given", "HE-AAC", "good"]));

test("video codec has its profile and level as they are measured", () => {
  const media = { video_codec: "H.264", profile: "High", level: "3.1" };
  assert.deepEqual(row("Video codec", { media }), ["not given", "H.264 High 3.1", "good"]);
});

test("sample rate of another kind than the claimed one is a warning", () => {
  assert.deepEqual(row("Sample rate", { metadata: { audiosamplerate: 48_000 }, media: { sample_rate: 48_000 } }), ["48 kHz", "48 kHz", "good"]);
  assert.deepEqual(row("Sample rate", { metadata: { audiosamplerate: 44_100 }, media: { sample_rate: 48_000 } }), ["44.1 kHz", "48 kHz", "warning"]);
});

test("channels are claimed by a number, or by whether they are stereo", () => {
  assert.deepEqual(row("Channels", { metadata: { audiochannels: 2 }, media: { channels: 2 } }), ["stereo", "stereo", "good"]);
  assert.deepEqual(row("Channels", { metadata: { stereo: false }, media: { channels: 2 } }), ["mono", "stereo", "warning"]);
  assert.equal(row("Channels", { metadata: { stereo: true }, media: {} })[0], "stereo");
  assert.equal(row("Channels", { metadata: { audiochannels: 6 }, media: {} })[0], "6");
});

test("keyframe interval has the level of its issue", () => {
  assert.deepEqual(row("Keyframe interval", { keyframe_interval: 2 }), ["not given", "2.0 s", "good"]);
  assert.equal(row("Keyframe interval", { keyframe_interval: 12, issues: [{ check: "rtt_high", level: "bad" }] })[2], "good");
  assert.equal(row("Keyframe interval", { keyframe_interval: 12, issues: [{ check: "gop_long", level: "bad" }] })[2], "bad");
});

test("faults of the media and repairs of its times are warnings, and 0 of them no rows", () => {
  assert.deepEqual(row("Malformed media", { media_faults: 1200 }), ["not given", "1,200", "warning"]);
  assert.deepEqual(row("Repaired timestamps", { timestamp_repairs: 1 }), ["not given", "1", "warning"]);
  assert.equal(row("Malformed media", { media_faults: 0 }), undefined);
  assert.equal(row("Repaired timestamps", { timestamp_repairs: 0 }), undefined);
});

test("codec strings, bit depth, header's frame rate and other tracks are as measured", () => {
  const media = {
    video_codec_string: "avc1.64001f",
    audio_codec_string: "mp4a.40.2",
    bit_depth: 10,
    frame_rate: 25,
    tracks: [{ kind: "audio", track: 1, codec: "AAC" }, { kind: "video", track: 2, codec: "AV1" }],
  };
  assert.equal(row("Codec strings", { media })[1], "avc1.64001f, mp4a.40.2");
  assert.equal(row("Bit depth", { media })[1], "10 bit");
  assert.equal(row("Frame rate, header", { media })[1], "25");
  assert.equal(row("Other tracks", { media })[1], "audio 1 AAC, video 2 AV1");
});
