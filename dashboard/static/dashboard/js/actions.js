// What buttons do by their data-do ("theme", "open:<dialog id>", "close", "copy:<element id>", "print"), and forms with
// data-act, which are sent without leaving the page: what went wrong stands in the form; what was done, in a toast.

import { setText } from "./dom.js";
import { toggleTheme } from "./theme.js";

const COPIED_MS = 1600;
const TOAST_MS = 5000;
const NO_ANSWER = "The server did not answer. It may have been done all the same: load the page again before you try.";
const NOT_ALLOWED = "Your role doesn’t allow this, or you are logged out. Load the page again.";

export function openDialog(id) {
  const dialog = document.getElementById(id);
  if (dialog && !dialog.open) dialog.showModal();
}

/** Opens a dialog's form with these values, and without what went wrong before. */
export function openForm(id, values) {
  const form = document.querySelector(`#${id} form`);
  for (const [name, value] of Object.entries(values)) form.elements[name].value = value;
  form.querySelector(".err").hidden = true;
  openDialog(id);
}

/** As Esc would: whoever listens to `cancel` can keep it open. */
export function closeDialog(dialog) {
  if (dialog.dispatchEvent(new Event("cancel", { cancelable: true }))) dialog.close();
}

/** Of the page's forms, for requests that no form makes. */
export const csrfToken = () => document.querySelector("[name=csrfmiddlewaretoken]").value;

/** To every button and form, now or later. A form with data-done says that instead of the server's own words. */
export function listenToActions() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button) {
      const [action, argument] = button.dataset.do.split(":");
      ACTIONS[action]?.(button, argument);
    } else if (event.target instanceof HTMLDialogElement) {
      // A press on the backdrop hits the dialog itself, outside of its box.
      const box = event.target.getBoundingClientRect();
      const inside =
        event.clientX >= box.left &&
        event.clientX <= box.right &&
        event.clientY >= box.top &&
        event.clientY <= box.bottom;
      if (!inside) closeDialog(event.target);
    }
  });
  // Who enters a time means it.
  document.addEventListener("input", ({ target }) => {
    const at = target.type === "datetime-local" && target.closest(".lengths")?.querySelector("[value=at]");
    if (at) at.checked = true;
  });
  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("form[data-act]");
    if (!form) return;
    event.preventDefault();
    if (form.ariaBusy) return; // A disabled button would lose the focus.
    form.ariaBusy = "true";
    const { failure, words } = await post(form.action, new FormData(form));
    form.ariaBusy = null;
    const error = form.querySelector(".err");
    error.hidden = failure === null;
    setText(error.querySelector("span"), failure ?? "");
    if (failure !== null) return;
    const dialog = form.closest("dialog");
    dialog?.close();
    if (dialog) form.reset();
    toast(form.dataset.done ?? words);
  });
}

/** On paper all is shown, what is folded on the screen as well. */
function unfoldForPaper() {
  const folded = [...document.querySelectorAll("details[data-printed]:not([open])")];
  for (const part of folded) part.open = true;
  addEventListener("afterprint", () => folded.forEach((part) => (part.open = false)), { once: true });
}
addEventListener("beforeprint", unfoldForPaper);

const ACTIONS = {
  theme: toggleTheme,
  open,
  close: (button) => closeDialog(button.closest("dialog")),
  copy,
  print: () => window.print(),
};

/**
 * With data-action the dialog's form goes there, emptied; what it is about, in the button's data-what, stands in it, and
 * in its fields what data-values has by their names.
 */
function open(button, id) {
  const { action, what, values } = button.dataset;
  if (action) {
    const form = document.querySelector(`#${id} form`);
    form.reset();
    form.action = action;
    setText(form.querySelector("[data-field=what]"), what);
    for (const [name, value] of Object.entries(JSON.parse(values ?? "{}"))) {
      const field = form.elements[name];
      if (field.type === "checkbox") field.checked = value;
      else field.value = value;
    }
    for (const error of form.querySelectorAll(".err")) error.hidden = true;
  }
  openDialog(id);
}

/**
 * What is copied is shown. The clipboard needs a secure context: without one the text is selected and copied as a press
 * of Ctrl+C would. The event `copied` bubbles from the button, with the text.
 */
async function copy(button, id) {
  const source = document.getElementById(id);
  const label = button.querySelector("span");
  button.dataset.word ??= label.textContent;
  const text = source.textContent.trim();
  source.hidden = false;
  let copied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    getSelection().selectAllChildren(source);
    copied = document.execCommand("copy");
  }
  if (copied) button.dispatchEvent(new CustomEvent("copied", { bubbles: true, detail: text }));
  setText(label, copied ? "Copied" : "Selected");
  setTimeout(() => setText(label, button.dataset.word), COPIED_MS);
}

/** {failure, words}: why not, or null and the server's words. */
async function post(url, body) {
  try {
    const response = await fetch(url, { method: "POST", body, headers: { Accept: "application/json" } });
    if (response.status === 401 || response.status === 403) return { failure: NOT_ALLOWED };
    const { detail } = await response.json();
    return response.ok ? { failure: null, words: detail } : { failure: detail };
  } catch {
    return { failure: NO_ANSWER };
  }
}

let toastTimer = 0;

/** Confirm what the operator did. Errors don't belong here: they stand where they arose. */
function toast(text) {
  const box = document.getElementById("toast");
  if (!box) return;
  setText(box, text);
  box.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => {
    box.hidden = true;
  }, TOAST_MS);
}
