// One session's page: lanes and charts on one axis, figures of all of its samples, events. Of a session that is on air
// they come again every few seconds, and with them the answers that the server renders.

import { ChartGroup } from "./charts.js";
import { element, icon, pageData, setText } from "./dom.js";
import { Feed, listenToCodes } from "./events.js";
import { day, duration, number, time, when } from "./format.js";
import { health } from "./health.js";
import { compareMetadata, metadataRow } from "./metadata.js";
import { Moments, atMoment } from "./moments.js";
import { refreshParts } from "./refresh.js";
import { CHART_NAMES, CHARTS, clockWords, expectations, view } from "./sessioncharts.js";
import { Timeline } from "./timeline.js";

const REFRESH_MS = 5000;
const RENDERED = ["top", "questions", "around", "players"];
const TABLE_ROWS = 600;
const DAY_S = 86400;

const boot = pageData("boot");
const part = (id) => document.getElementById(id);
const timeline = new Timeline(part("lanes"));
const feed = new Feed(part("events").querySelector(".feed"), part("no-events"), {
  plays: !boot.publish,
  pageOf: (event) => atMoment(location.pathname, event.at),
});
const moments = new Moments(part("moment"), load);
const charts = new ChartGroup({
  pick: (at) => moments.pick(at),
  select: (from, until) => moments.select(from, until),
});
const plots = {};
let asTable = false;
let whole = null; // Of the session,
let latest = null; // and of what is shown of it.

async function read(span = null) {
  const asked = span ? `?from=${span[0]}&until=${span[1]}` : "";
  const response = await fetch(boot.data + asked, { headers: { Accept: "application/json" } });
  if (!response.ok) throw new Error(`answered ${response.status}`);
  return response.json();
}

async function load() {
  try {
    if (!whole || boot.open) whole = await read();
    const span = moments.within(whole.lanes.range);
    latest = span ? await read(span) : whole;
  } catch (error) {
    setText(part("chart-note"), `What was measured can't be read now: ${error.message}. Load the page again.`);
    return;
  }
  paint();
}

/** Nothing where the moment is not within what is shown. */
function pinned() {
  const [from, to] = latest.lanes.range;
  return moments.at !== null && moments.at >= from - 1 && moments.at <= to + 1 ? moments.at : null;
}

function paint() {
  timeline.show(latest.lanes);
  feed.replace(latest.events);
  timeline.pin(pinned());
  charts.pin(pinned());
  if (moments.at !== null) feed.point(moments.at);
  if (!boot.publish) return;
  paintFigures();
  paintClaims();
  const note = [...latest.problems];
  if (moments.at !== null && pinned() === null) note.unshift(`This session was not on air at ${time(moments.at)}, ${day(moments.at)}.`);
  if (!latest.at.length)
    note.unshift(
      boot.open ? "Nothing was measured yet." : "Nothing is kept of what was measured: it is too long ago, or nothing was received.",
    );
  setText(part("chart-note"), note.join(" "));
  part("chart-note").hidden = note.length === 0;
  part("plots").hidden = asTable || !latest.at.length;
  part("plot-table").hidden = !asTable;
  if (asTable) paintTable();
  else if (latest.at.length) paintCharts();
}

function paintCharts() {
  const shown = view(latest);
  const expected = expectations(boot);
  const words = clockWords(shown.range);
  const caption = latest.step_s ? `video, mean of ${duration(latest.step_s)}; shade: least to greatest` : "video, one sample a second";
  setText(
    part("plots").querySelector("[data-chart=bitrate] .clip"),
    boot.target ? `${caption}; dashed: target ${number(boot.target)}` : caption,
  );
  for (const name of CHART_NAMES) {
    const [column, options] = CHARTS[name];
    plots[name] ??= charts.add(part("plots").querySelector(`[data-chart=${name}]`), {
      ...options,
      nowWord: boot.open ? "now" : "at the end",
    });
    plots[name].show({
      times: shown.times,
      ...shown.column(column),
      range: shown.range,
      zones: shown.zones,
      options: { ...words, ...expected[name] },
    });
  }
  if (plots.players.plot.hooks.setCursor.length === 1)
    plots.players.plot.hooks.setCursor.push((plot) =>
      timeline.pointAt(plot.cursor.left >= 0 && plot.cursor.idx !== null ? plot.data[0][plot.cursor.idx] : null),
    );
}

