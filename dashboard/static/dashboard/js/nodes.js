// Media nodes: figures and sparklines from /ws/live/, states from the page itself every few seconds, and the dialog that
// asks before a node is drained, resumed or forgotten.

import { openDialog } from "./actions.js";
import { LinkView, LiveSocket, retryWith } from "./connection.js";
import { element, icon, pageData, setText } from "./dom.js";
import { health } from "./health.js";
import { NODE_FIGURES } from "./nodefigures.js";
import { refreshParts } from "./refresh.js";
import { SPAN_S, Sparkline } from "./sparkline.js";

const SILENCE_S = 5; // A node ticks each second.
const REFRESH_MS = 3000;
const GONE_S = 5; // A node that says nothing for so long has no figures.

const bootstrap = pageData("bootstrap");
const link = new LinkView();
const views = new Map(); // By a node's name.

class NodeView {
  constructor(host) {
    this.host = host;
    this.fields = [...host.querySelectorAll("[data-figure]")];
    this.sparks = [...host.querySelectorAll("[data-spark]")].map((spark) => [spark.dataset.spark, new Sparkline(spark), []]);
    this.issues = host.querySelector("[data-issues]");
    this.shownIssues = "";
    this.at = 0;
  }

  take(node) {
    this.at = node.at;
    for (const field of this.fields) setText(field, NODE_FIGURES[field.dataset.figure](node));
    for (const [name, spark, points] of this.sparks) {
      points.push({ at: node.at, kbps: node[name], health: "none" });
      while (points[0].at < node.at - SPAN_S - 2) points.shift();
      spark.draw(points, node.at, null);
    }
    this.takeIssues(node.issues ?? []);
  }

  takeIssues(issues) {
    const signature = JSON.stringify(issues.map((issue) => [issue.check, issue.level, issue.title, issue.actual]));
    if (signature === this.shownIssues) return;
    this.shownIssues = signature;
    this.issues.replaceChildren(
      ...issues.map((issue) => {
        const name = health(issue.level).icon;
        const fact = issue.actual && !issue.title.endsWith(".") ? `${issue.title}: ${issue.actual}.` : issue.title;
        return element("li", {}, icon(name, `w-${name}`), element("div", {}, element("b", {}, fact), " ", issue.advice));
      }),
    );
  }

  /** It reports nothing any more: no figure stays that may be wrong. */
  clear() {
    for (const field of this.fields) setText(field, "–");
    this.takeIssues([]);
  }
}

function find() {
  views.clear();
  for (const host of document.querySelectorAll("[data-node]")) views.set(host.dataset.node, new NodeView(host));
}

function onMessage(message) {
  link.received(message.at);
  for (const node of message.nodes ?? []) views.get(node.node)?.take(node);
}

/* ---- the dialog ---- */

const ASKS = {
  drain: [
    "Drain",
    "It takes no new connections and asks the ones it has to reconnect elsewhere. What is still live after the time below is disconnected.",
  ],
  resume: ["Resume", "It takes connections again within 2 s. Nothing is disconnected."],
  forget: [
    "Forget",
    "It is no longer expected: pages and alerts stop reporting it as down. History keeps its name. If it comes back, it is a node like any other.",
  ],
};

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-ask]");
  if (!button) return;
  const { ask, name, url } = button.dataset;
  const [verb, words] = ASKS[ask];
  document.getElementById("ask-form").action = url;
  setText(document.getElementById("ask-title"), `${verb} ${name}`);
  setText(document.getElementById("ask-words"), words);
  setText(document.getElementById("ask-submit"), `${verb} it`);
  document.getElementById("ask-grace").hidden = ask !== "drain";
  openDialog("ask");
});

/* ---- go ---- */

find();
setInterval(() => {
  const now = link.now();
  for (const view of views.values()) if (view.at && now - view.at > GONE_S) view.clear();
  const states = [...document.querySelectorAll(".node-state")].map((part) => part.id);
  refreshParts([...states, "streams", "sessions"]);
}, REFRESH_MS);
const socket = new LiveSocket(bootstrap.ws, {
  onMessage,
  onState: (state) => link.show(state),
  silenceS: () => SILENCE_S,
});
retryWith(link, socket);
