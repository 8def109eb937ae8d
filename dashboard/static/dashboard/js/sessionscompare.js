// Two sessions side by side: each chart of A stands above that of B, on one axis that begins with each one's begin and
// on one scale. Both are put on the same grid of time, so that one crosshair means the same second in all of them.

import { ChartGroup, listenToTable } from "./charts.js";
import { element, icon, pageData, setText } from "./dom.js";
import { clock, duration, number } from "./format.js";
import { CHART_NAMES, CHARTS, differs, onGrid } from "./sessioncharts.js";

const POINTS = 400;
const TITLES = {
  bitrate: "Video bitrate",
  fps: "Frame rate",
  keyframe_interval: "Keyframe interval",
  drift_dev: "Delay change",
  rtt_ms: "RTT",
  players: "Players",
};
const TOTALS = [
  ["95th percentile, audio and video", "p95_kbps", (value) => `${number(value)}\u00a0kbit/s`],
  ["Time in warning", "warning_s", duration],
  ["Time in bad", "bad_s", duration],
  ["Dropped frames (estimate)", "missing_frames", number],
  ["Peak players", "most_players", number],
];

const boot = pageData("boot");
const part = (id) => document.getElementById(id);
const charts = new ChartGroup();
const step = Math.max(1, Math.ceil(boot.span / POINTS));
const times = Array.from({ length: Math.ceil(boot.span / step) + 1 }, (_, index) => index * step);

function figure(name, side) {
  const words = `${TITLES[name]} of ${side}`;
  return element(
    "figure",
    { class: "chart twin", "data-chart": `${name}-${side}` },
    element("figcaption", {}, element("b", {}, words), element("output", { "aria-live": "off" })),
    element("div", { class: "plot", role: "group", "aria-label": `Chart: ${words}; arrow keys move the crosshair` }),
  );
}

function paintCharts(columns) {
  const host = part("plots");
  host.hidden = false;
  const range = [0, times.at(-1) || 1];
  for (const name of CHART_NAMES) {
    const both = columns[name];
    const known = both.flat().filter((value) => value !== null);
    if (!known.length) continue;
    const [, options] = CHARTS[name];
    both.forEach((values, index) => {
      const shape = figure(name, "AB"[index]);
      host.append(shape);
      charts
        .add(shape, { ...options, ticks: 2, axis: index === 1, top: Math.max(options.top ?? 0, ...known), nowWord: boot.open[index] ? "now" : "at the end", tick: clock, moment: clock })
        .show({ times, values, range });
    });
  }
}

function paintTable(columns) {
  const names = ["bitrate", "fps", "rtt_ms"];
  const cell = (name, index, side) => element("td", { class: "num" }, number(columns[name][side][index], name === "fps" ? 1 : 0));
  const rows = times.map((at, index) =>
    element("tr", {}, element("td", {}, clock(at)), ...names.flatMap((name) => [cell(name, index, 0), cell(name, index, 1)])),
  );
  part("plot-table")
    .querySelector("tbody")
    .replaceChildren(...rows);
}

function paintTotals(both) {
  const rows = TOTALS.map(([name, total, words]) => {
    const [a, b] = both.map((session) => session.totals[total]);
    const isOther = differs(a, b);
    const mark = isOther ? element("span", { class: "chip plain" }, icon("compare"), "differs") : null;
    const show = (value) => (value === null ? "–" : words(value));
    return element(
      "tr",
      { class: isOther ? "differs" : null },
      element("td", { class: "sub" }, name),
      element("td", {}, show(a)),
      element("td", {}, show(b)),
      element("td", { class: "nowrap" }, mark),
    );
  });
  part("measured").replaceChildren(...rows);
}

async function read(url) {
  const response = await fetch(`${url}?span=${boot.span}&points=${POINTS}`, { headers: { Accept: "application/json" } });
  if (!response.ok) throw new Error(`answered ${response.status}`);
  return response.json();
}

async function load() {
  const note = part("chart-note");
  try {
    const both = await Promise.all(boot.data.map(read));
    const columns = Object.fromEntries(
      CHART_NAMES.map((name) => [name, both.map((session, index) => onGrid(session, boot.begins[index], CHARTS[name][0], { length: times.length, step }))]),
    );
    paintTotals(both);
    const missing = both.map((session, index) => (session.at.length ? "" : `Nothing is kept of what was measured of ${"AB"[index]}.`));
    const notes = [...missing, ...both.flatMap((session) => session.problems)].filter(Boolean);
    setText(note, notes.join(" "));
    note.hidden = notes.length === 0;
    paintCharts(columns);
    paintTable(columns);
  } catch (error) {
    setText(note, `What was measured can't be read now: ${error.message}. Load the page again.`);
  }
}

listenToTable("plot-table");
load();
