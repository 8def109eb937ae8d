// The strips of the wall: media nodes, what each one reports of itself and what is wrong with it; and what happened in
// the last minutes: encoders that were refused, streams that dropped and are back; before these, streams that should be live.

import { element, icon, setAttribute, setText } from "./dom.js";
import { duration, number, time, when } from "./format.js";
import { health } from "./health.js";
import { nodeHealth, stripFigures } from "./nodefigures.js";
import { refusedSeenAt } from "./refused.js";

const SILENT_S = 5; // A node that ticks no more is taken out, as the server does.
const WINDOW_S = 15 * 60; // Of streams that dropped,
const REFUSED_S = 10 * 60; // and of encoders that are refused no more.
const MISSING_MS = 10000;

export class NodeStrip {
  constructor(host) {
    this.host = host;
    this.nodes = new Map(); // By name.
    this.changed = false;
    this.painted = null;
  }

  take(message) {
    if (message.kind === "snapshot") this.nodes.clear();
    // Who was refused is told when it changed.
    for (const node of message.nodes)
      this.nodes.set(node.node, { ...node, refused: node.refused ?? this.nodes.get(node.node)?.refused });
    // A node that stops in order says so by an update without its figures.
    if (message.kind === "update" && message.nodes.length === 0) this.nodes.delete(message.node);
    this.changed = true;
  }

  /** Take out the nodes that are silent at `now`, except the last one. */
  removeSilent(now) {
    for (const [name, node] of this.nodes) {
      if (this.nodes.size > 1 && node.at < now - SILENT_S) {
        this.nodes.delete(name);
        this.changed = true;
      }
    }
  }

  /** `now`: the server's time. */
  paint(now) {
    this.removeSilent(now);
    if (!this.changed) return;
    this.changed = false;
    const rows = [...this.nodes.values()].sort((a, b) => (a.node < b.node ? -1 : 1)).map(nodeRow);
    const signature = rows.map((each) => each.outerHTML).join();
    if (signature === this.painted) return;
    this.painted = signature;
    this.host.replaceChildren(...(rows.length ? rows : [noNode()]));
  }
}

/** What happened lately and somebody should know: a table of kinds, each with its items of now, the first of them first. */
export class Strip {
  /**
   * A kind has a `name`, `most` items, and by `now`, the server's time, `items(now)`, each with a `key` and the time `at`.
   * What a row says of an item: `subject` (a link to `href`), `words`, and `state(item, now)`: [icon, its classes, text].
   */
  constructor(section, kinds) {
    this.list = section.querySelector("ul");
    this.section = section;
    this.kinds = kinds;
    this.rows = new Map();
  }

  paint(now) {
    const shown = this.kinds.flatMap((kind) =>
      kind
        .items(now)
        .slice(0, kind.most)
        .map((item) => ({ kind, item, key: `${kind.name} ${item.key}` })),
    );
    this.section.hidden = shown.length === 0;
    const rows = new Map(shown.map(({ kind, key }) => [key, this.rows.get(key) ?? newRow(kind)]));
    if ([...rows.keys()].join("\n") !== [...this.rows.keys()].join("\n")) this.list.replaceChildren(...rows.values());
    this.rows = rows;
    for (const { kind, item, key } of shown) paintRow(rows.get(key), kind, item, now);
  }
}

function newRow(kind) {
  return element(
    "li",
    { "data-item": kind.name },
    element("div", { class: "row" }, element("a", { class: "clip" }), element("span", { class: "at dim" })),
    element("span", { class: "sub clip" }),
    element("span", { class: "clip state" }),
  );
}

function paintRow(row, kind, item, now) {
  const [head, words, state] = row.children;
  const [link, at] = head.children;
  setText(link, kind.subject(item));
  setAttribute(link, "href", kind.href(item));
  if (row.dataset.at !== String(item.at)) {
    row.dataset.at = item.at;
    at.replaceChildren(when(item.at));
  }
  setText(words, kind.words(item));
  words.title = words.textContent;
  if (kind.name === "dropped") row.dataset.dropped = kind.subject(item);
  const [name, classes, text] = kind.state(item, now);
  if (state.dataset.icon !== name) {
    state.dataset.icon = name;
    state.replaceChildren(icon(name, classes), " ", element("span"));
  }
  setText(state.lastElementChild, text);
}

const minute = (at) => time(at).slice(0, 5);

