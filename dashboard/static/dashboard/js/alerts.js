// Alerts and deliveries: what the server renders is brought up to date, and filters apply as they are chosen.

import { refreshParts } from "./refresh.js";

const REFRESH_MS = 5000;

// Whoever reads older pages is left alone.
if (!new URLSearchParams(location.search).get("page")) {
  setInterval(() => refreshParts(["open", "rules", "webhooks", "over", "deliveries"]), REFRESH_MS);
}
document
  .querySelectorAll("#filters select")
  .forEach((field) => field.addEventListener("change", () => field.form.requestSubmit()));
