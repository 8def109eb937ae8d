// The comparison: the medians of a few chosen ones in one chart, told apart by dashes as well as by colour, and the
// marks in the table that choose them.

import { Chart, ChartGroup } from "./charts.js";
import { element, icon, pageData, setText, svg } from "./dom.js";
import { number } from "./format.js";
import { axisOptions, listenToChoice, listenToTable } from "./historychart.js";
import { colour } from "./theme.js";
import { zone } from "./zone.js";

const LOOKS = [
  ["--series", []],
  ["--series-2", [8, 3]],
  ["--text", [2, 3]],
  ["--series", [10, 3, 2, 3]],
  ["--series-2", [1.5, 3]],
]; // Of a line: its colour's token, its dashes in px.
const WIDTH = 1.75;

/** A chart of several lines on one scale; the value of each under the crosshair stands in the list below it. */
class Overlay extends Chart {
  /** `values` of each line are by slot; null is a gap. */
  showLines(lines, { from, step, onMove }) {
    this.lines = lines;
    this.step = step;
    this.onMove = onMove;
    const times = lines[0].values.map((_value, index) => from + (index + 0.5) * step);
    const tallest = times.map((_time, index) => {
      const known = lines.map((line) => line.values[index]).filter((value) => value !== null);
      return known.length ? Math.max(...known) : null;
    });
    this.show({ times, values: tallest, range: [from, from + step * times.length] });
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
        if (gap(index - 1)) ctx.moveTo(this.x(times[index] - this.step / 2), y);
        ctx.lineTo(this.x(times[index]), y);
        if (gap(index + 1)) ctx.lineTo(this.x(times[index] + this.step / 2), y);
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
  const rows = data.lines[0].values.map((_value, index) =>
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

function drawChart() {
  const figure = document.getElementById("overlay");
  if (!figure) return;
  const data = pageData("chart-data");
  const group = new ChartGroup();
  const options = axisOptions(data);
  const chart = new Overlay(group, figure, options);
  group.charts.push(chart);
  group.resize.observe(chart.host);
  chart.showLines(data.lines, { from: data.from, step: data.step, onMove: legend(data.lines) });
  table(data, options);
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

drawChart();
listenToChoice();
listenToTable();
listenToPicks();
