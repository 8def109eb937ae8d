// A group of charts on one time axis and one crosshair, drawn by uPlot (a classic script that sets window.uPlot).
// Trouble stands up: what is out of its limits is drawn thicker as well as in the health's colour.

import { levelOf, nearest, takeRow, tickWords, timeStep, timeTicks, valueScale, valueWords } from "./chartscale.js";
import { setText } from "./dom.js";
import { time } from "./format.js";
import { colour, onColoursChanged } from "./theme.js";

const GUTTER = 44; // All sizes in CSS px at a root font of 16 px.
const AXIS = 20;
const TOP = 8;
const DIGIT = 6.2;
const LABEL_ROW = 13;
const LABEL_ROWS = 3; // Of marks that are close together; what fits into none has its line alone.
const LINE = { ok: 1.5, warn: 2.25, bad: 2.75 };
const TOKENS = [
  "--text", "--text-2", "--text-3", "--grid", "--band", "--sunken",
  "--surface", "--series", "--median", "--accent", "--warn-mark", "--bad-mark",
];
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

/** The button that shows the table with this id in the plots' place. */
export function listenToTable(id) {
  const button = document.getElementById("table-toggle");
  button?.addEventListener("click", () => {
    const asTable = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(asTable));
    document.getElementById("plots").hidden = asTable;
    document.getElementById(id).hidden = !asTable;
  });
}

/**
 * Charts that share their crosshair. Pointer, touch and arrow keys move it; Escape takes it away. `pick(at)`: somebody
 * clicked on a moment, or pressed Enter on it; `select(from, until)`: dragged over some time. Without them nothing is.
 */
export class ChartGroup {
  constructor({ pick = null, select = null } = {}) {
    this.pick = pick;
    this.select = select;
    this.pinned = null;
    this.key = `charts-${Math.random().toString(36).slice(2)}`;
    this.charts = [];
    this.resize = new ResizeObserver((entries) => entries.forEach((entry) => entry.target.chart.fit()));
    onColoursChanged(() => this.charts.forEach((chart) => chart.recolour()));
  }

  add(figure, options) {
    const chart = new Chart(this, figure, options);
    this.charts.push(chart);
    this.resize.observe(chart.host);
    return chart;
  }

  /** A moment that stays marked in all charts, whose values they show while nobody points elsewhere; null: none. */
  pin(at) {
    this.pinned = at;
    for (const chart of this.charts) {
      chart.plot.redraw(false, false);
      chart.paintValue();
    }
  }

  /** Put the crosshair on the `index`th point of every chart; null takes it away. */
  moveTo(index) {
    for (const chart of this.charts) {
      const at = index === null ? null : chart.plot.data[0][index];
      chart.plot.setCursor({ left: at === null ? -10 : chart.plot.valToPos(at, "x"), top: at === null ? -10 : 0 });
    }
  }
}

export class Chart {
  /**
   * `figure` holds a `.plot` and an `output`. Options: `unit` ("" for none), `decimals`, `tickDecimals`, `ticks` (how
   * many steps at most), `axis` (whether it carries the times), `limits` {warnBelow, badBelow, warnAbove, badAbove},
   * `band` [low, high], `dashed` (a limit's value), `top` (a value that the scale always holds), `stroke` (token),
   * `nowWord`, `tick(at, step)` and `moment(at)` for the words of a time, `utc` (whether round times are UTC's).
   */
  constructor(group, figure, options) {
    this.group = group;
    this.options = {
      decimals: 0,
      tickDecimals: 0,
      ticks: 2,
      limits: {},
      top: 0,
      stroke: "--series",
      nowWord: "now",
      tick: (at, step) => (step < 60 ? time(at) : time(at).slice(0, 5)),
      moment: time,
      ...options,
    };
    this.host = figure.querySelector(".plot");
    this.host.chart = this;
    this.output = figure.querySelector("output");
    this.zones = [];
    this.marks = [];
    this.range = [0, 1];
    this.yTicks = [0, 1];
    this.yTop = 1;
    this.recolour(false);
    this.plot = new uPlot(
      this.settings(),
      [
        [0, 1],
        [null, null],
      ],
      this.host,
    );
    this.host.tabIndex = 0;
    this.host.addEventListener("keydown", (event) => this.onKey(event));
    if (group.pick) this.plot.over.addEventListener("click", () => this.onClick());
    this.host.addEventListener("blur", () => {
      this.output?.setAttribute("aria-live", "off");
    });
  }

