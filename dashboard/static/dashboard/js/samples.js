// A stream's samples as its charts draw them: the live ones, and older ones from the lake. This module draws nothing.

import { GAP_S } from "./chartscale.js";
import { duration } from "./format.js";

export const WINDOW_S = 300;
const MEAN_OF = 5;
const COLUMNS = ["video_kbps", "audio_kbps", "fps", "keyframe_interval", "drift", "rtt_ms", "players", "health"];
const SPREAD = ["bitrate", "fps", "keyframe_interval", "drift", "rtt_ms", "players"];

/** A stream's samples as its charts want them: columns with gaps, and the zones off air. */
export class Samples {
  constructor() {
    this.rows = [];
    this.past = null;
  }

  /** Take a snapshot's columns {at: [...], ...}: all that is known of the stream, so it replaces what was here. */
  replace(columns) {
    const times = columns?.at ?? [];
    this.rows = times.map((at, index) =>
      Object.fromEntries([["at", at], ...COLUMNS.map((name) => [name, columns[name]?.[index] ?? null])]),
    );
  }

  push(sample) {
    if (this.rows.length && sample.at <= this.rows.at(-1).at) return;
    this.rows.push(sample);
    while (this.rows.length && this.rows[0].at < sample.at - WINDOW_S - MEAN_OF) this.rows.shift();
  }

  get last() {
    return this.rows.at(-1) ?? null;
  }

  /** What the API's samples say: {at, step_s, values, low, high, health, gaps}; null for none. */
  remember(series) {
    this.past = series && {
      ...series,
      rows: series.at.map((at, index) => {
        const one = (columns, name) => columns[name]?.[index] ?? null;
        const row = { at, health: series.health[index] };
        for (const name of COLUMNS) if (name !== "health") row[name] = one(series.values, name);
        for (const part of ["low", "high"]) {
          row[part] = Object.fromEntries(COLUMNS.map((name) => [name, one(series[part], name)]));
          row[part].bitrate = bitrateOf(row[part]);
        }
        return row;
      }),
    };
  }

  /**
   * {times, columns, low, high, zones, range} of the last `span` seconds: where media paused there is a row of nulls, so
   * that no line joins its ends. `low` and `high` are null where no span stands for several samples.
   */
  view(now, span = WINDOW_S) {
    const range = [now - span, now];
    const step = span > WINDOW_S ? (this.past?.step_s ?? 0) : 0;
    const liveFrom = this.rows[0]?.at ?? Infinity;
    const past = span > WINDOW_S ? (this.past?.rows ?? []).filter((row) => row.at + step < liveFrom) : [];
    const drawn = new Drawn(step > 0);
    let before = null;
    for (const row of [...past, ...this.rows]) {
      if (row.at < range[0] - MEAN_OF) continue;
      const isLive = row.at >= liveFrom;
      // The lake's span that the live samples begin in is left out, so there the distance is up to two spans.
      const spans = !isLive ? 1.5 : before?.at < liveFrom ? 2 : 0;
      if (before && row.at - before.at > GAP_S + spans * step)
        drawn.gap(before.at + (before.at < liveFrom ? step : 0), row.at);
      before = row;
      drawn.add(row, isLive);
    }
    if (before && now - before.at > GAP_S + 1 + (before.at < liveFrom ? step : 0)) drawn.gap(before.at, now);
    // Short ones within a span of the lake's: no line breaks for them, but they are marked.
    const hidden = past.length ? this.past.gaps.filter(([from, to]) => to - from <= 1.5 * step && to < liveFrom) : [];
    const zones = [...drawn.zones, ...hidden.map(([from, to]) => offAir(from, to))];
    return { times: drawn.times, columns: drawn.columns, low: drawn.low, high: drawn.high, zones, range };
  }
}

/** A column of milliseconds in seconds; null for no column. */
export const inSeconds = (list) => list?.map((value) => (value === null ? null : value / 1000)) ?? null;

const bitrateOf = ({ video_kbps: video, audio_kbps: audio }) => (video === null ? audio : video);
const offAir = (from, to) => ({ from, to, label: `off ${duration(to - from)}` });
const emptyColumns = (names) => Object.fromEntries(names.map((name) => [name, []]));

/** The columns as they grow. */
class Drawn {
  constructor(hasSpread) {
    this.times = [];
    this.columns = emptyColumns([...COLUMNS, "bitrate"]);
    this.low = hasSpread ? emptyColumns(SPREAD) : null;
    this.high = hasSpread ? emptyColumns(SPREAD) : null;
    this.zones = [];
    this.restart();
  }

  restart() {
    this.run = []; // The latest bitrates without a gap.
    this.begun = false;
  }

  gap(from, to) {
    this.times.push(from + 1);
    for (const part of [this.columns, this.low, this.high])
      for (const column of Object.values(part ?? {})) column.push(null);
    this.zones.push(offAir(from, to));
    this.restart();
  }

  add(row, isLive) {
    // An encoder that is accepted and has sent nothing yet is not at zero: it is not on air.
    this.begun ||= row.video_kbps > 0 || row.audio_kbps > 0;
    if (this.begun) this.run.push(row.video_kbps ?? 0);
    if (this.run.length > MEAN_OF) this.run.shift();
    this.times.push(row.at);
    for (const name of COLUMNS) this.columns[name].push(row[name] ?? null);
    const mean = this.run.reduce((sum, value) => sum + value, 0) / this.run.length;
    this.columns.bitrate.push(!this.begun ? null : isLive ? mean : row.video_kbps);
    for (const [part, extremes] of [[this.low, row.low], [this.high, row.high]])
      for (const name of part ? SPREAD : []) part[name].push(this.begun ? (extremes?.[name] ?? null) : null);
  }
}
