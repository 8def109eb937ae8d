// The marks that operators put on a stream: issues that somebody takes care of, and checks whose alerts are silenced (the
// check "" stands for all of them). This module draws nothing.

import { timeWithUtc } from "./format.js";
import { acknowledges } from "./health.js";

const BAD_WEIGHT = 1000; // More warnings than that no stream has.

/** True if somebody takes care of the issue. */
export const isAcknowledged = (marks, issue) => (marks.acknowledged ?? []).some((ack) => acknowledges(ack, issue));

/** The silences that hold at `now`. One without an end holds until somebody lifts it. */
export const silencesAt = (mutes, now) => (mutes ?? []).filter((mute) => mute.until === null || mute.until > now);

/** True if alerts of the issue are silenced at `now`: its own, or all of the stream. */
function isMuted(marks, issue, now) {
  return silencesAt(marks.muted, now).some((mute) => mute.check === "" || mute.check === issue.check);
}

/** The weight of the stream's issues that nobody takes care of. One bad issue outweighs all warnings. */
export function unattendedWeight(stream, marks, now) {
  const open = stream.issues.filter((issue) => !isAcknowledged(marks, issue) && !isMuted(marks, issue, now));
  const weight = open.reduce((sum, { level }) => sum + (level === "bad" ? BAD_WEIGHT : 1), 0);
  return stream.state === "dropped" ? 2 * weight : weight; // What is off the air comes before what is bad on it.
}

/** [word, title] for a stream whose alerts are silenced at `now`, else null. `checks` are names by code. */
export function silencedWords(marks, now, checks) {
  const mutes = silencesAt(marks.muted, now);
  if (mutes.length === 0) return null;
  const whole = mutes.find((mute) => mute.check === "");
  if (!whole) return ["Partly silenced", `No alerts of ${mutes.map(({ check }) => `“${checks[check] ?? check}”`).join(", ")}.`];
  return ["Silenced", whole.until === null ? "No alerts." : `No alerts until ${timeWithUtc(whole.until)}.`];
}