  get scale() {
    return parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
  }

  recolour(redraw = true) {
    this.colours = Object.fromEntries(TOKENS.map((token) => [token, colour(token)]));
    if (redraw) this.plot.redraw(false, true);
  }

  settings() {
    const { scale, colours } = this;
    const font = `${11 * scale}px ${FONT}`;
    const axis = { stroke: () => this.colours["--text-3"], font, ticks: { show: false }, border: { show: false } };
    return {
      width: this.host.clientWidth || 300,
      height: this.height(),
      legend: { show: false },
      padding: [TOP * scale, 2, this.options.axis ? 0 : 5 * scale, 0],
      cursor: {
        y: false,
        drag: { x: Boolean(this.group.select), y: false, setScale: false, dist: 8 },
        sync: { key: this.group.key, scales: ["x", null], setSeries: false },
        points: {
          size: 8 * scale,
          width: 2,
          fill: () => this.colours["--surface"],
          stroke: () => this.colours["--text"],
        },
      },
      scales: { x: { time: false, range: () => this.range }, y: { range: () => [this.yTicks[0], this.yTop] } },
      axes: [
        {
          ...axis,
          show: Boolean(this.options.axis),
          size: AXIS * scale,
          gap: 7 * scale, // Below the words of the lowest gridline, where both stand at the left edge.
          grid: { show: false },
          splits: () => this.timeTicks(),
          values: (_plot, splits) => splits.map((at) => this.options.tick(at, this.timeStep())),
        },
        {
          ...axis,
          size: GUTTER * scale,
          gap: 8 * scale,
          grid: { stroke: () => this.colours["--grid"], width: 1 },
          splits: () => this.yTicks,
          values: (_plot, splits) => splits.map((value) => tickWords(value, this.yTicks.at(-1), this.options.tickDecimals)),
        },
      ],
      series: [{}, { stroke: colours["--series"], paths: () => null, points: { show: false } }],
      hooks: {
        drawAxes: [() => this.paintBack()],
        draw: [() => this.paintFront()],
        setCursor: [() => this.paintValue()],
        setSelect: [() => this.onSelect()],
      },
    };
  }

  onSelect() {
    const { left, width } = this.plot.select;
    if (!width) return;
    this.isSelecting = true; // The click that ends it is none.
    const [from, until] = [left, left + width].map((x) => this.plot.posToVal(x, "x"));
    this.plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.group.select(from, until);
  }

  onClick() {
    if (this.isSelecting) {
      this.isSelecting = false;
      return;
    }
    const { left, idx } = this.plot.cursor;
    const at = left >= 0 && idx !== null && idx !== undefined ? this.plot.data[0][idx] : null;
    if (at !== null) this.group.pick?.(at);
  }

  height() {
    return Math.round(parseFloat(getComputedStyle(this.host).minHeight)) || 88;
  }

  fit() {
    const [width, height] = [this.host.clientWidth, this.height()];
    if (width && (width !== this.plot.width || height !== this.plot.height)) this.plot.setSize({ width, height });
  }

  /**
   * New data: `times` and `values` of one length (a null value is a gap), optionally `low` and `high` of a spread, and
   * what stands on the time axis: `range` [from, to], `zones` [{from, to, label}], `marks` [{at, label}].
   */
  show({ times, values, low = null, high = null, range, zones = [], marks = [], options = {} }) {
    Object.assign(this, { low, high, range, zones, marks });
    Object.assign(this.options, options);
    ({ ticks: this.yTicks, top: this.yTop } = valueScale([values, high, low], this.options));
    this.plot.setData([times, values], true);
    this.paintValue();
  }

  /* ---- the time axis: round times only ---- */

  timeStep() {
    return timeStep(this.range[1] - this.range[0], this.plot.bbox.width / uPlot.pxRatio, this.scale);
  }

