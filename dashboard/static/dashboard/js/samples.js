// The last five minutes of a stream's samples, as the charts want them: columns with gaps, and the zones off air.

import { duration } from "./format.js";

export const WINDOW_S = 300;
const GAP_S = 2.6; // A longer pause between two samples is time off air.
const MEAN_OF = 5;
const COLUMNS = ["video_kbps", "audio_kbps", "fps", "keyframe_interval", "drift_dev", "players", "health"];

export class Samples {
  constructor() {
    this.rows = [];
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

  /** {times, columns, zones, range}: where media paused there is a row of nulls, so that no line joins its ends. */
  view(now) {
    const range = [now - WINDOW_S, now];
    const times = [];
    const columns = Object.fromEntries([...COLUMNS, "bitrate"].map((name) => [name, []]));
    const zones = [];
    let run = []; // The latest bitrates without a gap.
    let begun = false;
    const gap = (from, to) => {
      times.push(from + 1);
      for (const column of Object.values(columns)) column.push(null);
      zones.push({ from, to, label: `off ${duration(to - from)}` });
      run = [];
      begun = false;
    };
    let before = null;
    for (const row of this.rows) {
      if (row.at < range[0] - MEAN_OF) continue;
      if (before && row.at - before.at > GAP_S) gap(before.at, row.at);
      before = row;
      // An encoder that is accepted and has sent nothing yet is not at zero: it is not on air.
      begun ||= row.video_kbps > 0 || row.audio_kbps > 0;
      if (begun) run.push(row.video_kbps ?? 0);
      if (run.length > MEAN_OF) run.shift();
      times.push(row.at);
      for (const name of COLUMNS) columns[name].push(row[name] ?? null);
      columns.bitrate.push(!begun ? null : run.reduce((sum, value) => sum + value, 0) / run.length);
    }
    if (before && now - before.at > GAP_S + 1) gap(before.at, now);
    return { times, columns, zones, range };
  }
}
