// Keys and test links: forms that make one show its secret in a dialog, once. It is in the dialog alone: closing it takes
// it out of the page, and is asked about while nothing was copied.

import { closeDialog, openDialog } from "./actions.js";
import { setText } from "./dom.js";
import { refreshParts } from "./refresh.js";

const made = document.getElementById("made");

let secret = ""; // What is shown and was not copied yet.

const part = (name) => made.querySelector(`[data-part=${name}]`);

function ask(whether) {
  part("ask").hidden = !whether;
  part("shown").hidden = whether;
  made.querySelector(whether ? "[data-made=back]" : "h2").focus();
}

function noteCopied(text) {
  if (!secret || !text.includes(secret)) return;
  secret = "";
  if (!part("ask").hidden) ask(false);
}

function warn(event) {
  if (secret) event.preventDefault();
}

made?.addEventListener("cancel", (event) => {
  if (!secret) return;
  event.preventDefault();
  ask(part("ask").hidden); // Asked already: Esc leads back.
});
made?.addEventListener("close", () => {
  if (secret) {
    openDialog("made"); // Browsers let nobody hold a dialog against a second Esc.
    return ask(true);
  }
  made.replaceChildren();
  removeEventListener("beforeunload", warn);
  if (made.dataset.leave) location.reload(); // The page of the key that was rotated is of another now.
});
made?.addEventListener("copied", (event) => noteCopied(event.detail));
made?.addEventListener("copy", () => noteCopied(getSelection().toString()));
made?.addEventListener("click", (event) => {
  const choice = event.target.closest("[data-made]")?.dataset.made;
  if (choice === "back") ask(false);
  if (choice === "leave") {
    secret = "";
    closeDialog(made);
  }
});

document.querySelectorAll("form[data-makes-key]").forEach((form) => form.addEventListener("submit", (event) => {
  event.preventDefault();
  make(form);
}));

async function make(form) {
  const button = form.querySelector("button[type=submit]");
  button.disabled = true;
  clearErrors(form);
  try {
    const response = await fetch(form.action, {
      method: "POST",
      body: new FormData(form),
      cache: "no-store",
      headers: { "X-Requested-With": "fetch", Accept: "text/html" },
    });
    if (response.status === 201) show(form, await response.text());
    else if (response.status === 422) showErrors(form, (await response.json()).errors);
    else if (response.status === 403) fail(form, "Your role doesn’t allow this, or you are logged out. Load the page again.");
    else fail(form, "The server could not do this. Check whether the key is in the list before you try again.");
  } catch {
    fail(form, "The server did not answer. Check whether the key is in the list before you try again.");
  } finally {
    button.disabled = false;
  }
}

function show(form, markup) {
  form.closest("dialog").close();
  form.reset();
  const page = new DOMParser().parseFromString(markup, "text/html");
  made.replaceChildren(...document.adoptNode(page.body).childNodes);
  if (form.closest("#rotate")) made.dataset.leave = "1";
  secret = made.querySelector("[data-secret]")?.textContent.trim() ?? ""; // What can be made again has none.
  addEventListener("beforeunload", warn);
  openDialog("made");
  made.querySelector("h2").focus();
  refreshParts(["list", "counted", "links"]);
}

/** What is wrong stands at its field; of the whole, above them. */
function showErrors(form, errors) {
  const general = [];
  for (const [name, words] of Object.entries(errors)) {
    const field = form.elements[name];
    if (!field) {
      general.push(...words);
      continue;
    }
    const note = document.createElement("p");
    note.className = "err";
    note.id = `${field.id}-error`;
    note.textContent = words.join(" ");
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-errormessage", note.id);
    field.after(note);
  }
  if (general.length) fail(form, general.join(" "));
  form.querySelector("[aria-invalid]")?.focus();
}

function clearErrors(form) {
  form.querySelectorAll(".err").forEach((note) => note.remove());
  form.querySelectorAll("[aria-invalid]").forEach((field) => field.removeAttribute("aria-invalid"));
  form.querySelector("[data-error]").hidden = true;
}

function fail(form, words) {
  const banner = form.querySelector("[data-error]");
  setText(banner.querySelector("span"), words);
  banner.hidden = false;
}
