// What every page does: buttons, keys, filters, parts that are brought up to date, and the banner that says which part of
// the installation is down, and since when. With that come the rail's counts of bad streams and of refused connections.

import { listenToActions, openDialog } from "./actions.js";
import { remakeInOwnZone } from "./browserzone.js";
import { element, icon, setText } from "./dom.js";
import { duration, seconds, timeWithUtc } from "./format.js";
import { showBadCount } from "./health.js";
import { refreshMarked } from "./refresh.js";
import { showRefusedCount } from "./refused.js";
import { listenToKeys } from "./shortcuts.js";

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

/** A choice in a form with data-autosubmit applies at once. */
function submitChoices() {
  document.addEventListener("change", ({ target }) => {
    if (target.matches("form[data-autosubmit] :is(select, input[type=date])")) target.form.requestSubmit();
  });
}

/** A link to a <details> opens it. */
function openTarget() {
  const target = document.getElementById(location.hash.slice(1));
  if (!(target instanceof HTMLDetailsElement)) return;
  target.open = true;
  target.scrollIntoView();
}

/* ---- outages: the banner comes and goes without a reload, and leaves out what the page's own table of parts says ---- */

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
    const { items, bad_streams: bad, refused } = await response.json();
    // The wall counts for itself, and sooner.
    if (!document.getElementById("wall")) {
      if (Number.isInteger(bad)) showBadCount(bad);
      if (Number.isInteger(refused)) showRefusedCount(refused);
    }
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

function watchOutages() {
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
  const check = async () => {
    if (document.hidden) return;
    const found = await ask(list.dataset.url);
    if (found) show(found.filter((part) => !isInTable(part)));
  };
  const round = async () => {
    await check();
    setTimeout(round, ASK_MS);
  };

  round();
  setInterval(paint, 1000);
  document.addEventListener("visibilitychange", check);
}

/* ---- go ---- */

listenToActions();
listenToKeys();
submitChoices();
addEventListener("hashchange", openTarget);
openTarget();
// A form that was sent and is wrong is shown again in its dialog.
for (const dialog of document.querySelectorAll("dialog[data-open]")) openDialog(dialog.id);
refreshMarked();
watchOutages();
remakeInOwnZone();
