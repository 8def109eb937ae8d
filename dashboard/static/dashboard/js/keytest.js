// An operator's page of a key's test: asked for each second while the page is looked at.

import { say, showRefusals, showSteps, showWhether } from "./checklist.js";
import { pageData } from "./dom.js";

const EACH_MS = 1000;
const WHOSE = {
  key: "This key or stream, from ",
  address: "From your own address, ",
  perhaps: "Perhaps your encoder, as it names no stream that is known: from ",
};

const boot = pageData("boot");

async function poll() {
  if (!document.hidden) {
    try {
      const response = await fetch(boot.url, { headers: { Accept: "application/json" }, cache: "no-store" });
      if (response.status === 401 || response.status === 403)
        return say("You are logged out, or your role was changed. Load the page again.");
      if (response.ok) update(await response.json());
    } catch {
      say("The server does not answer. What is shown may have changed.");
    }
  }
  setTimeout(poll, EACH_MS);
}

function update(progress) {
  showSteps(document.getElementById("steps"), progress.steps);
  showRefusals(progress.refusals, WHOSE);
  showWhether({ publishes: progress.session_id && !progress.is_over, isOver: progress.is_over });
  if (!progress.session_id) say(`Waiting for ${lasted(progress.at - boot.since)}. This list fills by itself.`);
  else say(progress.is_over ? "Start streaming again, and the list starts over." : "This list goes on by itself.");
}

function lasted(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

poll();
