// The sparkline of a card: bitrate of the last 60 s, standing on its health line. Drawn by SVG attributes only.

import { GAP_S } from "./chartscale.js";
import { svg } from "./dom.js";

const WIDTH = 60; // One unit a second.
const HEIGHT = 40;
const BASE = 31; // Where the bitrate's zero is; below it is the health line.
const HEADROOM = 1.35; // The top of the scale, as a multiple of the target.
// Trouble stands up: the worse, the taller.
const TALL = { good: 1.5, warning: 3.5, bad: 6, none: 1 };
const CLASSES = { good: "f-good", warning: "f-warn", bad: "f-bad", none: "h-none" };

export const SPAN_S = WIDTH;

export class Sparkline {
  constructor(host) {
    this.host = host;
    host.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    host.setAttribute("preserveAspectRatio", "none");
    this.target = svg("path", { class: "target" });
    this.area = svg("path", { class: "area" });
    this.line = svg("path", { class: "line" });
    this.lanes = Object.fromEntries(
      Object.entries(CLASSES).map(([name, classes]) => [name, svg("path", { class: classes })]),
    );
    host.replaceChildren(this.target, this.area, this.line, ...Object.values(this.lanes));
  }

  /** `points` are {at, kbps, health}, oldest first; `now` is the right edge. */
  draw(points, now, targetKbps) {
    const { line, area, target, lanes } = sparkPaths(points, now, targetKbps);
    this.line.setAttribute("d", line);
    this.area.setAttribute("d", area);
    this.target.setAttribute("d", target);
    for (const [name, path] of Object.entries(this.lanes)) path.setAttribute("d", lanes[name]);
  }
}

/** The paths of a sparkline, each as an SVG path's `d`: {line, area, target, lanes: {good, warning, bad, none}}. */
export function sparkPaths(points, now, targetKbps) {
  const start = now - SPAN_S;
  const highest = points.reduce((top, point) => Math.max(top, point.kbps ?? 0), 0);
  const top = Math.max((targetKbps ?? 0) * HEADROOM, highest * 1.1, 1);
  const x = (at) => Math.max(0, Math.min(WIDTH, at - start)).toFixed(1);
  const y = (kbps) => (BASE - (Math.min(kbps, top) / top) * (BASE - 2)).toFixed(1);
  let line = "";
  let area = "";
  let last = null;
  const lanes = { good: "", warning: "", bad: "", none: "" };
  points.forEach((point, index) => {
    const next = points[index + 1];
    const until = Math.min(now, next ? (next.at - point.at > GAP_S ? point.at + 1 : next.at) : point.at + 1);
    const tall = TALL[point.health] ?? TALL.none;
    lanes[point.health in lanes ? point.health : "none"] +=
      `M${x(point.at)} ${HEIGHT}V${HEIGHT - tall}H${x(until)}V${HEIGHT}Z`;
    if (point.kbps === null || point.kbps === undefined) {
      if (last) area += `L${x(last.at)} ${BASE}Z`;
      last = null;
      return;
    }
    if (!last || point.at - last.at > GAP_S) {
      if (last) area += `L${x(last.at)} ${BASE}Z`;
      line += `M${x(point.at)} ${y(point.kbps)}`;
      area += `M${x(point.at)} ${BASE}L${x(point.at)} ${y(point.kbps)}`;
    } else {
      line += `L${x(point.at)} ${y(point.kbps)}`;
      area += `L${x(point.at)} ${y(point.kbps)}`;
    }
    last = point;
  });
  if (last) area += `L${x(last.at)} ${BASE}Z`;
  return { line, area, target: targetKbps ? `M0 ${y(targetKbps)}H${WIDTH}` : "", lanes };
}
