// The wall: a card for each stream, worst first, fed by /ws/live/.

import { Card } from "./card.js";
import { openDialog } from "./dialog.js";
import { element, icon, pageData, setText } from "./dom.js";
import { DroppedStrip } from "./dropped.js";
import { byName, Filters } from "./filters.js";
import { bitrate, count, number, unit } from "./format.js";
import { health } from "./health.js";
import { LinkView, retryWith } from "./link.js";
import { LiveSocket } from "./socket.js";

const SILENCE_S = 5; // A node ticks each second.
const TICK_MS = 1000;
const CPU_LIMIT = 90; // Percent; the node is named as strained above it, and below the disk's.
const DISK_LIMIT = 10;

const bootstrap = pageData("bootstrap");
const link = new LinkView();
const cards = new Map(); // By stream id: those that are live or waiting.
const offline = new Map(); // By stream id: the others.
const parts = Object.fromEntries(
  ["nodes", "attention", "well", "offline", "no-match", "no-streams", "announce"].map((id) => [
    id,
    document.getElementById(id),
  ]),
);
const streamUrl = (stream) =>
  bootstrap.stream_url
    .replace("__APP__", encodeURIComponent(stream.app))
    .replace("__NAME__", encodeURIComponent(stream.name));
const dropped = new DroppedStrip(document.getElementById("dropped"), bootstrap.sessions_url, streamUrl);
const filters = new Filters(document.getElementById("filters"), () => render());
let ready = false;
let scheduled = false;
let rendered = 0;

// A card out of sight draws no sparkline: with hundreds of them that is most of the work.
const sight = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) entry.target.card.visible = entry.isIntersecting;
  },
  { rootMargin: "200px" },
);

function put(stream, at) {
  if (stream.state === "offline") {
    remove(stream.id);
    offline.set(stream.id, stream);
    return;
  }
  offline.delete(stream.id);
  let card = cards.get(stream.id);
  if (!card) {
    card = new Card(stream, streamUrl(stream));
    card.node.card = card;
    cards.set(stream.id, card);
    sight.observe(card.node);
    if (ready) announce(`${stream.app}/${stream.name} is ${stream.state === "live" ? "live" : "waiting for media"}.`);
  } else if (card.stream.health !== stream.health && (stream.health === "bad" || stream.health === "warning")) {
    announce(`${stream.app}/${stream.name}: ${health(stream.health).word}. ${stream.issues[0]?.title ?? ""}`);
  }
  card.update(stream, at);
}

function remove(id) {
  const card = cards.get(id);
  if (!card) return;
  if (card.stream.state === "live") {
    announce(`${card.stream.app}/${card.stream.name} has ended.`);
    dropped.refreshSoon();
  }
  sight.unobserve(card.node);
  card.node.remove();
  cards.delete(id);
  offline.set(id, { ...card.stream, state: "offline" });
}

/** A snapshot (`streams` are those that nodes know of, `known` all that exist) or an update. */
function onMessage(message) {
  link.heard(message.at);
  if (message.kind === "snapshot") {
    const known = new Set(message.streams.map((stream) => stream.id));
    for (const id of [...cards.keys()]) if (!known.has(id)) remove(id);
    offline.clear();
    for (const stream of message.known) if (!known.has(stream.id)) offline.set(stream.id, stream);
  }
  for (const stream of message.streams) put(stream, message.at);
  for (const id of message.gone ?? []) remove(id);
  renderNodes(message.nodes);
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
    // The socket's state tells of a server that is away.
  }
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
  const now = link.now();
  const all = [...cards.values()].filter((card) => filters.fitsPlace(card.stream));
  filters.showCounts(all.map((card) => card.stream.health));
  filters.showApplications(
    [...cards.values(), ...[...offline.values()].map((stream) => ({ stream }))].map((card) => card.stream.app),
  );
  const shown = all.filter((card) => filters.fitsHealth(card.stream)).sort(filters.compare);
  place(
    parts.attention,
    shown.filter((card) => card.attention),
    (list) => `${count(list.length, "stream")}, ${filters.orderWords}`,
  );
  place(
    parts.well,
    shown.filter((card) => !card.attention),
    wellWords,
  );
  for (const card of shown) card.render(now);
  parts["no-streams"].hidden = cards.size > 0;
  parts["no-match"].hidden = cards.size === 0 || shown.length > 0;
  renderOffline();
  showBadCount([...cards.values()].filter((card) => card.stream.health === "bad").length);
  dropped.paint(
    now,
    (app, name) => [...cards.values()].find((card) => card.stream.app === app && card.stream.name === name)?.stream,
  );
}

