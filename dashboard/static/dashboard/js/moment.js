// A time on the page, as the tag `when` writes it: who points at it is shown UTC, and who wants it so has it beside it.

import { element } from "./dom.js";
import { time, utc, utcBeside } from "./format.js";

/** The element of a moment, in seconds since the epoch. */
export function when(at, words = time(at), classes = null) {
  const beside = utcBeside(at);
  const told = { class: classes, datetime: new Date(at * 1000).toISOString(), title: utc(at) };
  return element("time", told, words, beside && " ", beside && element("span", { class: "utc" }, beside));
}
