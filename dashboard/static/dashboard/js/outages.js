// The banner on every page: which part of the installation is down, and since when. It comes and goes without a reload.
// What the page's own table of parts says already is not said twice. With it comes the rail's count of bad streams.

import { element, icon, setText } from "./dom.js";
import { duration, seconds, timeWithUtc } from "./format.js";
import { showBadCount } from "./health.js";

const ASK_MS = 3000;
const LIMIT_MS = 8000;
const SILENT_AFTER = 2; // Failed tries in a row, after which the web process itself counts as down.
const SILENT = {
  kind: "web",
  state: "down",
  what: "The dashboard does not answer",
  effect: "What this page shows is the last that was known.",
  advice: "Check that the web process runs.",
};

let failures = 0;
let silentSince = null;

/** The parts to warn of; null where nobody may say (logged out). */
async function ask(url) {
  try {
    const response = await fetch(url, {
      headers: { Accept: "application/json" },
      signal: AbortSignal.timeout(LIMIT_MS),
    });
    if (response.status >= 500 && response.status !== 503) throw new Error(`HTTP ${response.status}`);
    if (!response.ok && response.status !== 503) return null;
    const { items, bad_streams: bad } = await response.json();
    // The wall counts for itself, and sooner.
    if (Number.isInteger(bad) && !document.getElementById("wall")) showBadCount(bad);
    failures = 0;
    silentSince = null;
    return items;
  } catch {
    silentSince ??= Date.now() / 1000;
    failures += 1;
    return failures >= SILENT_AFTER ? [{ ...SILENT, since: silentSince }] : null;
  }
}

function isInTable({ kind, state }) {
  return document.querySelector(`#parts [data-kind="${kind}"][data-state="${state}"]`) !== null;
}

/** On a phone its first sentence, which leads to the page with the rest; where no page can be had, all of it. */
function row(part, page) {
  const silent = part.kind === SILENT.kind;
  return element(
    "div",
    { class: part.state === "down" ? "banner down" : "banner", "data-kind": part.kind },
    icon(part.state === "down" ? "bad" : "warn"),
    element(
      "span",
      {},
      element(
        silent ? "b" : "a",
        { href: silent ? null : page },
        part.since ? `${part.what} since ${timeWithUtc(seconds(part.since))}` : part.what,
        element("span", { "data-for": "", "aria-hidden": "true" }), // It grows each second: nothing to read out.
      ),
      element("span", { class: silent ? null : "more" }, `. ${part.effect} ${part.advice}`),
    ),
  );
}

/** Shows and keeps asking. */
export function watchParts() {
  const list = document.getElementById("outages");
  if (!list) return;
  let parts = [];

  const paint = () => {
    [...list.children].forEach((item, index) => {
      const since = parts[index]?.since;
      if (since) setText(item.querySelector("[data-for]"), ` (${duration(Date.now() / 1000 - seconds(since))})`);
    });
  };
  const show = (found) => {
    const signature = (some) => JSON.stringify(some.map(({ kind, state, what, since }) => [kind, state, what, since]));
    if (signature(found) !== signature(parts) || list.children.length !== found.length)
      list.replaceChildren(...found.map((part) => row(part, list.dataset.page)));
    parts = found;
    list.hidden = !found.length;
    paint();
  };
  const look = async () => {
    if (document.hidden) return;
    const found = await ask(list.dataset.url);
    if (found) show(found.filter((part) => !isInTable(part)));
  };
  const round = async () => {
    await look();
    setTimeout(round, ASK_MS);
  };

  round();
  setInterval(paint, 1000);
  document.addEventListener("visibilitychange", look);
}
