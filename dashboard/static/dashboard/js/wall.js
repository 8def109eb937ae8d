// The wall: a card for each stream, worst first, fed by /ws/live/.

import { Card } from "./card.js";
import { LinkView, LiveSocket, retryWith } from "./connection.js";
import { element, pageData, setText } from "./dom.js";
import { count } from "./format.js";
import { health, showBadCount } from "./health.js";
import { Kiosk } from "./kiosk.js";
import { onKey } from "./shortcuts.js";
import { seeRefused, showRefusedCount } from "./refused.js";
import { Streams } from "./streams.js";
import { Drops, shownStream } from "./walldrops.js";
import { Filters } from "./wallfilters.js";
import { Fold } from "./wallfold.js";
import { arranged, arrangedOffline, hasOtherAudience, isWorse, pathOf, wellWords } from "./wallorder.js";
import { Dropped, Missing, NodeStrip, Refused, Strip } from "./wallstrips.js";

const SILENCE_S = 5; // A node ticks each second.
const TICK_MS = 1000;
const NO_SESSION = "00000000-0000-0000-0000-000000000000"; // Stands for a session's id in the address of its page.
const AUDIENCE_MS = 15_000; // How often the wall looks which streams most people watch.
const OUT_OF_SIGHT = 5; // Cards out of sight are kept true too, a part of them at each painting.

const bootstrap = pageData("bootstrap");
const link = new LinkView();
const streams = new Streams();
const cards = new Map(); // By stream id: those that are live or waiting.
const offline = new Map(); // By stream id: the others.
const parts = Object.fromEntries(
  ["attention", "well", "offline", "no-match", "no-streams", "announce", "refused-seen"].map((id) => [
    id,
    document.getElementById(id),
  ]),
);
const streamUrl = (stream) =>
  bootstrap.stream_url
    .replace("__APP__", encodeURIComponent(stream.app))
    .replace("__NAME__", encodeURIComponent(stream.name));
const nodes = new NodeStrip(document.getElementById("nodes"));
const sessionUrl = (id) => bootstrap.session_url.replace(NO_SESSION, id);
let ready = false;
let moved = true; // Whether cards may have another order or place than at the last painting.
let audienceAt = 0;
let scheduled = false;
const drops = new Drops();
const refused = new Refused(nodes, bootstrap.attempts_url);
const missing = new Missing(bootstrap.expected_url, streamUrl, (id) => streams.get(id)?.state === "live");
const strip = new Strip(document.getElementById("strip"), [
  missing,
  refused,
  new Dropped(drops, sessionUrl),
]);
const filters = new Filters(document.getElementById("filters"), () => {
  countAudiences(true);
  arrangeNow();
});
const fold = new Fold(parts.well, arrangeNow);
const kiosk = new Kiosk(document.getElementById("kiosk-bar"), arrangeSoon);
let rendered = 0;
let turn = 0;

// A card out of sight draws no sparkline and loads no picture: with hundreds of them that is most of the work.
const sight = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) entry.target.card.visible = entry.isIntersecting;
    schedule();
  },
  { rootMargin: "200px" },
);

function put(stream) {
  offline.delete(stream.id);
  let card = cards.get(stream.id);
  const before = card?.placement;
  const former = before?.split(" ")[0]; // The merged stream itself has its new health by now.
  if (!card) {
    card = new Card(stream, streamUrl(stream), sessionUrl);
    card.node.card = card;
    cards.set(stream.id, card);
    sight.observe(card.node);
    if (ready && stream.state !== "dropped")
      announce(`${card.path} is ${stream.state === "live" ? "live" : "waiting for media"}.`);
  }
  card.update(stream, streams.marks.get(stream.id), link.now());
  if (card.placement === before) return;
  moved = true;
  if (card.attention && isWorse(stream.health, former)) {
    announce(`${card.path}: ${health(stream.health).word}. ${stream.issues[0]?.title ?? ""}`);
    kiosk.interrupt();
  }
}

function remove(id) {
  const card = cards.get(id);
  if (!card) return;
  moved = true;
  if (card.stream.state === "live") announce(`${card.path} has ended.`);
  sight.unobserve(card.node);
  card.node.remove();
  cards.delete(id);
  offline.set(id, { id, app: card.stream.app, name: card.stream.name, state: "offline" });
}

/** A snapshot (`streams` are those that nodes know of, `known` all that exist) or an update. */
function onMessage(message) {
  link.received(message.at);
  for (const id of new Set([...streams.take(message), ...drops.take(message)])) {
    const stream = shownStream(id, streams.get(id), drops, cards.get(id)?.stream);
    if (stream && stream.state !== "offline") put(stream);
    else remove(id);
  }
  for (const card of cards.values()) {
    if (message.kind === "snapshot" || card.stream.node === message.node) card.sample(message.at);
  }
  if (message.kind === "snapshot") {
    offline.clear();
    for (const stream of message.known) if (!cards.has(stream.id)) offline.set(stream.id, stream);
    moved = true;
  }
  nodes.take(message);
  if (!ready) seed();
  ready = true;
  schedule();
}

