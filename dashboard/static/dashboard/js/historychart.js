// What the pages of history share: the words of a chart's time axis, the table instead of it, the form of choices.

import { day, time, utcDay } from "./format.js";
import { offset } from "./zone.js";

const DAY_S = 86400;

/** Options of a Chart whose points are hours or days, which are of UTC. `data`: from and step, in seconds. */
export function axisOptions({ from, step }) {
  const byDay = step >= DAY_S;
  const slot = (at) => from + Math.floor((at - from) / step) * step;
  return {
    unit: "kbit/s",
    ticks: 4,
    axis: true,
    nowWord: byDay ? "last day" : "last hour",
    utc: byDay,
    tick: (at, apart) => {
      if (byDay) return utcDay(at);
      return apart >= DAY_S || (at + offset(at)) % DAY_S === 0 ? day(at) : time(at).slice(0, 5);
    },
    moment: (at) => (byDay ? utcDay(slot(at)) : `${day(slot(at))}, ${time(slot(at)).slice(0, 5)}`),
  };
}

/** The button that shows the table in the plots' place. */
export function listenToTable() {
  const button = document.getElementById("table-toggle");
  button?.addEventListener("click", () => {
    const asTable = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(asTable));
    document.getElementById("plots").hidden = asTable;
    document.getElementById("chart-table").hidden = !asTable;
  });
}

/**
 * A choice from a list shows the page anew at once; so does a stream that was typed and is one of the known. Where the
 * ranges have no room, the chosen one is in sight.
 */
export function listenToChoice() {
  const form = document.getElementById("choice");
  if (!form) return;
  form.querySelector(".seg [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  for (const select of form.querySelectorAll("select")) select.addEventListener("change", () => form.requestSubmit());
  const field = form.querySelector("input[list]");
  field?.addEventListener("change", () => {
    if ([...field.list.options].some((option) => option.value === field.value)) form.requestSubmit();
  });
}
