// The figures and words of a stream's page, from what its node reports. This module draws nothing.

import { bitrateParts, count, duration, number, unit } from "./format.js";
import { nominalFps } from "./streamlimits.js";

const OFFLINE = { state: "offline", health: "none", issues: [], players: 0, session_id: null, since: null };

/**
 * The stream after a message: `next` is what its node reports, null if no node knows it any more. A stream that went off
 * the air keeps its target and its metadata, because its last minutes are still judged by them.
 */
export function nextStream(before, next) {
  const stream = next ?? { ...(before ?? {}), ...OFFLINE };
  if (!before || stream.state === "live") return stream;
  const metadata = Object.keys(stream.metadata ?? {}).length ? stream.metadata : before.metadata;
  return { ...stream, target_kbps: stream.target_kbps ?? before.target_kbps, metadata };
}

/** How long a stream has been on the air: "Live for 14 s". */
export function upWords(stream, now) {
  if (stream.since === null || stream.since === undefined) return "Live";
  return `${stream.state === "live" ? "Live" : "Connected"} for ${duration(now - stream.since)}`;
}

export function playersWords(stream) {
  return count(stream.players ?? 0, "player") + (stream.viewers ? `, ${number(stream.viewers)} by HLS` : "");
}

/** The nodes that relay the stream; "" for none. */
export function relaysWords(stream) {
  const relays = (stream.relayed_to ?? []).map((to) => `${to.node} (${count(to.players, "player")})`);
  return relays.length ? `relayed by ${relays.join(", ")}` : "";
}

/** The words for a stream that is not live: what it waits for, and what to do. */
export function waitingWords(stream, now) {
  if (stream.state === "waiting" && stream.session_id) {
    const since = stream.since ? `, ${duration(now - stream.since)} ago` : "";
    return `An encoder connected${since}, but has sent no media. Start streaming in it.`;
  }
  const itself = "This page shows the live stream by itself.";
  if (stream.state === "waiting")
    return `${count(stream.players, "player waits", "players wait")} for it. Start streaming. ${itself}`;
  return `Start streaming. ${itself}`;
}

/** The words of the tiles by their field: the figures of this second, each with its limit. `limits` are the checks'. */
export function tileWords(stream, limits) {
  const nominal = nominalFps(stream);
  const claimed = stream.metadata?.audiodatarate;
  const [out, outUnit] = bitrateParts(stream.out_kbps);
  return {
    video_kbps: number(stream.video_kbps),
    "video-limit": stream.target_kbps ? `of ${number(stream.target_kbps)}, 5 s mean` : "5 s mean",
    audio_kbps: number(stream.audio_kbps),
    "audio-limit": isPositive(claimed) ? `of ${number(claimed)}, 5 s mean` : "5 s mean",
    fps: number(stream.fps, 1),
    "fps-limit": nominal ? `of ${number(nominal, nominal % 1 ? 2 : 0)}` : "as received",
    keyframe_interval: number(stream.keyframe_interval, 1),
    "keyframe-limit": atMost(limits.gop_long, "s"),
    missing_frames_est: number(stream.missing_frames_est),
    rtt_ms: number(stream.rtt_ms, stream.rtt_ms < 10 ? 1 : 0),
    "rtt-limit": atMost(limits.rtt_high, "ms"),
    out_kbps: out,
    "out-unit": outUnit,
    "players-tile": number(stream.players),
    slow: slowWords(stream),
  };
}

function slowWords(stream) {
  const dropped = stream.dropped_frames ? [`${count(stream.dropped_frames, "frame")} dropped in the last minute`] : [];
  const slow = stream.slow_players ? [`${number(stream.slow_players)} slow`, ...dropped] : ["none slow"];
  return [stream.viewers && `${number(stream.viewers)} by HLS`, ...slow].filter(Boolean).join(", ");
}

/** The slowest players, a line for each. */
export function slowestWords(stream) {
  return stream.slowest
    .map(
      ({ session_id: id, queued_ms: behind, dropped_video: video, dropped_audio: audio }) =>
        `${id.slice(0, 8)}: ${unit(behind / 1000, "s", 1)} behind, ${count(video, "video frame")} and ${count(audio, "audio frame")} dropped`,
    )
    .join("\n");
}

/** The size and frame rate of the picture that arrives. */
export function pictureWords({ media, fps }) {
  const size = media.width ? `${media.width} × ${media.height}` : "";
  return [size, unit(fps, "fps", 1, "")].filter(Boolean).join(", ");
}

const isPositive = (value) => typeof value === "number" && value > 0;

function atMost(limit, name) {
  const bound = limit?.warning ?? limit?.bad ?? null;
  return bound === null ? "" : `limit ${unit(bound, name, bound % 1 ? 1 : 0)}`;
}
