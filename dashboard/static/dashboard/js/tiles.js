// A stream's figures of this second, each with its limit beside it.

import { setText } from "./dom.js";
import { bitrateParts, count, number, unit } from "./format.js";
import { nominalFps } from "./streamcharts.js";

const positive = (value) => typeof value === "number" && value > 0;
const atMost = (limit, name) => {
  const most = limit?.warning ?? limit?.bad ?? null;
  return most === null ? "" : `${unit(most, name, most % 1 ? 1 : 0)} at most`;
};

export function paintTiles(tiles, stream, limits) {
  const nominal = nominalFps(stream);
  const claimed = stream.metadata?.audiodatarate;
  const [out, outUnit] = bitrateParts(stream.out_kbps);
  const slow = stream.slow_players
    ? `${number(stream.slow_players)} slow, ${count(stream.dropped_frames, "frame")} dropped in a minute`
    : "none is slow";
  const words = {
    video_kbps: number(stream.video_kbps),
    "video-limit": stream.target_kbps ? `of ${number(stream.target_kbps)}, 5 s mean` : "5 s mean",
    audio_kbps: number(stream.audio_kbps),
    "audio-limit": positive(claimed) ? `of ${number(claimed)}, 5 s mean` : "5 s mean",
    fps: number(stream.fps, 1),
    "fps-limit": nominal ? `of ${number(nominal, nominal % 1 ? 2 : 0)}` : "by wall time",
    keyframe_interval: number(stream.keyframe_interval, 1),
    "keyframe-limit": atMost(limits.gop_long, "s"),
    missing_frames_est: number(stream.missing_frames_est),
    rtt_ms: number(stream.rtt_ms, stream.rtt_ms < 10 ? 1 : 0),
    "rtt-limit": atMost(limits.rtt_high, "ms"),
    out_kbps: out,
    "out-unit": outUnit,
    "players-tile": number(stream.players),
    slow,
  };
  for (const [name, text] of Object.entries(words)) setText(tiles.querySelector(`[data-field="${name}"]`), text);
  tiles.querySelector("[data-field=slow]").title = stream.slowest
    .map((player) => `${player.session_id.slice(0, 8)}: ${player.dropped_video} pictures, ${player.dropped_audio} sounds`)
    .join("\n");
}
