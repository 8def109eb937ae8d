// What people do to a stream (kick, note, mute, acknowledge): forms that are sent without leaving the page. What went
// wrong stands in the form; what was done, in a toast.

import { openDialog, toast } from "./dialog.js";
import { setText } from "./dom.js";

const NO_ANSWER = "The server did not answer. It may have been done all the same: load the page again before you try.";
const NOT_ALLOWED = "Your role doesn’t allow this, or you are logged out. Load the page again.";

/** Every form with data-act, now or later. One with data-done says that instead of the server's own words. */
export function listenActs() {
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

/** Opens a dialog's form with these values, and without what went wrong before. */
export function openForm(id, values) {
  const form = document.querySelector(`#${id} form`);
  for (const [name, value] of Object.entries(values)) form.elements[name].value = value;
  form.querySelector(".err").hidden = true;
  openDialog(id);
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

/** Of the page's forms, for requests that no form makes. */
export const csrfToken = () => document.querySelector("[name=csrfmiddlewaretoken]").value;
