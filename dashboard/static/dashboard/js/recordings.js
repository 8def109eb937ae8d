// Recordings: the filters, and the dialog that asks before one is deleted.

import { openDialog } from "./dialog.js";
import { setText } from "./dom.js";
import { refreshParts } from "./refresh.js";

const REFRESH_MS = 5000;

// Whoever reads older pages is left alone.
if (!new URLSearchParams(location.search).get("page")) setInterval(() => refreshParts(["recordings"]), REFRESH_MS);
document
  .querySelectorAll("#filters select, #filters input[type=date]")
  .forEach((field) => field.addEventListener("change", () => field.form.requestSubmit()));

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-delete]");
  if (!button) return;
  const form = document.getElementById("delete-form");
  form.action = button.dataset.delete;
  form.elements.note.value = "";
  setText(document.getElementById("delete-what"), button.dataset.what);
  openDialog("delete");
});
