// Kick: sent from the dialog without leaving the page; what went wrong stands in the dialog.

import { toast } from "./dialog.js";
import { setText } from "./dom.js";

export function listenKick() {
  const form = document.getElementById("kick-form");
  if (!form) return;
  const dialog = document.getElementById("kick");
  const error = document.getElementById("kick-error");
  const button = document.getElementById("kick-submit");
  document.getElementById("kick-open").addEventListener("click", () => {
    error.hidden = true;
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    const failure = await send(form);
    button.disabled = false;
    error.hidden = failure === null;
    setText(error.querySelector("span"), failure ?? "");
    if (failure === null) {
      dialog.close();
      form.elements.note.value = "";
      toast("The publisher is being disconnected.");
    }
  });
}

/** null when the server took it, else why not. */
async function send(form) {
  try {
    const response = await fetch(form.action, {
      method: "POST",
      body: new FormData(form),
      headers: { Accept: "application/json" },
    });
    if (response.ok) return null;
    if (response.status === 403) return "Your role doesn’t allow this, or you are logged out. Load the page again.";
    const { detail } = await response.json();
    return detail;
  } catch {
    return "The server did not answer. The encoder may still be connected: look at the wall before trying again.";
  }
}
