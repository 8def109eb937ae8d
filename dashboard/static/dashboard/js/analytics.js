// The pages of history: the bitrate by hour or day with its marks, and the progress of a run that is going on; the
// comparison, with the medians of a few chosen ones in one chart, told apart by dashes as well as by colour.

import { Chart, ChartGroup, listenToTable } from "./charts.js";
import { element, icon, pageData, setText, svg } from "./dom.js";
import { number } from "./format.js";
import { edgesOf, slotWords, spread, tallest } from "./slots.js";
import { colour } from "./theme.js";
import { zone } from "./zone.js";

const POLL_MS = 1000;
const LOOKS = [
  ["--series", []],
  ["--series-2", [8, 3]],
  ["--text", [2, 3]],
  ["--series", [10, 3, 2, 3]],
  ["--series-2", [1.5, 3]],
]; // Of a line: its colour's token, its dashes in px.
const WIDTH = 1.75;

/** Options of a Chart whose points are hours or days. `data`: from and step, in seconds. */
const axisOptions = (data) => ({ unit: "kbit/s", top: 100, ticks: 4, axis: true, ...slotWords(data) });

/**
 * A choice from a list shows the page anew at once; so does a stream that was typed and is one of the known. Where the
 * ranges have no room, the chosen one is in sight.
 */
