// A moment or a span of a session in the page's address, so that it can be handed on: ?at=2026-11-28T20:14:03Z, or ?from=
// and ?until=. A row below the head says which, with the link to copy.

import { setText } from "./dom.js";
import { day, duration, instant, seconds, time } from "./format.js";

const AROUND_S = 300; // What is shown before and after a moment of a longer session.

/** The address of a page at a moment. */
export const atMoment = (page, at) => `${page}?at=${instant(at)}`;

const moment = (at) => `${day(at)}, ${time(at)}`;

/** The row that shows a moment and its link; null: none. */
export function showLink(row, at, page) {
  row.hidden = at === null;
  if (at === null) return;
  setText(row.querySelector("[data-words]"), moment(at));
  setText(row.querySelector("code"), location.origin + atMoment(page, at));
}

export class Moments {
  /** `row`: holds the words, the link and a button that ends it; `changed()`: another moment or span is meant. */
  constructor(row, changed) {
    this.row = row;
    this.changed = changed;
    const asked = new URLSearchParams(location.search);
    const [at, from, until] = ["at", "from", "until"].map((name) => {
      const found = asked.has(name) ? seconds(asked.get(name)) : NaN;
      return Number.isFinite(found) ? found : null;
    });
    this.at = at;
    this.span = from !== null && until !== null && until > from ? [from, until] : null;
    row.querySelector("[data-whole]").addEventListener("click", () => this.choose(null, null));
    this.show();
  }

  /** The span to show of `range`, which is all there is; null: all of it. */
  within(range) {
    const [from, to] = range;
    const span = this.span ?? (this.at !== null && to - from > 2 * AROUND_S ? [this.at - AROUND_S, this.at + AROUND_S] : null);
    if (!span) return null;
    const [begin, end] = [Math.max(from, span[0]), Math.min(to, span[1])];
    return end - begin >= 1 ? [begin, end] : null;
  }

  pick(at) {
    this.choose(Math.round(at), this.span);
  }

  select(from, until) {
    this.choose(this.at, [Math.floor(from), Math.ceil(until)]);
  }

  choose(at, span) {
    [this.at, this.span] = [at, span];
    history.replaceState(null, "", `${location.pathname}${this.query}`);
    this.show();
    this.changed();
  }

  get query() {
    const parts = this.span ? [`from=${instant(this.span[0])}`, `until=${instant(this.span[1])}`] : [];
    if (this.at !== null) parts.unshift(`at=${instant(this.at)}`);
    return parts.length ? `?${parts.join("&")}` : "";
  }

  show() {
    this.row.hidden = this.query === "";
    if (this.row.hidden) return;
    const span = this.span && `${moment(this.span[0])} to ${time(this.span[1])} (${duration(this.span[1] - this.span[0])})`;
    setText(this.row.querySelector("[data-words]"), [this.at !== null && moment(this.at), span].filter(Boolean).join(", in "));
    setText(this.row.querySelector("code"), `${location.origin}${location.pathname}${this.query}`);
  }
}
