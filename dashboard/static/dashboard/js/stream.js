// One stream: is it on air, is it well, what is wrong and what to do, and the last hours of its figures.

import { openForm } from "./actions.js";
import { LinkView, LiveSocket, retryWith } from "./connection.js";
import { element, icon, pageData, setAttribute, setText } from "./dom.js";
import { Feed, listenToCodes } from "./events.js";
import { seconds } from "./format.js";
import { healthOf } from "./health.js";
import { Issues } from "./issues.js";
import { compareMetadata, metadataRow } from "./metadata.js";
import { atMoment, showLink } from "./moments.js";
import { Preview } from "./preview.js";
import { isPushEvent, Pushes } from "./pushes.js";
import { refreshParts, throttle } from "./refresh.js";
import { Samples } from "./samples.js";
import { StreamCharts } from "./streamcharts.js";
import {
  nextStream,
  pictureWords,
  playersWords,
  relaysWords,
  slowestWords,
  tileWords,
  upWords,
  waitingWords,
} from "./streamwords.js";

const SILENCE_S = 5;
const SESSION_EVENTS = new Set(["session.started", "session.ended"]);
const RENDERED = ["missing", "session-key", "last-end", "relays", "watch-ways", "sessions", "attempts", "keys", "previous"]; // What the server renders.
// What happened is in the database by then: mostly, and on a busy server.
const SOON_MS = 1500;
const LATE_MS = 6000;
const REFRESH_MS = 10000;
const STATES = { live: "The stream is live.", waiting: "Waiting for media.", offline: "The stream is off air." };

const section = (id) => document.getElementById(id);
const boot = pageData("boot");
const link = new LinkView();
const samples = new Samples();
const fields = Object.fromEntries(
  [...document.querySelectorAll("#stream [data-field], #waiting [data-field]")].map((field) => [field.dataset.field, field]),
);
const NO_SESSION = "00000000-0000-0000-0000-000000000000"; // Stands for a session's id in the address of its page.
const sessionPage = (id) => boot.urls.session.replace(NO_SESSION, id);
const feed = new Feed(document.querySelector("#events .feed"), section("no-events"), {
  pageOf: (event) => atMoment(sessionPage(event.session_id), event.at),
});
const issues = new Issues(section("issues"), boot.limits, boot.settings);
const preview = new Preview(section("preview"), boot.urls.preview);
const charts = new StreamCharts(section("charts"), samples, {
  limits: boot.limits,
  url: boot.urls.samples,
  isStill: () => link.state.link === "stale",
  pick: pinMoment,
});
const pushes = new Pushes(section("relays"));
const kick = document.getElementById("kick-open");
let stream = null;

/** A moment of the charts, with the link to it: it leads to the session that was on air then, once this page has gone on. */
function pinMoment(at) {
  charts.group.pin(at);
  showLink(section("moment"), at, location.pathname);
}

/* ---- messages ---- */

function onMessage(message) {
  if (message.at) link.received(message.at);
  apply(message);
}

const HANDLERS = {
  snapshot(message) {
    samples.replace(message.samples);
    feed.replace(message.events);
    issues.replace(message.acks, message.mutes);
    take(message.stream);
  },
  sample(message) {
    if (message.sample) samples.push({ ...message.sample, at: seconds(message.sample.at) });
    take(message.stream);
  },
  event({ event }) {
    feed.push(event, stream?.session_id);
    if (event.kind === "operator.ack") issues.acknowledged(event);
    if (SESSION_EVENTS.has(event.kind) || isPushEvent(event)) refreshSoon();
  },
  mutes({ mutes }) {
    issues.mutes = mutes;
  },
  relays() {
    refreshSoon();
  },
};

function apply(message) {
  HANDLERS[message.kind]?.(message);
  paint();
}

/** The latest sessions and the refused attempts are the server's to render. */
const refresh = () => refreshParts(RENDERED).then(paint);
const refreshSoon = throttle(refresh, SOON_MS, LATE_MS);

function take(next) {
  const before = stream;
  stream = nextStream(before, next);
  if (before && before.state !== stream.state) {
    refreshSoon();
    announce(STATES[stream.state]);
  } else if (before && before.health !== stream.health) announce(`Health: ${healthOf(stream).word}.`);
}

function announce(text) {
  setText(section("announce"), text);
}