function listenToChoice() {
  const form = document.getElementById("choice");
  if (!form) return;
  form.querySelector(".seg [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  for (const select of form.querySelectorAll("select")) select.addEventListener("change", () => form.requestSubmit());
  const field = form.querySelector("input[list]");
  field?.addEventListener("change", () => {
    if ([...field.list.options].some((option) => option.value === field.value)) form.requestSubmit();
  });
}

/* ---- one stream ---- */

function drawHistory() {
  const figure = document.getElementById("bitrate");
  if (!figure) return;
  const data = pageData("chart-data");
  const known = (value) => (value === null ? undefined : value);
  const group = new ChartGroup();
  const chart = group.add(figure, {
    ...axisOptions(data),
    stroke: "--median",
    limits: { warnBelow: known(data.warnBelow), badBelow: known(data.badBelow) },
    dashed: data.target,
  });
  const { times, p5, p50, p95 } = spread(data);
  const range = [data.from, data.until];
  const marks = data.marks.filter((mark) => mark.is_line).map(({ at }) => ({ at }));
  chart.show({ times, values: p50, low: p5, high: p95, range, marks });
  listenToHappenings(group, times);
}

/** What happened, pressed in the list, is pointed at in the chart. */
function listenToHappenings(group, times) {
  const nearest = (at) =>
    times.reduce((best, time, index) => (Math.abs(time - at) < Math.abs(times[best] - at) ? index : best), 0);
  for (const button of document.querySelectorAll("#happenings [data-at]")) {
    button.addEventListener("click", () => {
      document.getElementById("bitrate").scrollIntoView({ block: "nearest" });
      group.moveTo(nearest(Number(button.dataset.at)));
    });
  }
}

/** While a run goes on, its part of the page is fetched each second; when it has ended, the page with its results. */
async function follow() {
  const run = document.getElementById("run");
  if (!run?.dataset.active) return;
  try {
    const response = await fetch(run.dataset.progress, { headers: { Accept: "text/html" } });
    if (response.ok && !response.redirected) {
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("run");
      if (!fresh.dataset.active) {
        location.reload();
        return;
      }
      if (fresh.innerHTML !== run.innerHTML) run.replaceChildren(...document.adoptNode(fresh).childNodes);
    }
  } catch {
    // The server is away; what is shown stays, and it is asked again.
  }
  setTimeout(follow, POLL_MS);
}

/* ---- the comparison ---- */

function drawComparison() {
  const figure = document.getElementById("overlay");
  if (!figure) return;
  const data = pageData("chart-data");
  const group = new ChartGroup();
  const options = axisOptions(data);
  const chart = new Overlay(group, figure, options);
  group.charts.push(chart);
  group.resize.observe(chart.host);
  chart.showLines(data.lines, { from: data.from, until: data.until, step: data.step, onMove: legend(data.lines) });
  table(data, options);
}

/** A chart of several lines on one scale; the value of each under the crosshair stands in the list below it. */
class Overlay extends Chart {
  /** `values` of each line are by slot; null is a gap. */
  showLines(lines, { from, until, step, onMove }) {
    this.lines = lines;
    this.edges = edgesOf(lines[0].values.length, { from, until, step });
    this.onMove = onMove;
    const times = this.edges.map(([start, end]) => (start + end) / 2);
    this.show({ times, values: tallest(lines.map((line) => line.values)), range: [from, until] });
  }

  paintLine() {
    if (!this.lines) return;
    const { ctx } = this.plot;
    const ratio = uPlot.pxRatio;
    const [times] = this.plot.data;
    this.lines.forEach(({ values }, place) => {
      const [token, dashes] = LOOKS[place];
      ctx.beginPath();
      ctx.strokeStyle = colour(token);
      ctx.lineWidth = WIDTH * ratio;
      ctx.setLineDash(dashes.map((part) => part * ratio));
      const gap = (index) => values[index] === null || values[index] === undefined;
      values.forEach((value, index) => {
        if (value === null) return;
        const y = this.y(value);
        // A run's outer slots reach to their edges, so that one alone is a short line.
        const [start, end] = this.edges[index];
        if (gap(index - 1)) ctx.moveTo(this.x(start), y);
        ctx.lineTo(this.x(times[index]), y);
        if (gap(index + 1)) ctx.lineTo(this.x(end), y);
      });
      ctx.stroke();
    });
    ctx.setLineDash([]);
  }

  paintValue() {
    if (!this.lines || !this.plot) return;
    const { left, idx } = this.plot.cursor;
    const pointed = left >= 0 && idx !== null && idx !== undefined;
    const [times, tallest] = this.plot.data;
    const index = pointed ? idx : tallest.findLastIndex((value) => value !== null);
    setText(this.output, pointed ? this.options.moment(times[index]) : this.options.nowWord);
    this.onMove(index);
  }
}

function legend(lines) {
  const values = lines.map(() => element("dd", { class: "num" }));
  document.getElementById("lines").append(
    ...lines.map(({ label, without }, place) => {
      const [token, dashes] = LOOKS[place];
      const key = svg("line", { x1: 0, y1: 5, x2: 32, y2: 5, class: `key${token}`, "stroke-dasharray": dashes.join(" ") });
      const box = svg("svg", { viewBox: "0 0 32 10", "aria-hidden": "true" }, key);
      const words = `Take ${label} out of the chart`;
      const out = element("a", { class: "btn quiet icon", href: `?${without}`, title: words }, icon("close"), element("span", { class: "vh" }, words));
      return element("div", {}, element("dt", {}, box, label), values[place], element("dd", {}, out));
    }),
  );
  return (index) =>
    values.forEach((node, place) => {
      const value = lines[place].values[index];
      setText(node, value === null || value === undefined ? "no data" : `${number(value)}\u00a0kbit/s`);
    });
}

function table(data, { moment, utc }) {
  const head = element("tr", {}, element("th", {}, utc ? "Day, UTC" : `Time, ${zone}`));
  head.append(...data.lines.map(({ label }) => element("th", { class: "num" }, `${label}, kbit/s`)));
  const onAir = data.lines[0].values.map((_value, index) => index).filter((index) => data.lines.some(({ values }) => values[index] !== null));
  const rows = onAir.map((index) =>
    element(
      "tr",
      {},
      element("td", { class: "nowrap" }, moment(data.from + index * data.step)),
      ...data.lines.map(({ values }) => element("td", { class: "num" }, number(values[index]))),
    ),
  );
  document
    .getElementById("chart-table")
    .append(element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows.reverse())));
}

/** No more can be marked than the chart has room for. */
function listenToPicks() {
  const form = document.getElementById("picks");
  if (!form) return;
  const most = Number(form.dataset.most);
  const boxes = [...form.querySelectorAll("input[type=checkbox]")];
  const elsewhere = form.querySelectorAll("input[type=hidden][name=pick]").length;
  const update = () => {
    const full = boxes.filter((box) => box.checked).length + elsewhere >= most;
    for (const box of boxes) box.disabled = full && !box.checked;
  };
  form.addEventListener("change", update);
  update();
}

/* ---- go ---- */

drawHistory();
drawComparison();
listenToChoice();
listenToTable("chart-table");
listenToPicks();
follow();
