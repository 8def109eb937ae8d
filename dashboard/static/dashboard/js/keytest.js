// The checklist of an encoder that is being tried out: asked for each second while the page is looked at.

import { element, icon, pageData, setAttribute, setText } from "./dom.js";
import { when } from "./format.js";

const EACH_MS = 1000;
const ICONS = { wait: "none", good: "good", warn: "warn", bad: "bad" };
const STATE_WORDS = { wait: "Waiting: ", good: "Done: ", warn: "Look at this: ", bad: "Failed: " };
const WHOSE = {
  key: "This key or stream, from ",
  address: "From your own address, ",
  perhaps: "Perhaps your encoder, as it names no stream that is known: from ",
};

const boot = pageData("boot");
const steps = document.getElementById("steps");
let shown = "";

async function poll() {
  if (!document.hidden) {
    try {
      const response = await fetch(boot.url, { headers: { Accept: "application/json" }, cache: "no-store" });
      if (response.status === 401 || response.status === 403) return waited("You are logged out, or your role was changed. Load the page again.");
      if (response.ok) update(await response.json());
    } catch {
      waited("The server does not answer. What is shown may have changed.");
    }
  }
  setTimeout(poll, EACH_MS);
}

function update(progress) {
  for (const step of progress.steps) {
    const line = steps.querySelector(`[data-step="${step.id}"]`) ?? append(step.id);
    if (line.dataset.state !== step.state) {
      line.querySelector(".mark").replaceChildren(
        icon(ICONS[step.state]),
        element("span", { class: "vh" }, STATE_WORDS[step.state]),
      );
      setAttribute(line, "data-state", step.state);
    }
    setText(line.querySelector("b"), step.title);
    setText(line.querySelector(".sub"), step.words);
  }
  showRefusals(progress.refusals);
  const waits = document.getElementById("waits");
  const publishes = progress.session_id && !progress.is_over;
  setAttribute(waits, "class", publishes ? "chip good" : "chip none");
  setAttribute(waits.querySelector("use"), "href", publishes ? "#i-good" : "#i-none");
  const chip = waits.querySelector("span");
  if (progress.is_over) setText(chip, "The encoder has stopped");
  else setText(chip, progress.session_id ? "Your encoder publishes" : "Waiting for your encoder");
  if (!progress.session_id) waited(`Waiting for ${lasted(progress.at - boot.since)}. This list fills by itself.`);
  else waited(progress.is_over ? "Start streaming again, and the list begins anew." : "This list goes on by itself.");
}

function append(id) {
  const line = element("li", { "data-step": id, "data-state": "" }, element("span", { class: "mark" }),
    element("span", {}, element("b"), " ", element("span", { class: "sub" })));
  steps.append(line);
  return line;
}

function showRefusals(refusals) {
  const text = JSON.stringify(refusals);
  if (text === shown) return;
  shown = text;
  document.getElementById("no-refusals").hidden = refusals.length > 0;
  document.getElementById("refusals").hidden = refusals.length === 0;
  document.getElementById("refusals").replaceChildren(...refusals.map(refusal));
}

function refusal(each) {
  const times = each.count > 1 ? element("span", { class: "sub" }, ` ×${each.count}`) : null;
  return element("li", { "data-whose": each.whose, "data-reason": each.reason },
    when(each.at), icon("ban"),
    element("span", { class: "rej told" },
      element("b", {}, each.words, times),
      element("span", { class: "sub" }, each.advice),
      element("span", { class: "sub" }, `${WHOSE[each.whose]}${each.address || "an unknown address"}${each.encoder ? `, by ${each.encoder}` : ""}.`),
      element("code", {}, each.reason)));
}

const waited = (words) => setText(document.getElementById("waited"), words);

function lasted(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

poll();