function wellWords(list) {
  const good = list.filter((card) => card.stream.health === "good").length;
  const waiting = list.filter((card) => card.stream.state === "waiting").length;
  const others = list.length - good - waiting;
  return [
    good || !list.length ? `${number(good)} good` : "",
    others ? `${number(others)} not judged yet` : "",
    waiting ? `${number(waiting)} waiting for media` : "",
  ]
    .filter(Boolean)
    .join(", ");
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
  const list = [...offline.values()].filter((stream) => filters.fitsPlace(stream) && filters.health === "");
  list.sort((a, b) => byName(filters.path(a), filters.path(b)));
  parts.offline.hidden = list.length === 0;
  const signature = list.map((stream) => `${stream.app}/${stream.name}`).join("\n");
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
            title: `${stream.app}/${stream.name}`,
            "data-stream": `${stream.app}/${stream.name}`,
            "data-state": "offline",
          },
          element("small", {}, `${stream.app}/`),
          stream.name,
        ),
      ),
    ),
  );
}

function renderNodes(nodes) {
  const rows = nodes.map((node) => {
    const strained = (node.cpu_percent ?? 0) > CPU_LIMIT || (node.disk_free_percent ?? 100) < DISK_LIMIT;
    const figures = [
      ["CPU", unit(node.cpu_percent, "%"), node.cpu_percent !== null],
      ["Disk free", unit(node.disk_free_percent, "%"), node.disk_free_percent !== null],
      ["Loop delay", unit(node.loop_delay_ms, "ms", 1), true, "hide-s"],
      ["In", bitrate(node.in_kbps), true],
      ["Out", bitrate(node.out_kbps), true],
      ["Players", number(node.players), true],
    ];
    return element(
      "dl",
      { class: "node", "data-node": node.node },
      element(
        "div",
        { class: "id" },
        icon(strained ? "warn" : "good", strained ? "w-warn" : "w-good"),
        element("span", { class: "vh" }, strained ? "Strained:" : "Running:"),
        node.node,
      ),
      ...figures
        .filter(([, , known]) => known)
        .map(([name, value, , classes]) =>
          element("div", { class: classes }, element("dt", {}, name), " ", element("dd", {}, value)),
        ),
    );
  });
  if (!rows.length)
    rows.push(
      element("p", { class: "node" }, icon("warn", "w-warn"), "No media node is running: encoders can’t connect."),
    );
  parts.nodes.replaceChildren(...rows);
}

function showBadCount(bad) {
  for (const badge of document.querySelectorAll("[data-bad-count]")) {
    badge.hidden = bad === 0;
    setText(badge.querySelector("span"), number(bad));
  }
  document.title = `${bad ? `(${bad} bad) ` : ""}Wall · rtmpweb`;
}

/* ---- keys ---- */

function step(by) {
  const links = [...document.querySelectorAll(".stream h3 a, .off-list a")];
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.max(0, Math.min(links.length - 1, at + by));
  links[next]?.focus();
}

const KEYS = { "/": () => filters.focus(), j: () => step(1), k: () => step(-1), "?": () => openDialog("keys-help") };

document.addEventListener("keydown", (event) => {
  if (event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input[type=search], textarea, select") || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});
document.getElementById("show-all").addEventListener("click", () => filters.clear());

/* ---- go ---- */

// Clocks and sparklines move on even when nothing comes.
setInterval(() => {
  if (performance.now() - rendered > TICK_MS) schedule();
}, TICK_MS);
dropped.refresh();
const socket = new LiveSocket(bootstrap.ws, {
  onMessage,
  onState: (state) => link.show(state),
  silenceS: () => SILENCE_S,
});
retryWith(link, socket);
