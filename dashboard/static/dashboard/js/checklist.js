// The checklist of an encoder that is being tried out, and what was refused: on the operator's page and on the streamer's.

import { element, icon, setAttribute, setText } from "./dom.js";
import { when } from "./format.js";

const ICONS = { wait: "none", good: "good", warn: "warn", bad: "bad" };
const STATE_WORDS = { wait: "Waiting: ", good: "Done: ", warn: "Check this: ", bad: "Failed: " };

let shown = "";

/** `list`: an ol, whose lines are made as they come. */
export function showSteps(list, steps) {
  for (const step of steps) {
    const line = list.querySelector(`[data-step="${step.id}"]`) ?? append(list, step.id);
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
}

function append(list, id) {
  const line = element("li", { "data-step": id, "data-state": "" }, element("span", { class: "mark" }),
    element("span", {}, element("b"), " ", element("span", { class: "sub" })));
  list.append(line);
  return line;
}

/** `whose`: {each kind of `whose`: the words before its address}. In #refusals; without any, #no-refusals is there. */
export function showRefusals(refusals, whose) {
  const text = JSON.stringify(refusals);
  if (text === shown) return;
  shown = text;
  document.getElementById("no-refusals").hidden = refusals.length > 0;
  document.getElementById("refusals").hidden = refusals.length === 0;
  document.getElementById("refusals").replaceChildren(...refusals.map((each) => refusal(each, whose)));
}

function refusal(each, whose) {
  const times = each.count > 1 ? element("span", { class: "sub" }, ` ×${each.count}`) : null;
  const by = each.encoder ? `, by ${each.encoder}` : "";
  return element("li", { "data-whose": each.whose, "data-reason": each.reason },
    when(each.at), icon("ban"),
    element("span", { class: "rej told" },
      element("b", {}, each.words, times),
      element("span", { class: "sub" }, each.advice),
      element("span", { class: "sub" }, `${whose[each.whose]}${each.address || "an unknown address"}${by}.`),
      element("code", {}, each.reason)));
}

/** In #waits, whether an encoder publishes. `progress` has `publishes` and `is_over`. */
export function showWhether({ publishes, isOver }) {
  const waits = document.getElementById("waits");
  setAttribute(waits, "class", publishes ? "chip good" : "chip none");
  setAttribute(waits.querySelector("use"), "href", publishes ? "#i-good" : "#i-none");
  setText(
    waits.querySelector("span"),
    isOver ? "The encoder has stopped" : publishes ? "Your encoder publishes" : "Waiting for your encoder",
  );
}

export const say = (words) => setText(document.getElementById("waited"), words);
