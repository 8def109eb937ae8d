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
  vp09: "VP9",
  mp4a: "AAC",
  "ac-3": "AC-3",
  "ec-3": "E-AC-3",
  opus: "Opus",
};
const LOW = [0.7, 0.4]; // Below these shares of what is claimed: warning, bad.
const LOW_FPS = [0.9, 0.6];

const isNumber = (value) => typeof value === "number" && Number.isFinite(value) && value > 0;
const picture = (width, height) =>
  isNumber(width) && isNumber(height) ? `${number(width)} × ${number(height)}`.replaceAll(",", "") : "";
const codec = (value, table) =>
  FOURCC[String(value ?? "").toLowerCase()] ??
  table[value] ??
  (value === undefined || value === null ? "" : String(value));
const hertz = (value) => (isNumber(value) ? unit(value / 1000, "kHz", value % 1000 ? 1 : 0) : "");
const channels = (value) => ({ 1: "mono", 2: "stereo" })[value] ?? (isNumber(value) ? `${value}` : "");

function share(claimed, measured, [warning, bad]) {
  if (!isNumber(claimed) || measured === null || measured === undefined) return "good";
  return measured < claimed * bad ? "bad" : measured < claimed * warning ? "warning" : "good";
}

const same = (claimed, measured) => (claimed && measured && claimed !== measured ? "warning" : "good");

/** Rows of {name, claimed, measured, health}. */
export function compare({ metadata, media, video_kbps: video, audio_kbps: audio, fps, keyframe_interval: interval }) {
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
      isNumber(claims.framerate) ? number(claims.framerate, claims.framerate % 1 ? 2 : 0) : "",
      number(fps, 1, ""),
      share(claims.framerate, fps, LOW_FPS),
    ],
    ["Picture", claimedPicture, measuredPicture, same(claimedPicture, measuredPicture)],
    [
      "Video codec",
      codec(claims.videocodecid, VIDEO_CODECS),
      [media.video_codec, media.profile].filter(Boolean).join(" "),
      "good",
    ],
    ["Audio codec", codec(claims.audiocodecid, AUDIO_CODECS), media.audio_codec ?? "", "good"],
    [
      "Sample rate",
      hertz(claims.audiosamplerate),
      hertz(media.sample_rate),
      same(hertz(claims.audiosamplerate), hertz(media.sample_rate)),
    ],
    ["Channels", claimedChannels, channels(media.channels), same(claimedChannels, channels(media.channels))],
    ["Keyframe interval", "", unit(interval, "s", 1, ""), "good"],
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
export function claimRow({ name, claimed, measured, health: level }) {
  const { icon: look, word } = health(level);
  const mark = level === "good" ? [] : [icon(look, `w-${look}`), element("span", { class: "vh" }, word), " "];
  return element(
    "tr",
    {},
    element("td", { class: "sub" }, name),
    element("td", { class: "num" }, claimed),
    element("td", { class: "num" }, ...mark, measured),
  );
}
