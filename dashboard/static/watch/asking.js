// The times at which the watch page asks again whether its stream is live, and its words meanwhile. This module draws
// nothing.

// Seconds from one question to the next, the last for good, by what the answer was.
const AGAIN_S = {
  waiting: [2, 3, 4, 6, 8, 10],
  ended: [3, 5, 10, 20],
  closed: [10, 20, 30],
  unreachable: [1, 2, 4, 8, 15],
  live: [0.5, 1, 2, 4, 8, 15], // It is, and could not be played.
};
const HIDDEN_S = 30; // A tab that nobody sees has time.
const JITTER = 0.4; // Of an interval, more or less.

const SAID = {
  waiting: ["The stream has not started yet.", "It begins here by itself."],
  ended: ["The stream has ended.", "If it goes on, it does so here by itself."],
  closed: ["This stream is closed.", "Nobody can watch it now."],
  unreachable: ["The server can’t be reached.", "This page tries again by itself."],
  paused: ["The stream is interrupted.", "It goes on by itself."],
  unplayable: ["This browser can’t play the stream.", "Another browser may."],
};
const ENDS = new Set(["closed", "unplayable"]); // The server's words for them say all.
const STATES = {
  live: "Live",
  waiting: "Not started yet",
  ended: "Ended",
  closed: "Closed",
  unreachable: "Connecting",
  unplayable: "",
  paused: "Interrupted",
};

export const NO_TRIES = { state: "", count: 0 };

/** The server's answer as {state, words, title}. A state that this page doesn't know counts as no answer. */
export function parseAnswer({ state, words, title }) {
  return { state: Object.hasOwn(AGAIN_S, state) ? state : "unreachable", words: words ?? "", title: title ?? "" };
}

/** The tries after one more answer: {state, count} counts the answers before it that were the same. */
export const nextTries = (tries, state) => ({ state, count: tries.state === state ? tries.count + 1 : 0 });

/** How long to wait before the next question, in seconds. `random` is from 0 to 1. */
export function waitS({ state, count }, isHidden, random = Math.random()) {
  const steps = AGAIN_S[state];
  const step = steps[Math.min(count, steps.length - 1)];
  return (isHidden ? Math.max(step, HIDDEN_S) : step) * (1 + JITTER * (2 * random - 1));
}

/** [what happened, what follows] for a state. `words` are the server's own for this stream, in place of ours. */
export function sayings(state, words = "") {
  if (state === "looking") return ["Connecting", ""];
  const [ours, next] = SAID[state] ?? ["", ""];
  return [words || ours, words && ENDS.has(state) ? "" : next];
}

/** The word for a state in the page's head. */
export const stateWord = (state) => STATES[state] ?? "";
