// Keys that every page has: "/" to its search field, j and k through its list, "?" for the list of keys. A page adds its
// own by `onKey`, and lists them in the block "keys" of its template.

import { openDialog } from "./actions.js";

const FIELD = "main input[type=search]";
// What j and k go through, in the order of the page: what is marked, or else each row's first link.
const STEPS = "main [data-step]";
const ROWS = "main tbody tr a:not([data-step])";
const TYPING = "input:not([type=radio], [type=checkbox], [type=button], [type=submit]), textarea, select, [contenteditable]";

const own = new Map();

export function onKey(key, action) {
  own.set(key, action);
}

const shown = (node) => node.checkVisibility({ contentVisibilityAuto: false, visibilityProperty: true });

function steps() {
  const marked = [...document.querySelectorAll(STEPS)].filter(shown);
  if (marked.length) return marked;
  const rows = new Map();
  for (const link of document.querySelectorAll(ROWS)) {
    const row = link.closest("tr");
    if (!rows.has(row) && shown(link)) rows.set(row, link);
  }
  return [...rows.values()];
}

function step(by) {
  const links = steps();
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.max(0, Math.min(links.length - 1, at + by));
  links[next]?.focus();
}

function search() {
  const field = document.querySelector(FIELD);
  field?.focus();
  field?.select();
}

function help() {
  const dialog = document.getElementById("keys-help");
  for (const row of dialog.querySelectorAll("[data-when]")) {
    row.hidden = row.dataset.when === "search" ? !document.querySelector(FIELD) : steps().length === 0;
  }
  openDialog("keys-help");
}

const COMMON = { "/": search, j: () => step(1), k: () => step(-1), "?": help };

export function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || event.isComposing) return;
    if (document.querySelector("dialog[open]") || event.target.closest?.(TYPING)) return;
    const action = own.get(event.key) ?? COMMON[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  for (const button of document.querySelectorAll("[data-keys-help]")) button.addEventListener("click", help);
}
