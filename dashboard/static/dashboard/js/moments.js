// A moment or a span of a session in the page's address, so that it can be handed on: ?at=2026-11-28T20:14:03Z, or ?from=
// and ?until=. A row below the head says which, with the link to copy.

import { setText } from "./dom.js";
import { day, duration, instant, seconds, time } from "./format.js";

const AROUND_S = 300; // What is shown before and after a moment of a longer session.

/** The address of a page at a moment. */
export const atMoment = (page, at) => `${page}?at=${instant(at)}`;

const moment = (at) => `${day(at)}, ${time(at)}`;

/** The moment and the span [from, until] that an address asks for; each is null if the address has none, or a bad one. */
export function askedFor(search) {
  const asked = new URLSearchParams(search);
  const [at, from, until] = ["at", "from", "until"].map((name) => {
    const found = asked.has(name) ? seconds(asked.get(name)) : NaN;
    return Number.isFinite(found) ? found : null;
  });
  return { at, span: from !== null && until !== null && until > from ? [from, until] : null };
}

/** The part of `range` to show for a moment or a span; null for all of it. */
export function partOf(range, { at, span }) {
  const [from, to] = range;
  const wanted = span ?? (at !== null && to - from > 2 * AROUND_S ? [at - AROUND_S, at + AROUND_S] : null);
  if (!wanted) return null;
  const [begin, end] = [Math.max(from, wanted[0]), Math.min(to, wanted[1])];
  return end - begin >= 1 ? [begin, end] : null;
}

/** The query that asks for a moment and a span; "" for neither. */
export function queryOf({ at, span }) {
  const parts = span ? [`from=${instant(span[0])}`, `until=${instant(span[1])}`] : [];
  if (at !== null) parts.unshift(`at=${instant(at)}`);
  return parts.length ? `?${parts.join("&")}` : "";
}

/** A moment and a span in words: "14 Nov, 20:14:03, in 14 Nov, 20:10:00 to 20:20:00 (10 min 0 s)". */
export function wordsOf({ at, span }) {
  const words = span && `${moment(span[0])} to ${time(span[1])} (${duration(span[1] - span[0])})`;
  return [at !== null && moment(at), words].filter(Boolean).join(", in ");
}

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
    Object.assign(this, askedFor(location.search)); // `at` and `span`.
    row.querySelector("[data-whole]").addEventListener("click", () => this.choose(null, null));
    this.show();
  }

  /** The span to show of `range`, which is all there is; null: all of it. */
  within(range) {
    return partOf(range, this);
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
    return queryOf(this);
  }

  show() {
    this.row.hidden = this.query === "";
    if (this.row.hidden) return;
    setText(this.row.querySelector("[data-words]"), wordsOf(this));
    setText(this.row.querySelector("code"), `${location.origin}${location.pathname}${this.query}`);
  }
}
