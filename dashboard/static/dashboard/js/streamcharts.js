// The charts of a stream's page, on one crosshair: what they show, by which limits they are judged, how far they go back.
// The last five minutes come live; what is longer ago, from the lake, in spans with their extremes.

import { ChartGroup } from "./charts.js";
import { element, icon, setText } from "./dom.js";
import { duration, number, unit, when } from "./format.js";
import { health } from "./health.js";
import { zone } from "./zone.js";

const WINDOW_S = 300;
const GAP_S = 2.6; // A longer pause between two samples is time off air.
const MEAN_OF = 5;
const COLUMNS = ["video_kbps", "audio_kbps", "fps", "keyframe_interval", "drift", "rtt_ms", "players", "health"];
const SPREAD = ["bitrate", "fps", "keyframe_interval", "drift", "rtt_ms", "players"];
const TABLE_ROWS = 60;
const MARKS = 4; // More than these on one chart can't be read.
const PAGE_WORDS = { 300: "Last 5 minutes", 1800: "Last 30 minutes", 10800: "Last 3 hours" };
const PAST_MS = { 1800: 15000, 10800: 60000 }; // How often the lake is asked again; the newest five minutes are live.

/** A limit in % of a value; undefined where there is none. */
const percent = (limit, value) => (limit === null || limit === undefined ? undefined : (limit / 100) * value);

export class StreamCharts {
  /** `limits`: {check: {name, warning, bad}}; `url` answers with the samples of some time; `pick(at)`: see ChartGroup. */
  constructor(card, samples, { limits, url, isStill, pick }) {
    this.card = card;
    this.samples = samples;
    this.limits = limits;
    this.url = url;
    this.isStill = isStill;
    this.span = WINDOW_S;
    this.asTable = false;
    this.askedAt = 0;
    this.group = new ChartGroup({ pick });
    const add = (name, options) => this.group.add(this.figure(name), options);
    this.plots = {
      bitrate: add("bitrate", { unit: "kbit/s", ticks: 4, top: 100, labels: true }),
      fps: add("fps", { unit: "fps", decimals: 1, tickDecimals: 0 }),
      keyframe_interval: add("keyframe_interval", { unit: "s", decimals: 1, ...this.above("gop_long") }),
      drift: add("drift", { unit: "s", decimals: 1, top: 2 }),
      rtt_ms: add("rtt_ms", { unit: "ms", ...this.above("rtt_high") }),
      players: add("players", { unit: "", axis: true, top: 2 }),
    };
    this.caption("keyframe_interval", this.dashedWords("gop_long", "s"));
    this.caption("drift", "behind live");
    this.caption("rtt_ms", this.dashedWords("rtt_high", "ms"));
    card.addEventListener("change", (event) => this.choose(Number(event.target.value)));
    card.querySelector("#table-toggle").addEventListener("click", (event) => this.toggleTable(event.currentTarget));
  }

  /** Whether more is asked for than what is live. */
  get looksBack() {
    return this.span !== WINDOW_S;
  }

  figure(name) {
    return this.card.querySelector(`[data-chart="${name}"]`);
  }

  caption(name, words) {
    setText(this.figure(name).querySelector(".clip"), words);
  }

  /** What a chart needs for a check that opens above its limits. */
  above(check) {
    const limit = this.limits[check] ?? {};
    return {
      dashed: limit.warning ?? limit.bad ?? null,
      limits: { warnAbove: limit.warning ?? undefined, badAbove: limit.bad ?? undefined },
    };
  }

  dashedWords(check, name) {
    const limit = this.limits[check] ?? {};
    const [word, value] = limit.warning == null ? ["bad", limit.bad] : ["warning", limit.warning];
    return value == null ? "" : `dashed: ${word} over ${unit(value, name, value % 1 ? 1 : 0)}`;
  }

  /* ---- how far back ---- */

  choose(span) {
    this.span = span;
    this.samples.remember(null);
    setText(this.card.querySelector("h2"), PAGE_WORDS[span]);
    const aside = span === WINDOW_S ? `one sample a second, times in ${zone}` : `band: least to greatest, times in ${zone}`;
    setText(this.card.querySelector(".card-head p"), aside);
    this.showNote("");
    this.askedAt = 0;
    this.ask();
    this.repaint();
  }

  showNote(words) {
    const place = this.card.querySelector("[data-field=range-note]");
    setText(place, words);
    place.hidden = words === "";
  }

  /** The lake's samples, if they are wanted and old. */
  async ask() {
    const wait = PAST_MS[this.span];
    if (!wait || document.hidden || this.isStill() || Date.now() - this.askedAt < wait) return;
    this.askedAt = Date.now();
    const span = this.span;
    if (!this.samples.past) this.showNote("Reading what was measured.");
    let words = "";
    try {
      const response = await fetch(`${this.url}?seconds=${span}`, { headers: { Accept: "application/json" } });
      if (!response.ok) throw new Error(response.statusText);
      const series = await response.json();
      if (span !== this.span) return;
      this.samples.remember(series);
      words = series.problems.join(" ");
    } catch {
      words = "What was measured before the last 5 minutes could not be read.";
    }
    if (span !== this.span) return;
    this.showNote(words);
    this.repaint();
  }

