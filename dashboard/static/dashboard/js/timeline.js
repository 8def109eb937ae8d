// A session's lanes above its charts: what state it was in, its health, what was sent, what operators did. Places are
// shares of the width, so that nothing is drawn anew when it changes.

import { element, svg } from "./dom.js";
import { describeEvent } from "./events.js";
import { time } from "./format.js";
import { health } from "./health.js";
import { brief, dotPlaces, dotWords, healthPlaces, healthWords, percent, shareOf, statePlaces, stateWords } from "./lanes.js";

const HEIGHTS = { good: [24, 3], warning: [18, 9], bad: [8, 19], none: [24, 3] };

export class Timeline {
  constructor(host) {
    this.host = host;
    this.crosses = [];
    this.pins = [];
  }

  show(lanes) {
    this.range = lanes.range;
    [this.crosses, this.pins] = [[], []];
    const rows = [
      this.lane("State", stateWords(lanes), this.states(lanes)),
      lanes.health.length ? this.lane("Health", healthWords(lanes), this.healths(lanes)) : null,
      this.lane("Status", dotWords(lanes.status), this.dots(lanes.status, "f-ink")),
      this.lane("Operator", dotWords(lanes.operator), this.dots(lanes.operator, "f-acc")),
    ].filter(Boolean);
    this.host.replaceChildren(...rows.flat());
  }

  lane(name, words, shapes) {
    const [cross, pin] = ["cross", "pin"].map((style) => svg("line", { class: style, y1: 0, y2: 32, visibility: "hidden" }));
    const drawn = svg("svg", { role: "img", "aria-label": `${name}: ${words}` }, ...shapes, pin, cross);
    this.crosses.push(cross);
    this.pins.push(pin);
    return [
      element("span", {}, name, " ", element("small", { class: "only-s dim" }, words)),
      drawn,
    ];
  }

  states(lanes) {
    return statePlaces(lanes).flatMap(({ span, x, width, isLive, words, hasLabel }) => {
      const bar = svg(
        "rect",
        { x: percent(x), width: percent(width), y: isLive ? 6 : 14, height: isLive ? 20 : 4, rx: isLive ? 4 : 0, class: isLive ? "f-tint" : "f-sunken" },
        svg("title", {}, `${words}, ${time(span.from)} to ${time(span.to)}`),
      );
      return hasLabel ? [bar, svg("text", { class: "lt", x: percent(x), dx: 8, y: 20 }, words)] : [bar];
    });
  }

  healths(lanes) {
    return healthPlaces(lanes).flatMap(({ span, x, width, hasLabel, isLeft }) => {
      const { icon, word } = health(span.level);
      const [y, height] = HEIGHTS[span.level];
      const bar = svg(
        "rect",
        { x: percent(x), width: percent(width), y, height, class: `f-${icon}` },
        svg("title", {}, `${word}, ${time(span.from)} to ${time(span.to)}`),
      );
      if (!hasLabel) return [bar];
      const left = isLeft ? { "text-anchor": "end", dx: -6 } : {};
      const at = span.level === "bad" && !isLeft ? { y: 6 } : { y: 13 };
      return [bar, svg("text", { class: "lt", x: percent(x), ...at, ...left }, word)];
    });
  }

  dots(events, style) {
    const line = svg("rect", { y: 15.5, width: "100%", height: 1, class: "f-line" });
    return [
      line,
      ...dotPlaces(events, this.range).flatMap(({ event, x, hasLabel, isLeft }) => {
        const { text } = describeEvent(event);
        const dot = svg(
          "circle",
          { cx: percent(x), cy: 16, r: 3.5, class: style },
          svg("title", {}, `${time(event.at)} ${text}`),
        );
        if (!hasLabel) return [dot];
        const placed = isLeft ? { "text-anchor": "end", dx: -9 } : { dx: 9 };
        return [dot, svg("text", { class: "lt halo", x: percent(x), y: 20, ...placed }, brief(event))];
      }),
    ];
  }

  /** The crosshair of the charts, in every lane; null takes it away. */
  pointAt(at) {
    this.place(this.crosses, at);
  }

  /** The moment that stays marked, in every lane. */
  pin(at) {
    this.place(this.pins, at);
  }

  place(lines, at) {
    for (const line of lines) {
      line.setAttribute("visibility", at === null ? "hidden" : "visible");
      if (at === null) continue;
      const x = percent(shareOf(this.range)(at));
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
    }
  }
}
