// One stream: is it on air, is it well, what is wrong and what to do, and the last five minutes of its figures.

import { ChartGroup } from "./charts.js";
import { claimRow, compare } from "./claims.js";
import { element, icon, pageData, setAttribute, setText } from "./dom.js";
import { Feed } from "./feed.js";
import { bitrateParts, clock, count, duration, number, seconds, time, unit } from "./format.js";
import { health } from "./health.js";
import { listenKick } from "./kick.js";
import { LinkView, retryWith } from "./link.js";
import { refreshParts } from "./refresh.js";
import { Samples } from "./samples.js";
import { LiveSocket } from "./socket.js";

const SILENCE_S = 5;
const TABLE_ROWS = 60;
const MARKS = 4; // More than these on one chart can't be read.
const BAND = [0.7, 1.3]; // Of the target bitrate: the checks bitrate_low and bitrate_high.
const BITRATE_BAD = 0.4;
const FPS_LOW = 0.9;
const FPS_BAD = 0.6;
const SESSION_EVENTS = new Set(["session.started", "session.ended"]);
const RENDERED = ["session-key", "last-end", "sessions", "attempts"]; // What the server renders.
const SETTLE_MS = 1500; // What happened is in the database by then.
const REFRESH_MS = 10000;

const head = document.getElementById("stream");
const fields = Object.fromEntries(
  [...document.querySelectorAll("[data-field]")].map((field) => [field.dataset.field, field]),
);
const section = (id) => document.getElementById(id);
const link = new LinkView();
const samples = new Samples();
const feed = new Feed(document.querySelector("#events .feed"), section("no-events"));
let stream = null;
let asTable = false;

/* ---- messages ---- */

function onMessage(message) {
  if (message.at) link.heard(message.at);
  apply(message);
}

function apply(message) {
  if (message.kind === "event") {
    feed.push(message.event, stream?.session_id);
    if (SESSION_EVENTS.has(message.event.kind)) refreshSoon();
    paint();
    return;
  }
  if (message.kind === "snapshot") {
    samples.replace(message.samples);
    feed.replace(message.events);
  } else if (message.sample) {
    samples.push({ ...message.sample, at: seconds(message.sample.at) });
  }
  take(message.stream);
  paint();
}

let refreshTimer = 0;
/** The latest sessions and the refused attempts are the server's to render. */
function refreshSoon() {
  clearTimeout(refreshTimer);
  refreshTimer = setTimeout(() => refreshParts(RENDERED), SETTLE_MS);
}

function take(next) {
  const before = stream;
  stream = next ?? {
    ...(stream ?? {}),
    state: "offline",
    health: "none",
    issues: [],
    players: 0,
    session_id: null,
    since: null,
  };
  if (before && stream.state !== "live") {
    // What is off air keeps its target, against which its last minutes stay judged.
    stream.target_kbps ??= before.target_kbps;
    if (!Object.keys(stream.metadata ?? {}).length) stream.metadata = before.metadata;
  }
  if (before && before.state !== stream.state) refreshSoon();
  if (before && before.state !== stream.state)
    announce(
      { live: "The stream is live.", waiting: "Waiting for media.", offline: "The stream is off air." }[stream.state],
    );
  else if (before && before.health !== stream.health) announce(`Health: ${health(stream.health).word}.`);
}

function announce(text) {
  setText(section("announce"), text);
}

/* ---- painting ---- */

const charts = new ChartGroup();
const figure = (name) => document.querySelector(`[data-chart="${name}"]`);
const plots = {
  bitrate: charts.add(figure("bitrate"), { unit: "kbit/s", ticks: 4, labels: true }),
  fps: charts.add(figure("fps"), { unit: "fps", decimals: 1, tickDecimals: 0 }),
  keyframe_interval: charts.add(figure("keyframe_interval"), {
    unit: "s",
    decimals: 1,
    dashed: 4,
    limits: { warnAbove: 4, badAbove: 10 },
  }),
  drift_dev: charts.add(figure("drift_dev"), {
    unit: "ms",
    dashed: 500,
    top: 1000,
    limits: { warnAbove: 500, badAbove: 1000 },
  }),
  players: charts.add(figure("players"), { unit: "", axis: true, top: 2 }),
};