  repaint() {
    if (this.lastPaint) this.paint(...this.lastPaint);
  }

  /* ---- drawing ---- */

  /** `events`: of the feed, for the marks. Returns whether there is anything to see. */
  paint(stream, now, events) {
    this.lastPaint = [stream, now, events];
    this.ask();
    const view = this.samples.view(now, this.span);
    const seen = view.columns.bitrate.some((value) => value !== null);
    if (stream.state === "live" || seen || this.looksBack) this.draw(stream, view, events);
    return seen;
  }

  draw(stream, view, events) {
    const target = stream.target_kbps || null;
    const nominal = nominalFps(stream);
    const isLive = stream.state === "live";
    const mean = this.span === WINDOW_S ? "video, 5 s mean" : "video, mean";
    this.caption("bitrate", target ? `${mean}; dashed: target ${number(target)}` : mean);
    this.caption("fps", nominal ? `nominal ${number(nominal, nominal % 1 ? 2 : 0)}` : "as received");
    for (const [name, plot] of Object.entries(this.plots)) {
      const values = view.columns[name];
      plot.show({
        times: view.times,
        values: name === "drift" ? inSeconds(values) : values,
        low: name === "drift" ? inSeconds(view.low?.[name]) : view.low?.[name],
        high: name === "drift" ? inSeconds(view.high?.[name]) : view.high?.[name],
        range: view.range,
        zones: view.zones,
        marks: name === "bitrate" ? this.marks(events, view.range) : [],
        options: { now: isLive ? undefined : null, ...this.byStream(name, target, nominal) },
      });
    }
    if (this.asTable) this.paintTable(view);
  }

  /** Options that follow from what the stream ought to be. */
  byStream(name, target, nominal) {
    const low = this.limits[{ bitrate: "bitrate_low", fps: "fps_low" }[name]] ?? {};
    const high = this.limits.bitrate_high ?? {};
    if (name === "bitrate") {
      if (!target) return { dashed: null, band: null, limits: {} };
      const [from, to] = [percent(low.warning, target), percent(high.warning, target)];
      return {
        dashed: target,
        band: from !== undefined && to !== undefined ? [from, to] : null,
        limits: {
          warnBelow: from,
          badBelow: percent(low.bad, target),
          warnAbove: to, // What is bad is over the key's limit, of all that is sent.
        },
      };
    }
    if (name !== "fps") return {};
    if (!nominal) return { top: 30, limits: {} };
    return {
      top: nominal,
      limits: { warnBelow: percent(low.warning, nominal), badBelow: percent(low.bad, nominal) },
    };
  }

  /** When issues opened, as the feed knows it. */
  marks(events, [from, to]) {
    return [...events]
      .filter((event) => event.kind === "health.opened" && event.at > from && event.at <= to)
      .slice(0, MARKS)
      .map((event) => ({ at: event.at, label: (this.limits[event.code]?.name ?? event.code).toLowerCase() }));
  }

  toggleTable(button) {
    this.asTable = !this.asTable;
    button.setAttribute("aria-pressed", String(this.asTable));
    this.card.querySelector("#plots").hidden = this.asTable;
    this.card.querySelector("#plot-table").hidden = !this.asTable;
    this.card.querySelector(".legend").hidden = this.asTable;
    this.repaint();
  }

  /** The newest first; of a long time not every sample. */
  paintTable({ times: at, columns, range }) {
    const every = this.span === WINDOW_S ? 1 : Math.max(1, Math.ceil(at.length / TABLE_ROWS));
    const rows = [];
    for (let i = at.length - 1; i >= 0 && rows.length < TABLE_ROWS; i -= every) {
      if (at[i] < range[0]) break;
      rows.push(tableRow(at[i], columns, i, this.span));
    }
    this.card.querySelector("#plot-table tbody").replaceChildren(...rows);
  }
}

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
      if (before && row.at - before.at > GAP_S + (isLive && before.at >= liveFrom ? 0 : 1.5 * step))
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

/** Frames a second as the encoder claims them. */
export function nominalFps(stream) {
  const claimed = stream.metadata?.framerate;
  return typeof claimed === "number" && claimed > 0 ? claimed : null;
}

function tableRow(at, columns, i, span) {
  if (columns.bitrate[i] === null)
    return element("tr", {}, element("td", {}, when(at)), element("td", { colspan: 7, class: "dim" }, "off air"));
  const style = health(columns.health[i]);
  const cells = [
    number(columns.bitrate[i]),
    number(columns.fps[i], 1),
    number(columns.keyframe_interval[i], 1),
    number(inSeconds(columns.drift)[i], 1),
    number(columns.rtt_ms[i], columns.rtt_ms[i] < 10 ? 1 : 0),
    number(columns.players[i], span === WINDOW_S || columns.players[i] % 1 === 0 ? 0 : 1),
  ];
  return element(
    "tr",
    {},
    element("td", {}, when(at)),
    ...cells.map((cell) => element("td", { class: "num" }, cell)),
    element("td", { class: "nowrap" }, icon(style.icon, `w-${style.icon}`), " ", style.word),
  );
}

const inSeconds = (list) => list?.map((value) => (value === null ? null : value / 1000)) ?? null;

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
