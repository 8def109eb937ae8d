// What charts reckon with: round gridlines, the level of a value, the nearest time, and room for labels.

const STEP_FACTORS = [1, 1.5, 2, 2.5, 3, 4, 5, 10];
const OVER_LAST = 0.35; // A value may stand this share of a step over the last gridline.
export const HEADROOM = 1.06; // The top, as a multiple of a value that stands nearly at it.

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
