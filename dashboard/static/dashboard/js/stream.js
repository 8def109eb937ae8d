// One stream: is it on air, is it well, what is wrong and what to do, and the last hours of its figures.

import { listenActs } from "./acts.js";
import { compareMetadata, metadataRow } from "./metadata.js";
import { pageData, setText } from "./dom.js";
import { Feed } from "./feed.js";
import { seconds, unit } from "./format.js";
import { health } from "./health.js";
import { Issues } from "./issues.js";
import { LinkView, retryWith } from "./link.js";
import { Preview } from "./preview.js";
import { throttle, refreshParts } from "./refresh.js";
import { Samples } from "./samples.js";
import { LiveSocket } from "./socket.js";
import { StreamCharts } from "./streamcharts.js";
import { StreamHead } from "./streamhead.js";
import { paintTiles } from "./tiles.js";

const SILENCE_S = 5;
const SESSION_EVENTS = new Set(["session.started", "session.ended"]);
const RENDERED = ["session-key", "last-end", "sessions", "attempts", "keys", "previous"]; // What the server renders.
// What happened is in the database by then: mostly, and on a busy server.
const SOON_MS = 1500;
const LATE_MS = 6000;
const REFRESH_MS = 10000;
const STATES = { live: "The stream is live.", waiting: "Waiting for media.", offline: "The stream is off air." };

const section = (id) => document.getElementById(id);
const boot = pageData("boot");
const link = new LinkView();
const samples = new Samples();
const head = new StreamHead(section("stream"));
const feed = new Feed(document.querySelector("#events .feed"), section("no-events"));
const issues = new Issues(section("issues"), boot.limits);
const preview = new Preview(section("preview"), boot.urls.preview);
const charts = new StreamCharts(section("charts"), samples, {
  limits: boot.limits,
  url: boot.urls.samples,
  isStill: () => link.state.link === "stale",
});
let stream = null;

/* ---- messages ---- */

function onMessage(message) {
  if (message.at) link.heard(message.at);
  apply(message);
}

const TAKERS = {
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
    if (SESSION_EVENTS.has(event.kind)) refreshSoon();
  },
  mutes({ mutes }) {
    issues.mutes = mutes;
  },
};

function apply(message) {
  TAKERS[message.kind]?.(message);
  paint();
}

/** The latest sessions and the refused attempts are the server's to render. */
const refreshSoon = throttle(() => refreshParts(RENDERED), SOON_MS, LATE_MS);

const OFFLINE = { state: "offline", health: "none", issues: [], players: 0, session_id: null, since: null };

function take(next) {
  const before = stream;
  stream = next ?? { ...(stream ?? {}), ...OFFLINE };
  if (before && stream.state !== "live") {
    // What is off air keeps its target, against which its last minutes stay judged.
    stream.target_kbps ??= before.target_kbps;
    if (!Object.keys(stream.metadata ?? {}).length) stream.metadata = before.metadata;
  }
  if (before && before.state !== stream.state) {
    refreshSoon();
    announce(STATES[stream.state]);
  } else if (before && before.health !== stream.health) announce(`Health: ${health(stream.health).word}.`);
}

function announce(text) {
  setText(section("announce"), text);
}

/* ---- painting ---- */

function paint() {
  const now = link.now();
  const live = stream.state === "live";
  const onAir = live || (stream.state === "waiting" && Boolean(stream.session_id));
  head.paint(stream, now, onAir);
  section("waiting").hidden = section("help").hidden = onAir && live;
  section("last-end").hidden = onAir;
  section("tiles").hidden = !live;
  section("claims").hidden = !live;
  issues.paint(stream, now);
  section("issues").hidden = !live && section("issues").querySelector(".mutes").hidden;
  // While the lake is looked at, the card stays whatever there is.
  const seen = charts.paint(stream, now, feed.events.values());
  section("charts").hidden = !live && !seen && !charts.looksBack;
  preview.paint(stream, thumbnail());
  setText(document.querySelector("#preview [data-field=picture]"), live ? pictureWords(stream) : "");
  if (live) {
    paintTiles(section("tiles"), stream, boot.limits);
    section("claims")
      .querySelector("tbody")
      .replaceChildren(...compareMetadata(stream).map(metadataRow));
  }
}

function pictureWords({ media, fps }) {
  const size = media.width ? `${media.width} × ${media.height}` : "";
  return [size, unit(fps, "fps", 1, "")].filter(Boolean).join(", ");
}

/** The last picture's URL; it changes with the picture. */
function thumbnail() {
  return stream.thumbnail ? `${location.pathname}thumbnail.webp?v=${stream.thumbnail}` : null;
}

/* ---- go ---- */

apply({ kind: "snapshot", ...boot });
setInterval(paint, 1000); // Clocks go on, and off air the charts still move.
setInterval(() => refreshParts(RENDERED), REFRESH_MS);
listenActs();
// Off air nothing needs to come; on air there is a sample each second.
const silenceS = () => (stream.state === "live" ? SILENCE_S : null);
const onState = (state) => link.show(state);
retryWith(link, new LiveSocket(section("stream").dataset.ws, { onMessage, onState, silenceS }));