  timeTicks() {
    const step = this.timeStep();
    // A label stands in the middle below its time: the last one has to fit before the right edge.
    const perPixel = (this.range[1] - this.range[0]) / (this.plot.bbox.width / uPlot.pxRatio);
    const fits = (at) => this.range[1] - at >= (this.options.tick(at, step).length * DIGIT * this.scale * perPixel) / 2;
    return timeTicks(this.range, step, { fits, utc: Boolean(this.options.utc) });
  }

  /* ---- canvas; all positions in its own pixels ---- */

  x(at) {
    return this.plot.valToPos(at, "x", true);
  }

  y(value) {
    const [low, high] = [this.yTicks[0], this.yTop];
    return this.plot.valToPos(Math.max(low, Math.min(high, value)), "y", true);
  }

  paintBack() {
    const { ctx, bbox } = this.plot;
    const clampX = (at) => Math.max(bbox.left, Math.min(bbox.left + bbox.width, this.x(at)));
    ctx.save();
    if (this.options.band) {
      const [low, high] = this.options.band;
      ctx.fillStyle = this.colours["--band"];
      ctx.fillRect(bbox.left, this.y(high), bbox.width, this.y(low) - this.y(high));
    }
    for (const zone of this.zones) {
      const [from, to] = [clampX(zone.from), clampX(zone.to)];
      if (to <= from) continue;
      ctx.fillStyle = this.colours["--sunken"];
      ctx.fillRect(from, bbox.top, to - from, bbox.height);
      for (const edge of [from, to])
        if (edge > bbox.left && edge < bbox.left + bbox.width)
          this.dashed(edge, bbox.top, edge, bbox.top + bbox.height, "--text-2", [1, 3]);
    }
    if (this.options.dashed !== undefined && this.options.dashed !== null) {
      const y = this.y(this.options.dashed);
      this.dashed(bbox.left, y, bbox.left + bbox.width, y, "--text-3", [3, 4]);
    }
    for (const x of this.marks.map((mark) => this.x(mark.at)))
      this.dashed(x, bbox.top - 4 * uPlot.pxRatio, x, bbox.top + bbox.height, "--text-2", [1, 3]);
    ctx.restore();
  }

  dashed(x0, y0, x1, y1, token, pattern) {
    const { ctx } = this.plot;
    const ratio = uPlot.pxRatio;
    const half = (ratio % 2) / 2;
    ctx.beginPath();
    ctx.setLineDash(pattern.map((part) => part * ratio));
    ctx.lineWidth = ratio;
    ctx.strokeStyle = this.colours[token];
    ctx.moveTo(Math.round(x0) + half, Math.round(y0) + half);
    ctx.lineTo(Math.round(x1) + half, Math.round(y1) + half);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  paintFront() {
    const { ctx, bbox } = this.plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top - 4, bbox.width + 2, bbox.height + 8);
    ctx.clip();
    if (this.high) this.paintSpread();
    this.paintLine();
    if (this.group.pinned !== null) this.paintPin(this.x(this.group.pinned));
    ctx.restore();
    this.paintLabels();
  }

  paintPin(x) {
    const { ctx, bbox } = this.plot;
    ctx.beginPath();
    ctx.lineWidth = 2 * uPlot.pxRatio;
    ctx.strokeStyle = this.colours["--accent"];
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }

  /** One shape for each run without a gap. */
  paintSpread() {
    const { ctx } = this.plot;
    const times = this.plot.data[0];
    ctx.fillStyle = this.colours["--band"];
    for (let from = 0; from < times.length; from += 1) {
      if (this.high[from] === null) continue;
      let to = from;
      while (to + 1 < times.length && this.high[to + 1] !== null) to += 1;
      ctx.beginPath();
      for (let i = from; i <= to; i += 1) ctx.lineTo(this.x(times[i]), this.y(this.high[i]));
      for (let i = to; i >= from; i -= 1) ctx.lineTo(this.x(times[i]), this.y(this.low[i]));
      ctx.fill();
      from = to;
    }
  }

