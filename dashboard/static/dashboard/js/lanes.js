// The places and words of a session's lanes: which labels have room, and what each lane says in words. Places are shares
// of the width, from 0 to 1. This module draws nothing.

import { describeEvent } from "./events.js";
import { count, duration, time } from "./format.js";
import { health } from "./health.js";

const WORDS_APART = 0.16; // A word needs so much of the width up to the next one.
const WORD = 0.08; // A word alone.
const RIGHT = 0.78; // From here on words stand to the left of their dot.
const MOST_DOTS = 60;
const SENTENCES = 3;

export const percent = (share) => `${(Math.max(0, Math.min(1, share)) * 100).toFixed(3)}%`;

/** A function from a time to its place within `range`. */
export const shareOf =
  ([from, to]) =>
  (at) =>
    (at - from) / (to - from);

/** The spans of the lane "State": {span, x, width, isLive, words, hasLabel}. */
export function statePlaces({ state, range }) {
  const share = shareOf(range);
  return state.map((span) => {
    const [x, width] = [share(span.from), share(span.to) - share(span.from)];
    const isLive = span.level === "live";
    const hasRoom = width > WORDS_APART || state.length === 1 || range[1] - range[0] <= 0;
    const words = `${isLive ? "Live" : "No media"} for ${duration(span.to - span.from)}`;
    return { span, x, width, isLive, words, hasLabel: hasRoom && isLive };
  });
}

/**
 * The spans of the lane "Health": {span, x, width, hasLabel, isLeft}. A label needs room in its span, and after the label
 * before it.
 */
export function healthPlaces({ health: spans, range }) {
  const share = shareOf(range);
  let lastWord = -1;
  return spans.map((span) => {
    const x = share(span.from);
    const width = share(span.to) - x;
    const isNarrow = width < WORD; // The next one's bar would stand on the word.
    const hasLabel = span.level !== "good" && !isNarrow && !(lastWord >= 0 && x - lastWord < WORDS_APART);
    if (hasLabel) lastWord = x;
    return { span, x, width, hasLabel, isLeft: x > RIGHT };
  });
}

/** The latest events of a lane of dots: {event, x, hasLabel, isLeft}. */
export function dotPlaces(events, range) {
  const share = shareOf(range);
  const shown = events.slice(-MOST_DOTS);
  return shown.map((event, index) => {
    const x = share(event.at);
    const isLeft = x > RIGHT;
    const room = isLeft
      ? x - (index > 0 ? share(shown[index - 1].at) : 0)
      : (index + 1 < shown.length ? share(shown[index + 1].at) : 1) - x;
    return { event, x, hasLabel: room >= WORDS_APART, isLeft };
  });
}

const BRIEF = { "operator.note": "Note", "operator.ack": "Acknowledged", "operator.mute": "Silenced", "operator.unmute": "Silence lifted" };

// Statuses that are sent to encoders and players, in few words.
const STATUS_BRIEF = {
  "Publish.Start": "Publishing",
  "Publish.BadName": "Refused",
  "Publish.Failed": "Publishing failed",
  "Unpublish.Success": "Stopped",
  "Play.Start": "Playing",
  "Play.Stop": "Stopped",
  "Play.Complete": "Finished",
  "Play.Failed": "Playing failed",
  "Play.InsufficientBW": "Too slow",
  "Play.PublishNotify": "Live again",
  "Play.UnpublishNotify": "Off air",
  "Pause.Notify": "Paused",
  "Unpause.Notify": "Resumed",
  "Seek.Notify": "Seek",
  "Record.Start": "Recording",
  "Record.Stop": "Recording stopped",
};

/** Few words for a status, or for what an operator did and who. */
export function brief(event) {
  if (event.kind.startsWith("operator."))
    return [BRIEF[event.kind] ?? event.kind, event.detail?.by ? `by ${event.detail.by}` : ""].filter(Boolean).join(" ");
  if (event.kind === "metadata") return "Encoder’s settings";
  if (event.kind !== "onstatus") return describeEvent(event).text;
  const code = event.code.replace(/^Net(Stream|Connection)\./, "");
  return STATUS_BRIEF[code] ?? code;
}

export function stateWords({ state, open, end, range }) {
  const off = state.filter((span) => span.level === "off").length;
  const words = `on air from ${time(range[0])} to ${open ? "now" : time(range[1])}`;
  return [words, off ? `${count(off, "time")} without media` : "", end].filter(Boolean).join("; ");
}

export function healthWords({ health: spans }) {
  const odd = spans.filter((span) => span.level !== "good");
  if (!odd.length) return "good all the time";
  const words = odd.slice(-SENTENCES).map((span) => `${health(span.level).word.toLowerCase()} ${time(span.from)} to ${time(span.to)}`);
  return (odd.length > SENTENCES ? "lately " : "") + words.join(", ");
}

export function dotWords(events) {
  if (!events.length) return "none";
  const words = events.slice(-SENTENCES).map((event) => `${brief(event)} ${time(event.at)}`);
  return (events.length > SENTENCES ? `${events.length}, lately ` : "") + words.join(", ");
}
