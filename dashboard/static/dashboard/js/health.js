// The four healths: their order (worst first), words, icons and classes; which issues somebody takes care of.

import { setText } from "./dom.js";
import { number } from "./format.js";

export const HEALTHS = {
  bad: { rank: 0, word: "Bad", icon: "bad" },
  warning: { rank: 1, word: "Warning", icon: "warn" },
  none: { rank: 2, word: "Pending", icon: "none" },
  good: { rank: 3, word: "Good", icon: "good" },
};

export const health = (name) => HEALTHS[name] ?? HEALTHS.none;

/** Of a stream, with its words: in its first seconds nothing is judged yet, and what is left of them is said. */
export function healthOf(stream) {
  const found = health(stream.health);
  const left = stream.health === "none" ? stream.checking_s : null;
  return left ? { ...found, word: `Checking, ${left} s` } : found;
}

const SAME_S = 0.5; // As the server's: two openings of an issue are further apart.

/** Whether `ack` is of this issue since it opened, at this level or a worse one. */
export function acknowledges(ack, issue) {
  return (
    ack.check === issue.check &&
    Math.abs(ack.since - issue.since) < SAME_S &&
    (ack.level === issue.level || ack.level === "bad")
  );
}

/** How many streams are bad, in the rail. */
export function showBadCount(bad) {
  for (const badge of document.querySelectorAll("[data-bad-count]")) {
    badge.hidden = bad === 0;
    setText(badge.querySelector("span"), number(bad));
  }
}
