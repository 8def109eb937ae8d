// Refused connections come in while the page is open: the socket says that there are some, the rows come from the server.

import { openDialog } from "./actions.js";
import { LinkView, LiveSocket, retryWith } from "./connection.js";
import { pageData, setText } from "./dom.js";
import { refreshParts, throttle } from "./refresh.js";
import { seeRefused, showRefusedCount } from "./refused.js";

// Until the row of what was refused just now is written: mostly, and on a busy server.
const SOON_MS = 400;
const LATE_MS = 4000;
const AGAIN_MS = 15000; // For what a lost message would have brought, and for the ages of the rows.
const ANNOUNCE_MS = 4000;

const bootstrap = pageData("bootstrap");
const link = new LinkView();
const refreshSoon = throttle(() => refreshParts(["attempts", "counted"]), SOON_MS, LATE_MS);

/* ---- what is read out: the latest, and how many came with it ---- */

let unannounced = 0;
let announcedAt = -ANNOUNCE_MS;
function announce(attempt) {
  unannounced += attempt.count;
  if (performance.now() - announcedAt < ANNOUNCE_MS) return;
  announcedAt = performance.now();
  const words = `Refused: ${attempt.description || attempt.reason} From ${attempt.address || "an unknown address"}.`;
  setText(document.getElementById("announce"), unannounced > 1 ? `${unannounced} connections refused. ${words}` : words);
  unannounced = 0;
}

function onMessage(message) {
  link.received(message.at);
  // Whoever reads older pages is left alone.
  if (!bootstrap.live) return;
  seeRefused(message.at);
  showRefusedCount(0);
  refreshSoon();
  if (message.kind === "attempt") announce(message);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-lift]");
  if (!button) return;
  document.getElementById("lift-form").elements.address.value = button.dataset.lift;
  setText(
    document.getElementById("lift-words"),
    `${button.dataset.lift} can connect again, on each node within 2 s. Correct the keys in use there first, or it is banned again.`,
  );
  openDialog("lift");
});

if (bootstrap.live) setInterval(refreshSoon, AGAIN_MS);
const socket = new LiveSocket(bootstrap.ws, { onMessage, onState: (state) => link.show(state) });
retryWith(link, socket);