/* ---- painting ---- */

function paint() {
  const now = link.now();
  const live = stream.state === "live";
  const onAir = live || (stream.state === "waiting" && Boolean(stream.session_id));
  paintHead(now, onAir);
  section("waiting").hidden = section("help").hidden = onAir && live;
  section("last-end").hidden = onAir;
  section("tiles").hidden = !live;
  section("claims").hidden = !live;
  issues.paint(stream, now, stream.session_id ? sessionPage(stream.session_id) : null);
  paintVerdict(healthOf(stream));
  section("issues").hidden = !live && section("issues").querySelector(".mutes").hidden;
  // While the lake is looked at, the card stays whatever there is.
  const seen = charts.paint(stream, now, feed.events.values());
  section("charts").hidden = !live && !seen && !charts.looksBack;
  if (pushes.paint(stream, now)) refreshSoon();
  preview.paint(stream, thumbnail());
  setText(document.querySelector("#preview [data-field=picture]"), live ? pictureWords(stream) : "");
  if (live) {
    paintTiles();
    section("claims")
      .querySelector("tbody")
      .replaceChildren(...compareMetadata(stream).map(metadataRow));
  }
}

/** What stands where there is no issue: in the first seconds nothing is judged yet. */
function paintVerdict(style) {
  const verdict = section("issues").querySelector("[data-field=all-good]");
  const words = stream.health === "none" ? `${style.word}: nothing is judged yet.` : "All checks are good.";
  if (verdict.textContent.trim() === words) return;
  verdict.replaceChildren(icon(style.icon, `w-${style.icon}`), element("span", {}, words));
}

/** Name, health and facts, what can be done, and what it waits for. */
function paintHead(now, onAir) {
  setAttribute(section("stream"), "data-state", stream.state);
  setAttribute(section("stream"), "data-health", stream.health);
  const style = healthOf(stream);
  const words =
    stream.state === "offline" ? "Off air" : stream.state === "waiting" ? "Waiting for media" : style.word;
  if (fields.health.textContent !== words) {
    fields.health.className = `chip ${style.icon}`;
    fields.health.replaceChildren(icon(style.icon), words);
  }
  setText(fields.up, upWords(stream, now));
  setText(fields.players, playersWords(stream));
  setText(fields.source, [stream.address, stream.encoder].filter(Boolean).join(", "));
  setText(fields.node, stream.node ?? "");
  const relays = relaysWords(stream);
  setText(fields.relays, relays);
  fields.relays.parentElement.hidden = !relays;
  setText(fields.waiting, waitingWords(stream, now));
  for (const part of document.querySelectorAll("[data-only-live]")) part.hidden = !onAir;
  for (const part of document.querySelectorAll("[data-of-session]"))
    part.hidden = part.dataset.ofSession !== stream.session_id;
  if (kick) kick.hidden = !onAir;
}

/** The figures of this second, each with its limit beside it. */
function paintTiles() {
  const tiles = section("tiles");
  for (const [name, text] of Object.entries(tileWords(stream, boot.limits)))
    setText(tiles.querySelector(`[data-field="${name}"]`), text);
  tiles.querySelector("[data-field=slow]").title = slowestWords(stream);
}

/** The last picture's URL; it changes with the picture. */
function thumbnail() {
  return stream.thumbnail ? `${location.pathname}thumbnail.webp?v=${stream.thumbnail}` : null;
}

/* ---- go ---- */

section("moment").querySelector("[data-whole]").addEventListener("click", () => pinMoment(null));

document.getElementById("who-watches")?.addEventListener("close", () => refreshParts(["watch-ways"]));

listenToCodes();
// The session that is meant is the one that was seen when the dialog was opened, whoever publishes by then.
kick?.addEventListener("click", () => openForm("kick", { session_id: stream.session_id ?? "" }));
apply({ kind: "snapshot", ...boot });
setInterval(paint, 1000); // Clocks go on, and off air the charts still move.
setInterval(refresh, REFRESH_MS);
// Off air nothing needs to come; on air there is a sample each second.
const silenceS = () => (stream.state === "live" ? SILENCE_S : null);
const onState = (state) => link.show(state);
retryWith(link, new LiveSocket(section("stream").dataset.ws, { onMessage, onState, silenceS }));
