// The hours or days of history as points of a chart, and the words of their times. Days are of UTC. This module draws
// nothing.

import { day, time, utcDay } from "./format.js";
import { offset } from "./zone.js";

const DAY_S = 86400;

/** Words of a Chart whose points are slots: hours, in the page's zone, or days. */
export function slotWords({ from, step }) {
  const byDay = step >= DAY_S;
  const slot = (at) => from + Math.floor((at - from) / step) * step;
  return {
    nowWord: byDay ? "last day" : "last hour",
    utc: byDay,
    tick: (at, apart) => {
      if (byDay) return utcDay(at);
      return apart >= DAY_S || (at + offset(at)) % DAY_S === 0 ? day(at) : time(at).slice(0, 5);
    },
    moment: (at) => (byDay ? utcDay(slot(at)) : `${day(slot(at))}, ${time(slot(at)).slice(0, 5)}`),
  };
}

/** When each of `length` slots begins and ends. The one that goes on now ends at `until`. */
export function edgesOf(length, { from, until, step }) {
  return Array.from({ length }, (_, index) => [from + index * step, Math.min(from + (index + 1) * step, until)]);
}

/** A value for each slot becomes one at its middle, and at the outer edges of each run: an hour alone is a short line. */
export function spread({ from, until, step, p5, p50, p95 }) {
  const out = { times: [], p5: [], p50: [], p95: [] };
  const put = (at, index) => {
    out.times.push(at);
    out.p5.push(index === null ? null : p5[index]);
    out.p50.push(index === null ? null : p50[index]);
    out.p95.push(index === null ? null : p95[index]);
  };
  edgesOf(p50.length, { from, until, step }).forEach(([start, end], index) => {
    if (p50[index] === null) {
      put((start + end) / 2, null);
      return;
    }
    if (index === 0 || p50[index - 1] === null) put(start, index);
    put((start + end) / 2, index);
    if (index === p50.length - 1 || p50[index + 1] === null) put(end - 1, index);
  });
  return out;
}

/** The greatest value of several lines for each slot; null if no line has one. */
export function tallest(lines) {
  return lines[0].map((_, index) => {
    const known = lines.map((values) => values[index]).filter((value) => value !== null);
    return known.length ? Math.max(...known) : null;
  });
}
