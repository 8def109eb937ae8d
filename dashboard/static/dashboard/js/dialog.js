// What buttons do by their data-do: "theme", "open:<dialog id>", "close", "copy:<element id>". Also the toast.

import { setText } from "./dom.js";
import { toggleTheme } from "./theme.js";

const COPIED_MS = 1600;
const TOAST_MS = 5000;
let toastTimer = 0;

/** Confirm what the operator did. Errors don't belong here: they stand where they arose. */
export function toast(text) {
  const box = document.getElementById("toast");
  if (!box) return;
  setText(box, text);
  box.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => {
    box.hidden = true;
  }, TOAST_MS);
}

export function openDialog(id) {
  const dialog = document.getElementById(id);
  if (dialog && !dialog.open) dialog.showModal();
}

/** The clipboard needs a secure context; without one the text is selected, to be copied by hand. */
async function copy(button, id) {
  const source = document.getElementById(id);
  const label = button.querySelector("span");
  const word = label.textContent;
  try {
    await navigator.clipboard.writeText(source.textContent.trim());
    setText(label, "Copied");
  } catch {
    getSelection().selectAllChildren(source);
    setText(label, "Selected");
  }
  setTimeout(() => setText(label, word), COPIED_MS);
}

const ACTS = {
  theme: toggleTheme,
  open: (_button, id) => openDialog(id),
  close: (button) => button.closest("dialog").close(),
  copy,
};

export function listen() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button) {
      const [act, argument] = button.dataset.do.split(":");
      ACTS[act]?.(button, argument);
    } else if (event.target instanceof HTMLDialogElement) {
      // A press on the backdrop hits the dialog itself, outside of its box.
      const box = event.target.getBoundingClientRect();
      const inside =
        event.clientX >= box.left &&
        event.clientX <= box.right &&
        event.clientY >= box.top &&
        event.clientY <= box.bottom;
      if (!inside) event.target.close();
    }
  });
}
