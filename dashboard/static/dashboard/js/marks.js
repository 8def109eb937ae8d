// What operators said of a stream: `muted` lists the checks whose alerts are muted ("": all of them) and until when,
// `acknowledged` the issues that somebody takes care of, each as it was then.

import { timeWithUtc } from "./format.js";

const SAME_S = 0.5; // As the server's: two openings of an issue are further apart.

/** Whether somebody has acknowledged the issue since it opened, at this level or a worse one. */
export function acknowledged(marks, issue) {
  return (marks.acknowledged ?? []).some(
    (known) =>
      known.check === issue.check &&
      Math.abs(known.since - issue.since) < SAME_S &&
      (known.level === issue.level || known.level === "bad"),
  );
}

/** Whether alerts of the issue are muted at `now`: its own, or all of the stream. */
export function muted(marks, issue, now) {
  return held(marks, now).some((mute) => mute.check === "" || mute.check === issue.check);
}

const held = (marks, now) => (marks.muted ?? []).filter((mute) => mute.until === null || mute.until > now);

/** [word, icon, what it means] of a stream whose alerts are muted at `now`, else null. */
export function mutedWords(marks, now) {
  const mutes = held(marks, now);
  if (mutes.length === 0) return null;
  const whole = mutes.find((mute) => mute.check === "");
  if (!whole) return ["Partly muted", "mute", `No alerts of ${mutes.map((mute) => mute.check).join(", ")}.`];
  return ["Muted", "mute", whole.until === null ? "No alerts." : `No alerts until ${timeWithUtc(whole.until)}.`];
}