/** Streams that are off air though they should be live, as their settings say; asked for each few seconds. */
export class Missing {
  name = "missing";
  most = 12;

  /** `isLive(id)`: by what the page knows, which is sooner. */
  constructor(url, streamUrl, isLive) {
    this.url = url;
    this.href = streamUrl;
    this.isLive = isLive;
    this.found = [];
  }

  poll() {
    this.refresh();
    setInterval(() => {
      if (!document.hidden) this.refresh();
    }, MISSING_MS);
  }

  async refresh() {
    try {
      const response = await fetch(this.url, { headers: { Accept: "application/json" } });
      if (response.ok) this.found = (await response.json()).items;
    } catch {
      // The link's banner says that the server is away; the strip keeps what it knew.
    }
  }

  items(now) {
    return this.found
      .filter((each) => each.until > now && !this.isLive(each.id))
      .map((each) => ({ ...each, key: `${each.id} ${each.since}`, at: each.since }));
  }

  subject = (each) => `${each.app}/${each.name}`;

  words(each) {
    const since = minute(each.since);
    return each.was_live ? `Off air since ${since}, expected until ${minute(each.until)}` : `Should be live since ${since}`;
  }

  state = (each, now) => ["bad", "w-bad", `Missing for ${duration(now - each.since)}`];
}

/** Encoders that were turned away, and that nobody at this browser has seen: of all nodes, one item for each cause. */
export class Refused {
  name = "refused";
  most = 6;

  /** `url` lists refused connections; `seenAt()` is until when somebody at this browser has seen them. */
  constructor(nodes, url, seenAt = refusedSeenAt) {
    this.nodes = nodes;
    this.url = url;
    this.seenAt = seenAt;
  }

  items(now) {
    const found = new Map();
    for (const group of [...this.nodes.nodes.values()].flatMap((node) => node.refused ?? [])) {
      if (group.at < now - REFUSED_S || group.since <= this.seenAt()) continue;
      const key = [group.reason, group.app, group.name, group.address].join("\n");
      const other = found.get(key);
      found.set(key, {
        ...group,
        key,
        count: group.count + (other?.count ?? 0),
        since: Math.min(group.since, other?.since ?? group.since),
        at: Math.max(group.at, other?.at ?? group.at),
      });
    }
    return [...found.values()].sort((a, b) => b.since - a.since);
  }

  subject = (group) => group.words;

  href(group) {
    const asked = Object.entries({ reason: group.reason, address: group.address }).filter(([, value]) => value);
    return `${this.url}?${new URLSearchParams(asked)}`;
  }

  words(group) {
    const often = group.count > 1 ? `${number(group.count)} in ${duration(Math.max(1, group.at - group.since))}` : "Once";
    return `${often}, from ${group.address || "many addresses"}`;
  }

  state(group, now) {
    const path = [group.app, group.name].filter(Boolean).join("/");
    return ["ban", "w-warn", `${path ? `For ${path}, ` : ""}${path ? "last" : "Last"} ${duration(now - group.at)} ago`];
  }
}

/** Streams that dropped and are back, or that somebody has seen to; the others have their cards. */
export class Dropped {
  name = "dropped";
  most = 12;

  constructor(drops, sessionUrl) {
    this.drops = drops;
    this.sessionUrl = sessionUrl;
  }

  items(now) {
    return this.drops.closed(now - WINDOW_S).map((drop) => ({ ...drop, key: drop.id }));
  }

  subject = (drop) => `${drop.app}/${drop.name}`;
  href = (drop) => this.sessionUrl(drop.id);
  words = (drop) => `Dropped: ${drop.words.charAt(0).toLowerCase()}${drop.words.slice(1)}`;

  state(drop, now) {
    return drop.back === null
      ? ["bad", "w-bad", `Off for ${duration(now - drop.at)}`]
      : ["good", "w-good", `Back after ${duration(Math.max(0, drop.back - drop.at))}`];
  }
}

function noNode() {
  return element("p", { class: "node" }, icon("warn", "w-warn"), "No media node is running: encoders can’t connect.");
}

function nodeRow(node) {
  const issues = node.issues ?? [];
  const worst = nodeHealth(issues);
  const style = health(worst);
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
        `Node ${node.node}${node.draining ? " (draining)" : ""}`,
      ),
      element(
        "dl",
        {},
        ...stripFigures(node).map(([name, words, classes]) =>
          element("div", { class: classes }, element("dt", {}, name), " ", element("dd", {}, words)),
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
