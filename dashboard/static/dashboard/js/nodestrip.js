// The strip of media nodes above the wall: what each one tells of itself, and what is wrong with it.

import { element, icon } from "./dom.js";
import { bitrate, number, unit } from "./format.js";
import { health } from "./health.js";

const SILENT_S = 5; // A node that ticks no more is taken out, as the server does.

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
    const rows = [...this.nodes.values()].sort((a, b) => (a.node < b.node ? -1 : 1)).map(row);
    const signature = rows.map((each) => each.outerHTML).join();
    if (signature === this.painted) return;
    this.painted = signature;
    this.host.replaceChildren(...(rows.length ? rows : [none()]));
  }
}

function none() {
  return element("p", { class: "node" }, icon("warn", "w-warn"), "No media node is running: encoders can’t connect.");
}

function row(node) {
  const issues = node.issues ?? [];
  const worst = issues.some((issue) => issue.level === "bad") ? "bad" : issues.length ? "warning" : "good";
  const look = health(worst);
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
        icon(look.icon, `w-${look.icon}`),
        element("span", { class: "vh" }, worst === "good" ? "Running:" : `${look.word}:`),
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
    issues.length ? element("ul", { class: "why" }, ...issues.map(sentence)) : null,
  );
}

function sentence(issue) {
  const name = health(issue.level).icon;
  return element(
    "li",
    {},
    icon(name, `w-${name}`),
    element("div", {}, element("b", {}, issue.title), " ", element("span", {}, issue.advice)),
  );
}
