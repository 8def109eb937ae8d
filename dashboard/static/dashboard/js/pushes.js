// Where a stream is pushed to: each second the state and bitrate of every target that the server rendered. What else
// follows from a state (buttons, what is wrong) is rendered anew.

import { element, icon, setAttribute, setText } from "./dom.js";
import { bitrate, duration } from "./format.js";

const LOOK = {
  connecting: ["none", "Connecting"],
  live: ["good", "Live"],
  retrying: ["warn", "Tries again"],
  stopped: ["none", "Stopped"],
};
const FAILED = ["bad", "Failed"];
const EVENTS = /^(push|operator\.push)(\.|$)/;

export const isPushEvent = ({ kind }) => EVENTS.test(kind);

export class Pushes {
  /** `part`: has a row for each target, as the server renders them. */
  constructor(part) {
    this.part = part;
    this.states = "";
  }

  /** True: the rows are of other states than those that were rendered. */
  paint(stream, now) {
    const told = (stream.session_id && stream.pushes) || []; // Off air nothing is told any more.
    const views = new Map(told.map((view) => [String(view.target), view]));
    for (const row of this.part.querySelectorAll("[data-target]")) {
      const view = views.get(row.dataset.target);
      if (view) paintRow(row, view, now);
    }
    const states = [...views.values()].map(({ target, state, failure }) => `${target} ${state} ${failure}`).join();
    const changed = this.states !== states;
    this.states = states;
    return changed;
  }
}

/** [look, word] for a target's state. */
export function lookOf({ state, failure }) {
  return state === "stopped" && failure ? FAILED : (LOOK[state] ?? LOOK.stopped);
}

function paintRow(row, view, now) {
  const [look, word] = lookOf(view);
  const chip = row.querySelector("[data-field=state]");
  if (chip.textContent.trim() !== word) {
    chip.className = `chip ${look}`;
    chip.replaceChildren(icon(look), word);
  }
  setAttribute(row, "data-state", view.state);
  setText(row.querySelector("[data-field=figures]"), figures(view, now));
  const why = row.querySelector("[data-field=why]");
  why.hidden = !view.words;
  if (!view.words) return;
  const fact = `${view.words[0].toUpperCase()}${view.words.slice(1)}.`;
  const answer = view.description ? ` It said: “${view.description}”` : "";
  if (why.textContent.trim() === `${fact} ${view.advice}${answer}`) return;
  why.replaceChildren(
    element("b", {}, fact),
    ` ${view.advice}`,
    answer && element("span", { class: "sub" }, answer),
  );
}

/** How a target does: "2,612 kbit/s for 1 min 15 s, 2 s behind", "again in 4 s". */
export function figures(view, now) {
  const since = view.since ? duration(now - view.since) : "";
  if (view.state === "live") {
    const behind = view.behind_ms >= 1000 ? `, ${duration(view.behind_ms / 1000)} behind` : "";
    return `${bitrate(view.kbps)}${since && ` for ${since}`}${behind}`;
  }
  if (view.state === "retrying" && view.retry_at) return `again in ${duration(view.retry_at - now)}`;
  return since && `for ${since}`;
}
