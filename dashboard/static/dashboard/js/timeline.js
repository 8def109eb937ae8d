// A session's lanes above its charts: what state it was in, its health, what was sent, what operators did. Places are
// shares of the width, so that nothing is drawn anew when it changes.

import { element, svg } from "./dom.js";
import { describeEvent } from "./events.js";
import { count, duration, time } from "./format.js";
import { health } from "./health.js";

const HEIGHTS = { good: [24, 3], warning: [18, 9], bad: [8, 19], none: [24, 3] };
const WORDS_APART = 0.16; // Of the width: a word needs so much room up to the next.
const WORD = 0.08; // A word alone.
const RIGHT = 0.78; // From here on words stand to the left of their dot.
const MOST_DOTS = 60;
const SENTENCES = 3;

const percent = (share) => `${(Math.max(0, Math.min(1, share)) * 100).toFixed(3)}%`;

export class Timeline {
  constructor(host) {
    this.host = host;
    this.crosses = [];
    this.pins = [];
  }

  show(lanes) {
    const [from, to] = lanes.range;
    this.range = lanes.range;
    [this.crosses, this.pins] = [[], []];
    const share = (at) => (at - from) / (to - from);
    const rows = [
      this.lane("State", stateWords(lanes), this.states(lanes, share)),
      lanes.health.length ? this.lane("Health", healthWords(lanes), this.healths(lanes, share)) : null,
      this.lane("Status", dotWords(lanes.status), this.dots(lanes.status, share, "f-ink")),
      this.lane("Operator", dotWords(lanes.operator), this.dots(lanes.operator, share, "f-acc")),
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

  states({ state, range }, share) {
    return state.flatMap((span) => {
      const [x, width] = [share(span.from), share(span.to) - share(span.from)];
      const live = span.level === "live";
      const words = `${live ? "Live" : "No media"} for ${duration(span.to - span.from)}`;
      const bar = svg(
        "rect",
        { x: percent(x), width: percent(width), y: live ? 6 : 14, height: live ? 20 : 4, rx: live ? 4 : 0, class: live ? "f-tint" : "f-sunken" },
        svg("title", {}, `${words}, ${time(span.from)} to ${time(span.to)}`),
      );
      const room = width > WORDS_APART || state.length === 1 || range[1] - range[0] <= 0;
      return room && live ? [bar, svg("text", { class: "lt", x: percent(x), dx: 8, y: 20 }, words)] : [bar];
    });
  }

  healths({ health: spans }, share) {
    let lastWord = -1;
    return spans.flatMap((span) => {
      const { icon, word } = health(span.level);
      const [y, height] = HEIGHTS[span.level];
      const x = share(span.from);
      const bar = svg(
        "rect",
        { x: percent(x), width: percent(share(span.to) - x), y, height, class: `f-${icon}` },
        svg("title", {}, `${word}, ${time(span.from)} to ${time(span.to)}`),
      );
      const isNarrow = share(span.to) - x < WORD; // The next one's bar would stand on the word.
      if (span.level === "good" || isNarrow || (lastWord >= 0 && x - lastWord < WORDS_APART)) return [bar];
      lastWord = x;
      const left = x > RIGHT ? { "text-anchor": "end", dx: -6 } : {};
      const at = span.level === "bad" && x <= RIGHT ? { y: 6 } : { y: 13 };
      return [bar, svg("text", { class: "lt", x: percent(x), ...at, ...left }, word)];
    });
  }

  dots(events, share, style) {
    const line = svg("rect", { y: 15.5, width: "100%", height: 1, class: "f-line" });
    const shown = events.slice(-MOST_DOTS);
    return [
      line,
      ...shown.flatMap((event, index) => {
        const x = share(event.at);
        const { text } = describeEvent(event);
        const dot = svg(
          "circle",
          { cx: percent(x), cy: 16, r: 3.5, class: style },
          svg("title", {}, `${time(event.at)} ${text}`),
        );
        const right = x > RIGHT;
        const room = right
          ? x - (index > 0 ? share(shown[index - 1].at) : 0)
          : (index + 1 < shown.length ? share(shown[index + 1].at) : 1) - x;
        if (room < WORDS_APART) return [dot];
        const placed = right ? { "text-anchor": "end", dx: -9 } : { dx: 9 };
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
      const x = percent((at - this.range[0]) / (this.range[1] - this.range[0]));
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
    }
  }
}

const BRIEF = { "operator.note": "Note", "operator.ack": "Acknowledged", "operator.mute": "Silenced", "operator.unmute": "Silence lifted" };

// Statuses that are sent to encoders and players, in few words.
const STATUS_BRIEF = {
  "Publish.Start": "Publishing",
  "Publish.BadName": "Refused",
  "Publish.Failed": "Publishing failed",
  "Unpublish.Success": "Stopped",
  "Play.Start": "Playing",
  "Play.Stop": "Stopped",
  "Play.Complete": "Finished",
  "Play.Failed": "Playing failed",
  "Play.InsufficientBW": "Too slow",
  "Play.PublishNotify": "Live again",
  "Play.UnpublishNotify": "Off air",
  "Pause.Notify": "Paused",
  "Unpause.Notify": "Resumed",
  "Seek.Notify": "Seek",
  "Record.Start": "Recording",
  "Record.Stop": "Recording stopped",
};

/** Few words: of a status, or what an operator did and who. */
function brief(event) {
  if (event.kind.startsWith("operator."))
    return [BRIEF[event.kind] ?? event.kind, event.detail?.by ? `by ${event.detail.by}` : ""].filter(Boolean).join(" ");
  if (event.kind === "metadata") return "Encoder’s settings";
  if (event.kind !== "onstatus") return describeEvent(event).text;
  const code = event.code.replace(/^Net(Stream|Connection)\./, "");
  return STATUS_BRIEF[code] ?? code;
}

function stateWords({ state, open, end, range }) {
  const off = state.filter((span) => span.level === "off").length;
  const words = `on air from ${time(range[0])} to ${open ? "now" : time(range[1])}`;
  return [words, off ? `${count(off, "time")} without media` : "", end].filter(Boolean).join("; ");
}

function healthWords({ health: spans }) {
  const odd = spans.filter((span) => span.level !== "good");
  if (!odd.length) return "good all the time";
  const words = odd.slice(-SENTENCES).map((span) => `${health(span.level).word.toLowerCase()} ${time(span.from)} to ${time(span.to)}`);
  return (odd.length > SENTENCES ? "lately " : "") + words.join(", ");
}

function dotWords(events) {
  if (!events.length) return "none";
  const words = events.slice(-SENTENCES).map((event) => `${brief(event)} ${time(event.at)}`);
  return (events.length > SENTENCES ? `${events.length}, lately ` : "") + words.join(", ");
}