function paint() {
  const now = link.now();
  const live = stream.state === "live";
  const onAir = live || (stream.state === "waiting" && Boolean(stream.session_id));
  setAttribute(head, "data-state", stream.state);
  setAttribute(head, "data-health", stream.health);
  paintHead(now, onAir);
  const view = samples.view(now);
  const seen = view.columns.bitrate.some((value) => value !== null);
  section("waiting").hidden = onAir && live;
  section("last-end").hidden = onAir;
  section("issues").hidden = !live;
  section("tiles").hidden = !live;
  section("claims").hidden = !live;
  section("charts").hidden = !live && !seen;
  setText(fields.waiting, waitingWords(now));
  if (live) {
    paintIssues(now);
    paintTiles();
    section("claims")
      .querySelector("tbody")
      .replaceChildren(...compare(stream).map(claimRow));
  }
  if (live || seen) paintCharts(view);
}

function paintHead(now, onAir) {
  const look = health(stream.health);
  const words = stream.state === "offline" ? "Off air" : stream.state === "waiting" ? "Waiting for media" : look.word;
  if (fields.health.textContent !== words) {
    fields.health.className = `chip ${look.icon}`;
    fields.health.replaceChildren(icon(look.icon), words);
  }
  const since = stream.since === null || stream.since === undefined ? null : now - stream.since;
  setText(fields.up, since === null ? "Live" : `${stream.state === "live" ? "Live" : "Connected"} for ${clock(since)}`);
  setText(fields.players, count(stream.players ?? 0, "player"));
  setText(fields.source, [stream.address, stream.encoder].filter(Boolean).join(", "));
  setText(fields.node, stream.node ?? "");
  for (const part of document.querySelectorAll("[data-only-live]")) part.hidden = !onAir;
  for (const part of document.querySelectorAll("[data-of-session]"))
    part.hidden = part.dataset.ofSession !== stream.session_id;
  const kick = section("kick-open");
  if (kick) {
    kick.hidden = !onAir;
    section("kick-form").elements.session_id.value = stream.session_id ?? "";
  }
}

function waitingWords(now) {
  if (stream.state === "waiting" && stream.session_id)
    return `An encoder is accepted${stream.since ? `, ${duration(now - stream.since)} ago` : ""}, but no media has arrived. Start streaming in it.`;
  if (stream.state === "waiting")
    return `${count(stream.players, "player waits", "players wait")} for it. Start streaming; this page turns to the live stream by itself.`;
  return "Start streaming. This page turns to the live stream by itself.";
}

let issueSignature = "";
function paintIssues(now) {
  const issues = [...stream.issues].sort((a, b) => health(a.level).rank - health(b.level).rank || a.since - b.since);
  const list = section("issues").querySelector("ul");
  fields["all-good"].hidden = issues.length > 0;
  list.hidden = issues.length === 0;
  const signature = JSON.stringify(issues);
  if (signature !== issueSignature) {
    issueSignature = signature;
    const bad = issues.filter((issue) => issue.level === "bad").length;
    const chips = [
      ["bad", bad, `${bad} bad`],
      ["warning", issues.length - bad, count(issues.length - bad, "warning")],
    ];
    fields["issue-counts"].replaceChildren(
      ...chips
        .filter(([, n]) => n)
        .map(([level, , words]) =>
          element("span", { class: `chip ${health(level).icon}` }, icon(health(level).icon), words),
        ),
    );
    list.replaceChildren(...issues.map(issueRow));
  }
  issues.forEach((issue, index) =>
    setText(list.children[index].querySelector("time"), `open for ${duration(now - issue.since)}`),
  );
}

function issueRow(issue) {
  const { icon: look, word } = health(issue.level);
  return element(
    "li",
    { class: "issue", "data-check": issue.check, "data-level": issue.level },
    icon(look, `w-${look}`),
    element("h3", {}, element("span", { class: "vh" }, `${word}: `), issue.title),
    element("time"),
    element(
      "dl",
      { class: "ave" },
      element("div", {}, element("dt", {}, "Actual"), " ", element("dd", { class: `w-${look}` }, issue.actual)),
      element("div", {}, element("dt", {}, "Expected"), " ", element("dd", {}, issue.expected)),
    ),
    element("p", {}, issue.advice),
  );
}

function nominalFps() {
  const claimed = stream.metadata?.framerate;
  return typeof claimed === "number" && claimed > 0 ? claimed : null;
}

