// The archive of reports: a choice filters at once, and the dialog is shown again with what was wrong.

import { openDialog } from "./dialog.js";

document
  .querySelectorAll("#filters select")
  .forEach((select) => select.addEventListener("change", () => select.form.requestSubmit()));
if (document.querySelector("#make[data-open]")) openDialog("make");