function paintTable() {
  const { at, values, low, health: healths } = latest;
  const long = latest.lanes.range[1] - latest.lanes.range[0] > DAY_S;
  const rows = at.slice(-TABLE_ROWS).map((moment, index) => {
    const place = Math.max(0, at.length - TABLE_ROWS) + index;
    const style = health(healths[place]);
    const cells = [
      number(values.video_kbps[place]),
      number(low.video_kbps[place]),
      number(values.fps[place], 1),
      number(values.keyframe_interval[place], 1),
      number(values.drift_dev[place]),
      number(values.rtt_ms[place]),
      number(values.players[place]),
    ];
    return element(
      "tr",
      {},
      element("td", { class: "nowrap" }, when(moment, long ? `${day(moment)}, ${time(moment)}` : time(moment))),
      ...cells.map((cell) => element("td", { class: "num" }, cell)),
      element("td", { class: "nowrap" }, icon(style.icon, `w-${style.icon}`), " ", style.word),
    );
  });
  part("plot-table")
    .querySelector("tbody")
    .replaceChildren(...rows.reverse());
}

function paintFigures() {
  const { totals, values } = whole;
  const sum = (name) => values[name].reduce((all, one) => all + (one ?? 0), 0);
  const share = (seconds) =>
    totals.measured_s ? `${number((100 * seconds) / totals.measured_s, 1)}\u00a0% of ${duration(totals.measured_s)}` : "";
  const figures = {
    mean_kbps: totals.mean_kbps === null ? null : number(totals.mean_kbps),
    p95_kbps: number(totals.p95_kbps),
    warning_s: duration(totals.warning_s),
    warning_share: share(totals.warning_s),
    bad_s: duration(totals.bad_s),
    bad_share: share(totals.bad_s),
    missing_frames: number(totals.missing_frames),
    most_players: number(totals.most_players),
    ts_gap: number(sum("ts_gap")),
    ts_regress: number(sum("ts_regress")),
  };
  if (!totals.samples) return;
  for (const [name, text] of Object.entries(figures))
    if (text !== null) document.querySelectorAll(`[data-figure=${name}]`).forEach((node) => setText(node, text));
}

function mean(values) {
  const known = values.filter((one) => one !== null);
  return known.length ? known.reduce((all, one) => all + one, 0) / known.length : null;
}

function paintClaims() {
  const { values } = whole;
  const rows = compareMetadata({
    metadata: boot.metadata,
    media: boot.media,
    video_kbps: mean(values.video_kbps),
    audio_kbps: mean(values.audio_kbps),
    fps: mean(values.fps),
    keyframe_interval: mean(values.keyframe_interval),
  });
  part("claims").hidden = rows.length === 0;
  part("claims")
    .querySelector("tbody")
    .replaceChildren(...rows.map(metadataRow));
}

part("table-toggle")?.addEventListener("click", (event) => {
  asTable = !asTable;
  event.currentTarget.setAttribute("aria-pressed", String(asTable));
  if (latest) paint();
});
// An event's time marks its moment on this page.
part("events").addEventListener("click", (event) => {
  const row = event.target.closest("[data-at] > a")?.parentElement;
  if (!row || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  moments.pick(Number(row.dataset.at));
});
part("events").addEventListener("change", (event) => {
  if (event.target.name === "only") part("events").querySelector(".feed").dataset.only = event.target.value;
});

listenToCodes();
if (moments.query) part("timeline").scrollIntoView();
load();
if (boot.open)
  setInterval(() => {
    if (document.hidden) return;
    load();
    refreshParts(RENDERED);
  }, REFRESH_MS);
else setInterval(() => refreshParts(["questions"]), 2 * REFRESH_MS); // It may come back meanwhile.
