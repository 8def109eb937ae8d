// The history page: the chart of the bitrate by hour or day, and the progress of a run that is going on.

import { ChartGroup } from "./charts.js";
import { pageData } from "./dom.js";
import { day, time } from "./format.js";

const POLL_MS = 1000;
const DAY_S = 86400;

/** A value for each slot becomes one at its middle, and at the outer edges of each run: an hour alone is a short line. */
export function spread({ from, step, p5, p50, p95 }) {
  const out = { times: [], p5: [], p50: [], p95: [] };
  const put = (at, index) => {
    out.times.push(at);
    out.p5.push(index === null ? null : p5[index]);
    out.p50.push(index === null ? null : p50[index]);
    out.p95.push(index === null ? null : p95[index]);
  };
  p50.forEach((value, index) => {
    const start = from + index * step;
    if (value === null) {
      put(start + step / 2, null);
      return;
    }
    if (index === 0 || p50[index - 1] === null) put(start, index);
    put(start + step / 2, index);
    if (index === p50.length - 1 || p50[index + 1] === null) put(start + step - 1, index);
  });
  return out;
}

function drawChart() {
  const figure = document.getElementById("bitrate");
  if (!figure) return;
  const data = pageData("chart-data");
  const byDay = data.step >= DAY_S;
  const slot = (at) => Math.floor(at / data.step) * data.step;
  const known = (value) => (value === null ? undefined : value);
  const chart = new ChartGroup().add(figure, {
    unit: "kbit/s",
    ticks: 4,
    axis: true,
    stroke: "--median",
    nowWord: byDay ? "last day" : "last hour",
    tick: (at, step) => (step >= DAY_S || at % DAY_S === 0 ? day(at) : time(at).slice(0, 5)),
    moment: (at) => (byDay ? day(slot(at)) : `${day(slot(at))}, ${time(slot(at)).slice(0, 5)}`),
    limits: { warnBelow: known(data.warnBelow), badBelow: known(data.badBelow) },
    dashed: data.target,
  });
  const { times, p5, p50, p95 } = spread(data);
  chart.show({ times, values: p50, low: p5, high: p95, range: [data.from, data.from + data.step * data.p50.length] });
}

/** While a run goes on, its part of the page is fetched each second; when it has ended, the page with its results. */
async function follow() {
  const run = document.getElementById("run");
  if (!run?.dataset.active) return;
  try {
    const response = await fetch(run.dataset.progress, { headers: { Accept: "text/html" } });
    if (response.ok && !response.redirected) {
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("run");
      if (!fresh.dataset.active) {
        location.reload();
        return;
      }
      if (fresh.innerHTML !== run.innerHTML) run.replaceChildren(...document.adoptNode(fresh).childNodes);
    }
  } catch {
    // The server is away; what is shown stays, and it is asked again.
  }
  setTimeout(follow, POLL_MS);
}

drawChart();
document
  .querySelectorAll("#choice select")
  .forEach((select) => select.addEventListener("change", () => select.form.requestSubmit()));
follow();
