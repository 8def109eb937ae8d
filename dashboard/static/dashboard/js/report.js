// A report's page: printing, what became of its e-mails, and the dialog that is shown again with what was wrong.

import { openDialog } from "./dialog.js";
import { refreshParts } from "./refresh.js";

const REFRESH_MS = 5000;

document.getElementById("print").addEventListener("click", () => print());
if (document.querySelector("#mail[data-open]")) openDialog("mail");
if (document.querySelector("#deliveries [data-state=waiting], #deliveries [data-state=sending]")) {
  setInterval(() => refreshParts(["deliveries"]), REFRESH_MS);
}
