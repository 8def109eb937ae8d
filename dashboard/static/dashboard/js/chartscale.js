// The arithmetic of charts: round gridlines and times, the words at them, the level of a value, the nearest time, room for
// labels. This module draws nothing.

import { number } from "./format.js";
import { moment, offset } from "./zone.js";

export const GAP_S = 2.6; // A longer pause between two samples is time off air, and no line joins its ends.
const STEP_FACTORS = [1, 1.5, 2, 2.5, 3, 4, 5, 10];
const OVER_LAST = 0.35; // A value may stand this share of a step over the last gridline.
const HEADROOM = 1.06; // The top, as a multiple of a value that stands nearly at it.
const NEARLY = 0.97; // From this share of the last gridline on, a value stands nearly at it.
const TICK_APART = 64; // CSS px at a root font of 16 px.
const MOST_TICKS = 14; // More are no easier to read, however wide the page.
const MANY = 10_000; // From here on a scale is in thousands.
const STEPS_S = [1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 345600, 604800];

/** Round gridlines from 0 (or below it) up to about `high`, at most `count` steps. */
export function niceScale(low, high, count) {
  const raw = Math.max(high - Math.min(low, 0), 1e-9) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = STEP_FACTORS.map((factor) => factor * power).find((one) => one >= raw * 0.999);
  const from = Math.floor(Math.min(low, 0) / step) * step;
  const ticks = [];
  for (let value = from; value < high + step * (1 - OVER_LAST) || ticks.length < 2; value += step)
    ticks.push(Number(value.toPrecision(12)));
  return ticks;
}

/**
 * The gridlines and the top of a chart's scale. `columns` are lists of values, or null. The scale always holds `top`,
 * `dashed` and `band`, and has at most so many `ticks`.
 */
export function valueScale(columns, { top = 0, dashed = null, band = null, ticks }) {
  const values = columns.flatMap((column) => column ?? []).filter((value) => value !== null && value !== undefined);
  const highest = Math.max(top, dashed ?? 0, band?.[1] ?? 0, ...values, 0);
  const lines = niceScale(Math.min(0, ...values), highest || 1, ticks);
  return { ticks: lines, top: Math.max(lines.at(-1), highest > lines.at(-1) * NEARLY ? highest * HEADROOM : 0) };
}

/** The words at a gridline. The gutter has room for four digits, so `highest`, the last gridline, decides the unit. */
export function tickWords(value, highest, decimals) {
  if (highest < MANY) return number(value, decimals);
  return value ? `${number(value / 1000, value % 1000 ? 1 : 0)}k` : "0";
}

/** The words of a chart's value, with its unit; "no data" for a gap. */
export function valueWords(value, { decimals = 0, unit = "" } = {}) {
  if (value === null || value === undefined) return "no data";
  return number(value, decimals) + (unit ? `\u00a0${unit}` : "");
}

/** How far apart, in seconds, the labels of a span are on an axis of that width. */
export function timeStep(spanS, widthPx, fontScale = 1) {
  const room = Math.max(2, Math.min(Math.floor(widthPx / (TICK_APART * fontScale)), MOST_TICKS));
  return STEPS_S.find((step) => spanS / step <= room) ?? STEPS_S.at(-1);
}

/**
 * The round times of an axis, by the zone's clocks or by UTC. `fits(at)` is false if a time's label has no room before the
 * right edge.
 */
export function timeTicks([from, to], step, { fits = () => true, utc = false } = {}) {
  const ticks = [];
  const [before, atOf] = utc ? [0, (local) => local] : [offset(from), moment];
  for (let local = Math.ceil((from + before) / step) * step; ; local += step) {
    const at = atOf(local);
    if (at > to || !fits(at)) return ticks;
    if (at >= from && at > (ticks.at(-1) ?? -Infinity)) ticks.push(at);
  }
}

/** The place of the time that is nearest to `at`; null: there are none. */
export function nearest(times, at) {
  let best = null;
  times.forEach((time, place) => {
    if (best === null || Math.abs(time - at) < Math.abs(times[best] - at)) best = place;
  });
  return best;
}

export function levelOf(limits, value) {
  if (value < limits.badBelow || value > limits.badAbove) return "bad";
  if (value < limits.warnBelow || value > limits.warnAbove) return "warn";
  return "ok";
}

/** The first of `rows`, each a list of what is taken [from, to], that has room, which is then taken; -1: none has. */
export function takeRow(rows, from, to) {
  const row = rows.findIndex((taken) => taken.every(([begin, end]) => to <= begin || from >= end));
  if (row >= 0) rows[row].push([from, to]);
  return row;
}
