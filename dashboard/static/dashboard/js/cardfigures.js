// The figures and words of a stream's card, from what the wall knows of the stream. This module draws nothing.

import { mediaWords } from "./events.js";
import { count, duration, number, unit } from "./format.js";
import { health } from "./health.js";
import { isAcknowledged } from "./marks.js";
import { SPAN_S } from "./sparkline.js";

const SAME_S = 0.5; // Two texts of one tick: a snapshot and an update.
const MEAN_OF = 5; // Snapshots carry means of 5 s.
const STARVING_MS = 2000; // From here on the picture's age is shown.
const PICTURE_S = 20; // A stream that is on air for longer would have its first picture, if it could be decoded.

/** True if a stream sends audio and no video. */
export function isAudioOnly(stream) {
  return !stream.video_kbps && !stream.media?.video_codec && Boolean(stream.audio_kbps);
}

/** The bitrate that a card shows: video, or audio of a stream that has no video. */
export const shownKbps = (stream) => (isAudioOnly(stream) ? stream.audio_kbps : stream.video_kbps);

/** The words after the bitrate: its unit, and its target where the stream needs attention. */
export function bitrateWords(stream) {
  if (isAudioOnly(stream)) return "kbit/s of audio";
  return needsAttention(stream) && stream.target_kbps ? `of ${unit(stream.target_kbps, "kbit/s")}` : "kbit/s";
}

export const needsAttention = (stream) => stream.health === "bad" || stream.health === "warning";

/** True if a live stream sends nothing at the moment. */
export const isStarving = (stream) => stream.state === "live" && stream.idle_ms >= STARVING_MS;

/** The last 60 s of a card's stream, as points {at, kbps, health}, oldest first. */
export class CardPoints {
  constructor() {
    this.list = [];
  }

  /** Add one second, also if nothing has changed in it. */
  sample(stream, at) {
    const { list } = this;
    const fresh = !(list.at(-1)?.at > at - SAME_S);
    if (stream.state === "live" && fresh) list.push({ at, kbps: shownKbps(stream), health: stream.health });
    while (list[0]?.at <= at - SPAN_S - 2) list.shift();
  }

  /** Put the seconds before the first point in front of it: columns of samples of one second each. */
  seed(stream, { at, video_kbps: video, audio_kbps: audio, health: healths }) {
    const first = this.list[0]?.at ?? Infinity;
    const series = isAudioOnly(stream) ? audio : video;
    const earlier = at.map((time, index) => {
      const run = series.slice(Math.max(0, index - MEAN_OF + 1), index + 1);
      return { at: time, kbps: run.reduce((sum, value) => sum + value, 0) / run.length, health: healths[index] };
    });
    this.list = [...earlier.filter((point) => point.at < first - SAME_S), ...this.list];
  }
}

/** The words for a waiting stream: the encoder or the players that are there already, and what is missing. */
export function cardWaitingWords(stream, now) {
  if (!stream.session_id) return "Players wait for an encoder.";
  const wait = stream.since === null ? "" : ` for ${duration(now - stream.since)}`;
  return `An encoder is accepted, but no media has arrived${wait}.`;
}

/** How many players there are, how many of them watch by HLS, and how many fall behind: "12, 9 by HLS, 1 slow". */
export function cardPlayersWords({ players, viewers = 0, slow_players: slow }) {
  const words = [viewers && `${number(viewers)}\u00a0by\u00a0HLS`, slow && `${number(slow)}\u00a0slow`];
  return [number(players), ...words].filter(Boolean).join(", ");
}

/** {words, failing}: how many pushes of a live stream go, and how many fail. The words are "" if there are none. */
export function pushingWords(stream) {
  const { live = 0, failing = 0 } = (stream.state === "live" && stream.pushing) || {};
  const words = [
    live && `Pushed to ${count(live, "other server")}`,
    failing && `${count(failing, "push fails", "pushes fail")}`,
  ];
  return { words: words.filter(Boolean).join(", "), failing };
}

/** The media that arrive, and the encoder that sends them. */
export const encoderWords = ({ media, encoder }) => [mediaWords(media), encoder].filter(Boolean).join(", ");

/** The words at a card's picture: its age, its application, or why there is none; "" for a picture that says enough. */
export function cardPictureWords(stream, now, hasPicture) {
  const plain = needsAttention(stream) ? "" : stream.app;
  if (!hasPicture) return [plain, stream.drop ? "" : noPictureWords(stream, now)].filter(Boolean).join(", ");
  if (stream.drop) return "Last picture";
  return isStarving(stream) ? `Last picture ${duration(stream.idle_ms / 1000)} ago` : plain;
}

function noPictureWords(stream, now) {
  if (stream.state === "live" && isAudioOnly(stream)) return "audio only";
  const codec = stream.media?.video_codec;
  const late = stream.state === "live" && stream.since !== null && now - stream.since > PICTURE_S;
  return codec && late && stream.idle_ms < STARVING_MS ? `no picture of ${codec}` : "no picture yet";
}

/** The stream's issues, each with `known`: the worst first, and after them those that somebody takes care of. */
export function sortedIssues(stream, marks) {
  return stream.issues
    .map((issue) => ({ ...issue, known: isAcknowledged(marks, issue) }))
    .sort((a, b) => Number(a.known) - Number(b.known) || health(a.level).rank - health(b.level).rank);
}

/** "Bitrate is far below its target: 2,310 kbit/s, expected 4,200 at least." A title that is a sentence stays as it is. */
export function issueFact(issue) {
  if (!issue.actual || issue.title.endsWith(".")) return issue.title;
  return `${issue.title}: ${issue.actual}${issue.expected ? `, expected ${issue.expected}` : ""}.`;
}