/** The sparklines' last minute, once. Without it they grow from now on. */
async function seed() {
  try {
    const response = await fetch(document.getElementById("wall").dataset.recentUrl, {
      headers: { Accept: "application/json" },
    });
    if (!response.ok) return;
    const { items } = await response.json();
    for (const [id, columns] of Object.entries(items)) cards.get(Number(id))?.seed(columns);
  } catch {
    // The socket's state shows a server that is away.
  }
}

function arrangeNow() {
  moved = true;
  render();
}

function arrangeSoon() {
  moved = true;
  schedule();
}

function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    render();
  });
}

let announced = [];
function announce(text) {
  announced.push(text);
  if (announced.length > 1) return;
  setTimeout(() => {
    setText(parts.announce, announced.slice(0, 3).join(" "));
    announced = [];
  }, 500);
}

/* ---- painting ---- */

function render() {
  if (!ready) return;
  rendered = performance.now();
  turn += 1;
  const now = link.now();
  if (rendered - audienceAt >= AUDIENCE_MS && !document.querySelector(".cards:is(:hover, :focus-within)")) countAudiences();
  const arranged = moved;
  if (arranged) arrange();
  for (const card of cards.values()) {
    if (card.visible || card.moved || (turn + card.stream.id) % OUT_OF_SIGHT === 0) card.render(now);
  }
  nodes.paint(now);
  strip.paint(now);
  paintRefused(now);
  kiosk.layOut(arranged);
}

/** By how many watch cards are ordered: now and then, and not under the pointer, so that nothing jumps about. */
function countAudiences(all = false) {
  audienceAt = performance.now();
  for (const card of cards.values()) {
    const { players } = card.stream;
    if (!all && !hasOtherAudience(card)) continue;
    moved ||= card.audience !== players;
    card.audience = players;
  }
}

let refusals = new Set();
function paintRefused(now) {
  const items = refused.items(now);
  showRefusedCount(items.reduce((sum, { count: each }) => sum + each, 0));
  for (const item of items) {
    if (!refusals.has(item.key)) announce(`Refused: ${item.words}, from ${item.address || "many addresses"}.`);
  }
  refusals = new Set(items.map(({ key }) => key));
  parts["refused-seen"].hidden = items.length === 0;
}

/** Which cards are shown, where, in which order, and how many there are. */
function arrange() {
  moved = false;
  const { healths, attention, well } = arranged([...cards.values()], filters);
  filters.showCounts(healths);
  filters.showApplications([...cards.values()].map((card) => card.stream).concat([...offline.values()]));
  filters.showNodes([...cards.values()].map((card) => card.stream.node));
  place(parts.attention, attention, (list) => `${count(list.length, "stream")}, ${filters.orderWords}`);
  place(parts.well, well, wellWords);
  fold.apply(well, kiosk.on);
  parts["no-streams"].hidden = cards.size > 0;
  parts["no-match"].hidden = cards.size === 0 || attention.length + well.length > 0;
  renderOffline();
  const bad = [...cards.values()].filter((card) => card.stream.health === "bad").length;
  showBadCount(bad);
  document.title = `${bad ? `(${bad} bad) ` : ""}Wall · rtmpweb`;
  kiosk.count(healths);
}

/** Put the cards into a section in their order. Only those that stand wrong are moved; the focus stays where it was. */
function place(section, list, words) {
  section.hidden = list.length === 0;
  setText(section.querySelector(".sec span"), list.length ? words(list) : "");
  const host = section.querySelector("ul");
  const focused = host.contains(document.activeElement) ? document.activeElement : null;
  const wanted = new Set(list.map((card) => card.node));
  for (const node of [...host.children]) if (!wanted.has(node)) node.remove();
  let next = host.firstElementChild;
  for (const card of list) {
    if (card.node === next) next = next.nextElementSibling;
    else host.insertBefore(card.node, next);
  }
  if (focused && focused.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
}

let offlineSignature = "";
function renderOffline() {
  const list = arrangedOffline([...offline.values()], filters);
  parts.offline.hidden = list.length === 0;
  const signature = list.map(pathOf).join("\n");
  if (signature === offlineSignature) return;
  offlineSignature = signature;
  setText(parts.offline.querySelector(".sec span"), count(list.length, "stream"));
  parts.offline.querySelector("ul").replaceChildren(
    ...list.map((stream) =>
      element(
        "li",
        {},
        element(
          "a",
          {
            class: "clip",
            href: streamUrl(stream),
            title: pathOf(stream),
            "data-step": true,
            "data-stream": pathOf(stream),
            "data-state": "offline",
          },
          element("small", {}, `${stream.app}/`),
          stream.name,
        ),
      ),
    ),
  );
}

/* ---- go ---- */

onKey("f", () => kiosk.toggle());
document.getElementById("kiosk-on").addEventListener("click", () => kiosk.toggle());
parts["refused-seen"].addEventListener("click", () => {
  seeRefused(link.now());
  schedule();
});
document.getElementById("show-all").addEventListener("click", () => filters.clear());

missing.poll();
// Clocks and sparklines move on even when nothing comes.
setInterval(() => {
  if (performance.now() - rendered > TICK_MS) schedule();
}, TICK_MS);
const socket = new LiveSocket(bootstrap.ws, {
  onMessage,
  onState: (state) => {
    link.show(state);
    schedule();
  },
  silenceS: () => SILENCE_S,
});
retryWith(link, socket);