  paintLine() {
    const { ctx } = this.plot;
    const [times, values] = this.plot.data;
    const tokens = { ok: this.options.stroke, warn: "--warn-mark", bad: "--bad-mark" };
    const known = (i) => values[i] !== null && values[i] !== undefined;
    ctx.lineJoin = "round";
    ctx.lineCap = "round";
    for (const [level, token] of Object.entries(tokens)) {
      ctx.beginPath();
      ctx.strokeStyle = this.colours[token];
      ctx.lineWidth = LINE[level] * uPlot.pxRatio;
      for (let i = 0; i < times.length; i += 1) {
        if (!known(i) || levelOf(this.options.limits, values[i]) !== level) continue;
        const [x, y] = [this.x(times[i]), this.y(values[i])];
        if (i > 0 && known(i - 1)) ctx.moveTo(this.x(times[i - 1]), this.y(values[i - 1]));
        else ctx.moveTo(x, y); // The first of a run: a dot, if it stays alone.
        ctx.lineTo(x, y);
      }
      ctx.stroke();
    }
  }

  paintLabels() {
    const { ctx, bbox } = this.plot;
    const ratio = uPlot.pxRatio;
    ctx.save();
    ctx.font = `${11 * this.scale * ratio}px ${FONT}`;
    const write = (text, x, y, align) => {
      ctx.textAlign = align;
      ctx.lineJoin = "round";
      ctx.lineWidth = 4 * ratio;
      ctx.strokeStyle = this.colours["--surface"];
      ctx.strokeText(text, x, y);
      ctx.fillStyle = this.colours["--text-2"];
      ctx.fillText(text, x, y);
    };
    for (const zone of this.zones) {
      const [from, to] = [Math.max(bbox.left, this.x(zone.from)), Math.min(bbox.left + bbox.width, this.x(zone.to))];
      if (zone.label && this.options.labels && to - from > ctx.measureText(zone.label).width)
        write(zone.label, (from + to) / 2, bbox.top + bbox.height - 6 * ratio, "center");
    }
    const rows = Array.from({ length: LABEL_ROWS }, () => []); // What is taken of each: [from, to].
    for (const mark of this.marks) {
      if (!mark.label || !this.options.labels || mark.at < this.range[0]) continue;
      const x = this.x(mark.at);
      const right = x > bbox.left + bbox.width * 0.72;
      const width = ctx.measureText(mark.label).width + 10 * ratio;
      const [from, to] = right ? [x - width, x] : [x, x + width];
      const row = takeRow(rows, from, to);
      if (row < 0) continue;
      const y = bbox.top + (8 + LABEL_ROW * row) * this.scale * ratio;
      write(mark.label, x + (right ? -5 : 5) * ratio, y, right ? "right" : "left");
    }
    ctx.restore();
  }

  /* ---- the value beside the caption ---- */

  paintValue() {
    if (!this.output || !this.plot) return;
    const [times, values] = this.plot.data;
    const index = this.plot.cursor.left >= 0 ? this.plot.cursor.idx : null;
    const pointed = index !== null && index !== undefined;
    const pinned = !pointed && this.group.pinned !== null ? nearest(times, this.group.pinned) : null;
    const shown = pointed ? index : pinned;
    const at = pointed ? times[index] : this.group.pinned;
    const value =
      shown !== null
        ? values[shown]
        : this.options.now !== undefined
          ? this.options.now
          : values.findLast((one) => one !== null);
    if (!this.output.firstElementChild)
      this.output.append(document.createElement("small"), document.createElement("span"));
    setText(this.output.firstElementChild, `${at === null ? this.options.nowWord : this.options.moment(at)} `);
    setText(this.output.lastElementChild, valueWords(value, this.options));
  }

  onKey(event) {
    const last = this.plot.data[0].length - 1;
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30 };
    if (event.key === "Escape") this.group.moveTo(null);
    else if (event.key === "Enter" && this.group.pick) this.onClick();
    else if (event.key in moves) {
      const from = this.plot.cursor.left >= 0 && this.plot.cursor.idx !== null ? this.plot.cursor.idx : last;
      this.output?.setAttribute("aria-live", "polite");
      this.group.moveTo(Math.max(0, Math.min(last, from + moves[event.key])));
    } else return;
    event.preventDefault();
  }
}
