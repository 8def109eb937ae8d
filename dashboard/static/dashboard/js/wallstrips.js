// The strips of the wall: media nodes, what each one reports of itself and what is wrong with it; and the streams that
// dropped in the last 15 minutes, from the sessions that the API lists.

import { element, icon, setText } from "./dom.js";
import { END_WORDS } from "./events.js";
import { bitrate, duration, number, time, unit, when } from "./format.js";
import { health } from "./health.js";
import { throttle } from "./refresh.js";

const SILENT_S = 5; // A node that ticks no more is taken out, as the server does.
const WINDOW_S = 15 * 60;
const MAX_ITEMS = 12;
const REFRESH_MS = 60000;
// The session's end is written after its stream went: soon, or when the database is less busy.
const SOON_MS = 1500;
const LATE_MS = 6000;

export class NodeStrip {
  constructor(host) {
    this.host = host;
    this.nodes = new Map(); // By name.
    this.changed = false;
    this.painted = null;
  }

  take(message) {
    if (message.kind === "snapshot") this.nodes.clear();
    for (const node of message.nodes) this.nodes.set(node.node, node);
    // A node that stops in order says so by an update without its figures.
    if (message.kind === "update" && message.nodes.length === 0) this.nodes.delete(message.node);
    this.changed = true;
  }

  /** `now`: the server's time. */
  paint(now) {
    for (const [name, node] of this.nodes) {
      if (this.nodes.size > 1 && node.at < now - SILENT_S) {
        this.nodes.delete(name);
        this.changed = true;
      }
    }
    if (!this.changed) return;
    this.changed = false;
    const rows = [...this.nodes.values()].sort((a, b) => (a.node < b.node ? -1 : 1)).map(nodeRow);
    const signature = rows.map((each) => each.outerHTML).join();
    if (signature === this.painted) return;
    this.painted = signature;
    this.host.replaceChildren(...(rows.length ? rows : [noNode()]));
  }
}

export class DroppedStrip {
  /** `url` lists publishing sessions, newest first; null where the user may not see them. */
  constructor(section, url, sessionUrl) {
    this.section = section;
    this.list = section.querySelector("ul");
    this.url = url;
    this.sessionUrl = sessionUrl;
    this.items = [];
    this.refreshSoon = throttle(() => this.refresh(), SOON_MS, LATE_MS);
    this.signature = "";
    if (url)
      setInterval(() => {
        if (!document.hidden) this.refresh();
      }, REFRESH_MS);
  }

  async refresh() {
    if (!this.url) return;
    try {
      const response = await fetch(this.url, { headers: { Accept: "application/json" } });
      if (!response.ok) return;
      const { items } = await response.json();
      this.items = items
        .filter((session) => session.ended_at)
        .map((session) => ({ ...session, at: Date.parse(session.ended_at) / 1000 }));
    } catch {
      // The link's banner says that the server is away; the strip keeps what it knew.
    }
  }

  /** One item for each stream, its latest end; `liveStream(path)` is what is on air now. */
  paint(now, liveStream) {
    const latest = new Map();
    for (const item of this.items) {
      const path = `${item.app}/${item.name}`;
      if (item.at > now - WINDOW_S && !(latest.get(path)?.at > item.at)) latest.set(path, item);
    }
    const shown = [...latest.values()].sort((a, b) => b.at - a.at).slice(0, MAX_ITEMS);
    this.section.hidden = shown.length === 0;
    const signature = shown.map((item) => item.id).join();
    if (signature !== this.signature) {
      this.signature = signature;
      this.list.replaceChildren(...shown.map((item) => this.row(item)));
    }
    shown.forEach((item, index) => {
      const stream = liveStream(`${item.app}/${item.name}`);
      const back = stream?.state === "live" && stream.since !== null;
      const row = this.list.children[index].lastElementChild;
      const state = back ? "back" : "off";
      if (row.dataset.state !== state) {
        row.dataset.state = state;
        row.replaceChildren(icon(back ? "good" : "bad", back ? "w-good" : "w-bad"), " ", element("span"));
      }
      setText(
        row.lastElementChild,
        back ? `Back after ${duration(Math.max(0, stream.since - item.at))}` : `Off for ${duration(now - item.at)}`,
      );
    });
  }

  row(item) {
    return element(
      "li",
      { "data-dropped": `${item.app}/${item.name}` },
      element(
        "div",
        { class: "row" },
        element("a", { class: "clip", href: this.sessionUrl(item.id) }, `${item.app}/${item.name}`),
        when(item.at, time(item.at), "dim"),
      ),
      element("span", { class: "sub clip" }, END_WORDS[item.end_reason] ?? "Ended"),
      element("span", { class: "nowrap" }),
    );
  }
}

function noNode() {
  return element("p", { class: "node" }, icon("warn", "w-warn"), "No media node is running: encoders can’t connect.");
}

function nodeRow(node) {
  const issues = node.issues ?? [];
  const worst = issues.some((issue) => issue.level === "bad") ? "bad" : issues.length ? "warning" : "good";
  const style = health(worst);
  const figures = [
    ["CPU", unit(node.cpu_percent, "%"), node.cpu_percent !== null],
    ["Disk free", unit(node.disk_free_percent, "%"), node.disk_free_percent !== null],
    ["Loop delay", unit(node.loop_delay_ms, "ms", 1), true, "hide-s"],
    ["In", bitrate(node.in_kbps), true],
    ["Out", bitrate(node.out_kbps), true],
    ["Players", number(node.players), true, "hide-s"],
  ];
  return element(
    "div",
    { "data-node": node.node, "data-health": worst },
    element(
      "div",
      { class: "node" },
      element(
        "div",
        { class: "id" },
        icon(style.icon, `w-${style.icon}`),
        element("span", { class: "vh" }, worst === "good" ? "Running:" : `${style.word}:`),
        node.draining ? `${node.node} (draining)` : node.node,
      ),
      element(
        "dl",
        {},
        ...figures
          .filter(([, , known]) => known)
          .map(([name, value, , classes]) =>
            element("div", { class: classes }, element("dt", {}, name), " ", element("dd", {}, value)),
          ),
      ),
    ),
    issues.length ? element("ul", { class: "why" }, ...issues.map(issueRow)) : null,
  );
}

function issueRow(issue) {
  const name = health(issue.level).icon;
  return element(
    "li",
    {},
    icon(name, `w-${name}`),
    element("div", {}, element("b", {}, issue.title), " ", element("span", {}, issue.advice)),
  );
}
