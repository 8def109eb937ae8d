// Figures and times as words. A figure and its unit are joined by a no-break space; thousands have a comma; times are of
// the page's zone.

import { element } from "./dom.js";
import { isUtc, offset, showsUtc } from "./zone.js";

const NBSP = "\u00a0";
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const formats = new Map();

/** A number with thousands separated, or `none` where there is none. */
export function number(value, decimals = 0, none = "–") {
  if (value === null || value === undefined || !Number.isFinite(value)) return none;
  if (!formats.has(decimals)) {
    formats.set(
      decimals,
      new Intl.NumberFormat("en-GB", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }),
    );
  }
  return formats.get(decimals).format(value);
}

/** A number and its unit, never parted at a line's end. */
export function unit(value, name, decimals = 0, none = "–") {
  const text = number(value, decimals, "");
  return text === "" ? none : text + NBSP + name;
}

/** A bitrate given in kbit/s as [figure, unit], in the unit that keeps it short. */
export function bitrateParts(kbps) {
  if (kbps >= 1e6) return [number(kbps / 1e6, 2), "Gbit/s"];
  if (kbps >= 1e4) return [number(kbps / 1e3, 1), "Mbit/s"];
  return [number(kbps), "kbit/s"];
}

export const bitrate = (kbps) => bitrateParts(kbps).join(NBSP);

const two = (value) => String(value).padStart(2, "0");

/** A place in a recording or session, as a player shows it: 0:03:48, 1:12:40. How long something lasts: `duration`. */
export function clock(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  return `${Math.floor(s / 3600)}:${two(Math.floor((s % 3600) / 60))}:${two(s % 60)}`;
}

const SPANS = [
  [86400, "d", 3600, "h"],
  [3600, "h", 60, "min"],
  [60, "min", 1, "s"],
];

/** How long something lasts, as `span` of Python has it: 14 s, 1 min 52 s, 3 h 5 min, 6 d 4 h. */
export function duration(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  const [large, name, small, smallName] = SPANS.find(([least]) => s >= least) ?? [];
  if (!large) return unit(s, "s");
  return `${unit(Math.floor(s / large), name)} ${unit(Math.floor((s % large) / small), smallName)}`;
}

const shown = (at) => new Date((at + offset(at)) * 1000);

/** Seconds since the epoch as hh:mm:ss. */
export const time = (at) => shown(at).toISOString().slice(11, 19);

const dayOf = (date) => `${date.getUTCDate()}${NBSP}${MONTHS[date.getUTCMonth()]}`;

/** Seconds since the epoch as a day: 14 Nov. */
export const day = (at) => dayOf(shown(at));

/** The same by UTC: of what history has by days. */
export const utcDay = (at) => dayOf(new Date(at * 1000));

const utcTime = (at) => new Date(at * 1000).toISOString().slice(11, 19);

/** What stands beside a time that has no room for it: 14 Nov, 13:31:46 UTC. */
export const utc = (at) => `${utcDay(at)}, ${utcTime(at)} UTC`;

/** A time in a sentence, with UTC beside it: 14:31:46 (13:31:46 UTC). */
export function timeWithUtc(at) {
  return isUtc || offset(at) === 0 ? `${time(at)} UTC` : `${time(at)} ${inParentheses(at)}`;
}

const inParentheses = (at) => `(${day(at) === utcDay(at) ? "" : `${utcDay(at)}, `}${utcTime(at)} UTC)`;

/** What stands beside a time anywhere else: UTC, on the pages of who wants it so. */
export const utcBeside = (at) => (showsUtc && offset(at) !== 0 ? inParentheses(at) : "");

/** A time's element, as the tag `when` writes it: who points at it is shown UTC, who wants it so has it beside it. */
export function when(at, words = time(at), classes = null) {
  const beside = utcBeside(at);
  const attributes = { class: classes, datetime: new Date(at * 1000).toISOString(), title: utc(at) };
  return element("time", attributes, words, beside && " ", beside && element("span", { class: "utc" }, beside));
}

/** Seconds since the epoch from what a message carries: a number, or an ISO 8601 text. */
export const seconds = (at) => (typeof at === "number" ? at : Date.parse(at) / 1000);

/** A moment as addresses of pages have it (`instant` in templates): 2026-11-28T20:14:03Z. */
export const instant = (at) => `${new Date(at * 1000).toISOString().slice(0, 19)}Z`;

/** "1 stream", "4 streams". */
export const count = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;
