// Refused attempts come in while the page is open.

import { refreshParts } from "./refresh.js";

const REFRESH_MS = 3000;

// Whoever reads older pages is left alone.
if (!new URLSearchParams(location.search).get("page")) setInterval(() => refreshParts(["attempts"]), REFRESH_MS);
document
  .querySelectorAll("#filters select")
  .forEach((select) => select.addEventListener("change", () => select.form.requestSubmit()));
