// What was measured of a session, as charts: the same six for one session and for two.

import { GAP_S } from "./chartscale.js";
import { day, duration, time } from "./format.js";
import { offset } from "./zone.js";

const BAND = [0.7, 1.3]; // Of the target bitrate, as the health checks have them.
const BITRATE_BAD = 0.4;
const FPS_LOW = 0.9;
const FPS_BAD = 0.6;
const DAY_S = 86400;
const APART = 0.1; // Two totals that are further apart differ.

/** By a chart's name: the column that it draws, and its options. */
export const CHARTS = {
  bitrate: ["video_kbps", { unit: "kbit/s", ticks: 4, top: 100, labels: true }],
  fps: ["fps", { decimals: 1, unit: "" }],
  keyframe_interval: ["keyframe_interval", { unit: "s", decimals: 1, dashed: 4, limits: { warnAbove: 4, badAbove: 10 } }],
  drift_dev: ["drift_dev", { unit: "ms", dashed: 500, top: 1000, limits: { warnAbove: 500, badAbove: 1000 } }],
  rtt_ms: ["rtt_ms", { unit: "ms", dashed: 200, top: 250, limits: { warnAbove: 200 } }],
  players: ["players", { unit: "", axis: true, top: 2 }],
};
export const CHART_NAMES = Object.keys(CHARTS);

/** What depends on the session: its target bitrate and the frame rate that its encoder claims. */
export function expectations({ target, metadata }) {
  const nominal = typeof metadata?.framerate === "number" && metadata.framerate > 0 ? metadata.framerate : null;
  return {
    bitrate: target
      ? { dashed: target, band: BAND.map((part) => part * target), limits: { warnBelow: BAND[0] * target, badBelow: BITRATE_BAD * target } }
      : {},
    fps: nominal ? { top: nominal, limits: { warnBelow: FPS_LOW * nominal, badBelow: FPS_BAD * nominal } } : { top: 30 },
  };
}

/**
 * One column of a session on a grid of times since its begin, `step` seconds apart: for each span the mean of the values
 * that are known, else null.
 */
export function onGrid(session, begin, name, { length, step }) {
  const sums = Array.from({ length }, () => [0, 0]);
  session.at.forEach((at, place) => {
    const value = session.values[name][place];
    const slot = sums[Math.floor((at - begin) / step)];
    const middle = at + session.step_s / 2;
    const silent = session.gaps.some(([from, to]) => middle > from && middle < to);
    if (value === null || value === undefined || !slot || silent) return;
    slot[0] += name === "drift_dev" ? Math.abs(value) : value;
    slot[1] += 1;
  });
  return sums.map(([sum, n]) => (n ? sum / n : null));
}

/** True if two totals are more than a tenth apart, or only one is known. */
export function differs(a, b) {
  return a === null || b === null ? a !== b : Math.abs(a - b) > APART * Math.max(Math.abs(a), Math.abs(b));
}

/** Words of a time on an axis: the day too, where it lasts longer than one. */
export const clockWords = ([from, to]) => ({
  tick: (at, step) => {
    if (step >= DAY_S || (to - from > DAY_S && (at + offset(at)) % DAY_S === 0)) return day(at);
    return step < 60 ? time(at) : time(at).slice(0, 5);
  },
  moment: (at) => (to - from > DAY_S ? `${day(at)}, ${time(at)}` : time(at)),
});

/**
 * {times, zones, column(name)} of what the server gives: where media paused there is a row of nulls, so that no line
 * joins its ends. column: {values, low, high}, of which low and high are null where each value is a second's own.
 */
export function view({ at, step_s: step, values, low, high, gaps, lanes }) {
  const times = [];
  const places = []; // Of each time its place in the columns; null: a gap.
  const inGap = (moment) => gaps.some(([from, to]) => moment > from && moment < to);
  const longest = Math.max(GAP_S, step * 2.2);
  at.forEach((moment, place) => {
    if (place && moment - at[place - 1] > longest) {
      times.push(at[place - 1] + Math.max(1, step));
      places.push(null);
    }
    times.push(moment);
    places.push(inGap(moment + step / 2) ? null : place);
  });
  const pick = (column) => places.map((place) => (place === null ? null : (column[place] ?? null)));
  const absolute = (name, list) => (name === "drift_dev" ? list.map((one) => (one === null ? null : Math.abs(one))) : list);
  const zones = gaps.map(([from, to]) => ({ from, to, label: `off ${duration(to - from)}` }));
  return {
    times,
    places,
    zones,
    range: lanes.range,
    column: (name) => ({
      values: absolute(name, pick(values[name])),
      low: step && name !== "drift_dev" ? pick(low[name]) : null,
      high: step && name !== "drift_dev" ? pick(high[name]) : null,
    }),
  };
}
