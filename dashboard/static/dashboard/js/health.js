// The four healths: their order (worst first), words, icons and classes.

import { setText } from "./dom.js";
import { number } from "./format.js";

export const HEALTHS = {
  bad: { rank: 0, word: "Bad", icon: "bad" },
  warning: { rank: 1, word: "Warning", icon: "warn" },
  none: { rank: 2, word: "No data", icon: "none" },
  good: { rank: 3, word: "Good", icon: "good" },
};

export const health = (name) => HEALTHS[name] ?? HEALTHS.none;

/** How many streams are bad, in the rail. */
export function showBadCount(bad) {
  for (const badge of document.querySelectorAll("[data-bad-count]")) {
    badge.hidden = bad === 0;
    setText(badge.querySelector("span"), number(bad));
  }
}
