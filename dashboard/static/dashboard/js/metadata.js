// What the encoder claims (onMetaData) beside what the server measures.

import { element, icon } from "./dom.js";
import { number, unit } from "./format.js";
import { health } from "./health.js";

const VIDEO_CODECS = { 2: "H.263", 4: "VP6", 7: "H.264", 12: "H.265" };
const AUDIO_CODECS = { 2: "MP3", 10: "AAC", 11: "Speex", 14: "MP3" };
const FOURCC = {
  avc1: "H.264",
  hvc1: "H.265",
  hev1: "H.265",
  av01: "AV1",
  vvc1: "H.266",
  vp08: "VP8",
  vp09: "VP9",
  mp4a: "AAC",
  "ac-3": "AC-3",
  "ec-3": "E-AC-3",
  ".mp3": "MP3",
  flac: "FLAC",
  opus: "Opus",
};
const LOW = [0.7, 0.4]; // Below these shares of what is claimed: warning, bad.
const LOW_FPS = [0.9, 0.6];
const GOP = ["gop_long", "gop_short"]; // Checks of what no encoder claims.

const isNumber = (value) => typeof value === "number" && Number.isFinite(value) && value > 0;
const picture = (width, height) =>
  isNumber(width) && isNumber(height) ? `${number(width)}\u00a0×\u00a0${number(height)}`.replaceAll(",", "") : "";
// A codec id, a FourCC, or a FourCC's four bytes as one number (Enhanced RTMP).
const fourcc = (value) =>
  Number.isInteger(value) && value > 0xff
    ? String.fromCharCode(...[24, 16, 8, 0].map((shift) => (value >>> shift) & 0xff))
    : String(value ?? "");
const codec = (value, table) =>
  FOURCC[fourcc(value).toLowerCase()] ??
  table[value] ??
  (value === undefined || value === null ? "" : String(value));
const hertz = (value) => (isNumber(value) ? unit(value / 1000, "kHz", value % 1000 ? 1 : 0) : "");
const channels = (value) => ({ 1: "mono", 2: "stereo" })[value] ?? (isNumber(value) ? `${value}` : "");
const frameRate = (value) => (isNumber(value) ? number(value, value % 1 ? 2 : 0) : "");
const trackWords = ({ kind, track, codec: name }) => `${kind} ${track} ${name}`.replaceAll(" ", "\u00a0");

function share(claimed, measured, [warning, bad]) {
  if (!isNumber(claimed) || measured === null || measured === undefined) return "good";
  return measured < claimed * bad ? "bad" : measured < claimed * warning ? "warning" : "good";
}

const same = (claimed, measured) => (claimed && measured && claimed !== measured ? "warning" : "good");

/** Rows of {name, claimed, measured, health}. */
export function compareMetadata({
  metadata,
  media,
  media_faults: faults,
  timestamp_repairs: repairs,
  video_kbps: video,
  audio_kbps: audio,
  fps,
  keyframe_interval: interval,
  issues = [],
}) {
  const claims = metadata ?? {};
  const claimedPicture = picture(claims.width, claims.height);
  const measuredPicture = picture(media.width, media.height);
  const claimedChannels =
    channels(claims.audiochannels) || (typeof claims.stereo === "boolean" ? channels(claims.stereo ? 2 : 1) : "");
  const rows = [
    [
      "Video bitrate",
      unit(claims.videodatarate || null, "kbit/s", 0, ""),
      unit(video, "kbit/s", 0, ""),
      share(claims.videodatarate, video, LOW),
    ],
    [
      "Audio bitrate",
      unit(claims.audiodatarate || null, "kbit/s", 0, ""),
      unit(audio, "kbit/s", 0, ""),
      share(claims.audiodatarate, audio, LOW),
    ],
    [
      "Frame rate",
      frameRate(claims.framerate),
      number(fps, 1, ""),
      share(claims.framerate, fps, LOW_FPS),
    ],
    ["Picture", claimedPicture, measuredPicture, same(claimedPicture, measuredPicture)],
    [
      "Video codec",
      codec(claims.videocodecid, VIDEO_CODECS),
      [media.video_codec, media.profile, media.level].filter(Boolean).join(" "),
      "good",
    ],
    ["Audio codec", codec(claims.audiocodecid, AUDIO_CODECS), media.audio_codec ?? "", "good"],
    ["Codec strings", "", [media.video_codec_string, media.audio_codec_string].filter(Boolean).join(", "), "good"],
    ["Bit depth", "", unit(media.bit_depth ?? null, "bit", 0, ""), "good"],
    ["Frame rate, header", "", frameRate(media.frame_rate), "good"],
    [
      "Sample rate",
      hertz(claims.audiosamplerate),
      hertz(media.sample_rate),
      same(hertz(claims.audiosamplerate), hertz(media.sample_rate)),
    ],
    ["Channels", claimedChannels, channels(media.channels), same(claimedChannels, channels(media.channels))],
    ["Keyframe interval", "", unit(interval, "s", 1, ""), issues.find(({ check }) => GOP.includes(check))?.level ?? "good"],
    ["Other tracks", "", (media.tracks ?? []).map(trackWords).join(", "), "good"],
    ["Malformed media", "", number(faults || null, 0, ""), faults ? "warning" : "good"],
    ["Repaired timestamps", "", number(repairs || null, 0, ""), repairs ? "warning" : "good"],
  ];
  return rows
    .filter(([, claimed, measured]) => claimed || measured)
    .map(([name, claimed, measured, level]) => ({
      name,
      claimed: claimed || "not given",
      measured: measured || "none",
      health: level,
    }));
}

/** A table's row of one comparison. */
export function metadataRow({ name, claimed, measured, health: level }) {
  const { icon: style, word } = health(level);
  const mark = level === "good" ? [] : [icon(style, `w-${style}`), element("span", { class: "vh" }, word), " "];
  return element(
    "tr",
    {},
    element("td", { class: "sub" }, name),
    element("td", { class: "num" }, claimed),
    element("td", { class: "num" }, ...mark, measured),
  );
}
