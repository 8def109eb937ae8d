// The history page: the chart of the bitrate by hour or day with its marks, and the progress of a run that is going on.

import { ChartGroup } from "./charts.js";
import { pageData } from "./dom.js";
import { axisOptions, listenToChoice, listenToTable } from "./historychart.js";

const POLL_MS = 1000;

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
  const known = (value) => (value === null ? undefined : value);
  const group = new ChartGroup();
  const chart = group.add(figure, {
    ...axisOptions(data),
    stroke: "--median",
    limits: { warnBelow: known(data.warnBelow), badBelow: known(data.badBelow) },
    dashed: data.target,
  });
  const { times, p5, p50, p95 } = spread(data);
  const range = [data.from, data.from + data.step * data.p50.length];
  const marks = data.marks.filter((mark) => mark.is_line).map(({ at }) => ({ at }));
  chart.show({ times, values: p50, low: p5, high: p95, range, marks });
  listenToHappenings(group, times);
}

/** What happened, pressed in the list, is pointed at in the chart. */
function listenToHappenings(group, times) {
  const nearest = (at) =>
    times.reduce((best, time, index) => (Math.abs(time - at) < Math.abs(times[best] - at) ? index : best), 0);
  for (const button of document.querySelectorAll("#happenings [data-at]")) {
    button.addEventListener("click", () => {
      document.getElementById("bitrate").scrollIntoView({ block: "nearest" });
      group.moveTo(nearest(Number(button.dataset.at)));
    });
  }
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
listenToChoice();
listenToTable();
follow();
