// Runs of the jobs: what goes on is shown as it goes on, since the server reads it from the database at each look.

import { refreshParts } from "./refresh.js";

const ACTIVE_MS = 1000;
const IDLE_MS = 10000;
const PARTS = ["acts", "places", "failed", "runs", "strips", "run", "log", "parts"]; // Of both pages; a page has some of them.

const isActive = () => document.querySelector(":is(#runs, #run) :is([data-state=queued], [data-state=running])") !== null;

async function follow() {
  await refreshParts(PARTS);
  setTimeout(follow, isActive() ? ACTIVE_MS : IDLE_MS);
}

setTimeout(follow, isActive() ? ACTIVE_MS : IDLE_MS);
