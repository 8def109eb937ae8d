// The four healths: their order (worst first), words, icons and classes.

export const HEALTHS = {
  bad: { rank: 0, word: "Bad", icon: "bad" },
  warning: { rank: 1, word: "Warning", icon: "warn" },
  none: { rank: 2, word: "No data", icon: "none" },
  good: { rank: 3, word: "Good", icon: "good" },
};

export const health = (name) => HEALTHS[name] ?? HEALTHS.none;