function paintTiles() {
  setText(fields.video_kbps, number(stream.video_kbps));
  setText(fields["video-limit"], stream.target_kbps ? `of ${number(stream.target_kbps)}, 5 s mean` : "5 s mean");
  setText(fields.audio_kbps, number(stream.audio_kbps));
  const claimed = stream.metadata?.audiodatarate;
  setText(
    fields["audio-limit"],
    typeof claimed === "number" && claimed > 0 ? `of ${number(claimed)}, 5 s mean` : "5 s mean",
  );
  setText(fields.fps, number(stream.fps, 1));
  setText(fields["fps-limit"], nominalFps() ? `of ${number(nominalFps(), nominalFps() % 1 ? 2 : 0)}` : "by wall time");
  setText(fields.keyframe_interval, number(stream.keyframe_interval, 1));
  setText(fields.missing_frames_est, number(stream.missing_frames_est));
  setText(fields.rtt_ms, number(stream.rtt_ms, stream.rtt_ms < 10 ? 1 : 0));
  const [out, outUnit] = bitrateParts(stream.out_kbps);
  setText(fields.out_kbps, out);
  setText(fields["out-unit"], outUnit);
  setText(fields["players-tile"], number(stream.players));
  setText(
    fields.slow,
    stream.slow_players
      ? `${number(stream.slow_players)} slow, ${count(stream.dropped_frames, "frame")} dropped`
      : "none is slow",
  );
}

function paintCharts({ times, columns, zones, range }) {
  const target = stream.target_kbps || null;
  const nominal = nominalFps();
  setText(figure("bitrate").querySelector(".clip"), target ? `5 s mean; dashed: target ${number(target)}` : "5 s mean");
  setText(
    figure("fps").querySelector(".clip"),
    nominal ? `by wall time, nominal ${number(nominal, nominal % 1 ? 2 : 0)}` : "by wall time",
  );
  const marks = healthMarks(range);
  const live = stream.state === "live";
  const show = (name, values, options = {}, extra = {}) =>
    plots[name].show({ times, values, range, zones, ...extra, options: { now: live ? undefined : null, ...options } });
  show(
    "bitrate",
    columns.bitrate,
    {
      dashed: target,
      band: target ? BAND.map((part) => part * target) : null,
      limits: target ? { warnBelow: BAND[0] * target, badBelow: BITRATE_BAD * target } : {},
    },
    { marks },
  );
  show("fps", columns.fps, {
    top: nominal ?? 30,
    limits: nominal ? { warnBelow: FPS_LOW * nominal, badBelow: FPS_BAD * nominal } : {},
  });
  show("keyframe_interval", columns.keyframe_interval);
  show(
    "drift_dev",
    columns.drift_dev.map((value) => (value === null ? null : Math.abs(value))),
  );
  show("players", columns.players);
  if (asTable) paintTable(times, columns);
}

/** When issues opened, as the feed knows it. */
function healthMarks([from, to]) {
  const opened = [...feed.events.values()].filter(
    (event) => event.kind === "health.opened" && event.at > from && event.at <= to,
  );
  return opened.slice(0, MARKS).map((event) => ({ at: event.at, label: event.code.replaceAll("_", " ") }));
}

function paintTable(times, columns) {
  const rows = [];
  for (let i = times.length - 1; i >= 0 && rows.length < TABLE_ROWS; i -= 1) {
    if (columns.bitrate[i] === null) {
      rows.push(element("tr", {}, element("td", { colspan: 7, class: "dim" }, "off air")));
      continue;
    }
    const look = health(columns.health[i]);
    const cells = [
      number(columns.bitrate[i]),
      number(columns.fps[i], 1),
      number(columns.keyframe_interval[i], 1),
      number(columns.drift_dev[i]),
      number(columns.players[i]),
    ];
    rows.push(
      element(
        "tr",
        {},
        element("td", {}, time(times[i])),
        ...cells.map((cell) => element("td", { class: "num" }, cell)),
        element("td", { class: "nowrap" }, icon(look.icon, `w-${look.icon}`), " ", look.word),
      ),
    );
  }
  section("plot-table")
    .querySelector("tbody")
    .replaceChildren(...rows);
}

section("table-toggle").addEventListener("click", (event) => {
  asTable = !asTable;
  event.currentTarget.setAttribute("aria-pressed", String(asTable));
  section("plots").hidden = asTable;
  section("plot-table").hidden = !asTable;
  document.querySelector("#charts .legend").hidden = asTable;
  paint();
});

/* ---- go ---- */

apply(pageData("boot"));
setInterval(paint, 1000); // Clocks go on, and off air the charts still move.
setInterval(() => refreshParts(RENDERED), REFRESH_MS);
listenKick();
// Off air nothing needs to come; on air there is a sample each second.
const silenceS = () => (stream.state === "live" ? SILENCE_S : null);
retryWith(link, new LiveSocket(head.dataset.ws, { onMessage, onState: (state) => link.show(state), silenceS }));
