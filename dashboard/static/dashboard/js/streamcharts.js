// The charts of a stream's page, on one crosshair: what they show, by which limits they are judged, how far they go back.
// The last five minutes come live; what is longer ago, from the lake, in spans with their extremes.

import { ChartGroup } from "./charts.js";
import { element, icon, setText } from "./dom.js";
import { number, when } from "./format.js";
import { health } from "./health.js";
import { inSeconds, WINDOW_S } from "./samples.js";
import { aboveLimit, issueMarks, limitWords, nominalFps, optionsOf } from "./streamlimits.js";
import { zone } from "./zone.js";

const TABLE_ROWS = 60;
const PAGE_WORDS = { 300: "Last 5 minutes", 1800: "Last 30 minutes", 10800: "Last 3 hours" };
const PAST_MS = { 1800: 15000, 10800: 60000 }; // How often the lake is asked again; the newest five minutes are live.

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
      keyframe_interval: add("keyframe_interval", { unit: "s", decimals: 1, ...aboveLimit(limits.gop_long) }),
      drift: add("drift", { unit: "s", decimals: 1, top: 2 }),
      rtt_ms: add("rtt_ms", { unit: "ms", ...aboveLimit(limits.rtt_high) }),
      players: add("players", { unit: "", axis: true, top: 2 }),
    };
    this.caption("keyframe_interval", limitWords(limits.gop_long, "s"));
    this.caption("drift", "behind live");
    this.caption("rtt_ms", limitWords(limits.rtt_high, "ms"));
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
        marks: name === "bitrate" ? issueMarks(events, view.range, this.limits) : [],
        options: { now: isLive ? undefined : null, ...optionsOf(name, { target, nominal }, this.limits) },
      });
    }
    if (this.asTable) this.paintTable(view);
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
