// What happened to a stream or session, in words: why it ended, what arrived, what people did; and the feed of it.

import { element, icon, setText } from "./dom.js";
import { day, seconds, when } from "./format.js";

const MAX_EVENTS = 200;
const POINTED_S = 0.5; // A link's moment is a whole second.

export const END_WORDS = {
  client_unpublish: "Encoder stopped",
  completed: "Finished",
  unreadable: "Recording unreadable",
  unsupported_codec: "Codec not supported",
  tcp_reset: "Connection reset",
  idle_timeout: "Timed out",
  kicked: "Kicked by an operator",
  key_revoked: "Key revoked or disabled",
  replaced: "Replaced by another encoder",
  elsewhere: "Live on another node",
  protocol_error: "Protocol error",
  node_shutdown: "Server stopped",
  node_lost: "Server went down",
  lease_lost: "Ownership lost (other node)",
  too_slow: "Too slow",
  over_limit: "Over the key's bitrate limit",
  test_over: "Test finished",
};

/** Those that say something else of a player. */
const PLAYER_END_WORDS = { client_unpublish: "Player left", key_revoked: "Not allowed to play any more" };

/** What arrives, in few words: "1920 × 1080, H.264 and AAC". */
export function mediaWords(media) {
  const codecs = [media.video_codec, media.audio_codec].filter(Boolean).join(" and ");
  return [media.width ? `${media.width} × ${media.height}` : "", codecs].filter(Boolean).join(", ");
}

/** {text, code, icon, classes} of an event; `plays`: of a player's session. */
export function describeEvent(event, plays = false) {
  const [words, plainIcon] = EVENT_KINDS[event.kind] ?? [event.kind, "info"];
  const [icon, classes] = endedWithSession(event)
    ? ["out", ""]
    : ((event.kind === "health.cleared" ? null : LEVEL_LOOK[event.level]) ?? [
        plainIcon,
        plainIcon === "good" ? "w-good" : "",
      ]);
  return {
    text: (SENTENCES[event.kind] ?? plain)(event, words, plays),
    code: event.kind === "session.started" || event.kind.startsWith("operator.") ? event.kind : event.code || event.kind,
    icon,
    classes,
  };
}

const keyOf = (event) => `${event.session_id} ${event.sequence}`;

/** Add events to those that are known, and keep the latest ones: a map by session and sequence, the newest first. */
export function mergedEvents(known, events) {
  const merged = new Map(known);
  for (const event of events) merged.set(keyOf(event), { ...event, at: seconds(event.at) });
  const sorted = [...merged.values()].sort((a, b) => b.at - a.at || b.sequence - a.sequence).slice(0, MAX_EVENTS);
  return new Map(sorted.map((event) => [keyOf(event), event]));
}

/** The rows of a feed, each {event} or {day}: a heading stands before the events of each day except `today`. */
export function rowsByDay(events, today) {
  let shown = today;
  const rows = [];
  for (const event of events) {
    const on = day(event.at);
    if (on !== shown) rows.push({ day: on });
    shown = on;
    rows.push({ event });
  }
  return rows;
}

/** The place of the last event up to a moment, by the events' times, the newest first; -1 if there is none. */
export const placeAt = (times, at) => times.findIndex((time) => time <= at + POINTED_S);

/** The feed of events, newest first. A heading parts the days. */
export class Feed {
  /**
   * `list` shows what happened to publishers, or with `plays` to one player. `pageOf(event)`: where what was measured then
   * is shown; null: nowhere.
   */
  constructor(list, none, { plays = false, pageOf = () => null } = {}) {
    this.plays = plays;
    this.pageOf = pageOf;
    this.list = list;
    this.none = none;
    this.events = new Map();
    this.publishers = new Set();
  }

  /** The latest events of the latest publishers. */
  replace(events) {
    for (const event of events) this.publishers.add(event.session_id);
    this.add(events);
  }

  /** One that has just happened, to a publisher or to a player. `publisher` is the session on air. */
  push(event, publisher) {
    if (event.kind === "session.started" && event.code === "publish") this.publishers.add(event.session_id);
    if (event.session_id === publisher || this.publishers.has(event.session_id)) this.add([event]);
  }

  add(events) {
    this.events = mergedEvents(this.events, events);
    this.none.hidden = this.events.size > 0;
    const rows = rowsByDay(this.events.values(), day(Date.now() / 1000));
    this.list.replaceChildren(
      ...rows.map(({ event, day: on }) => (event ? this.row(event) : element("li", { class: "day" }, on))),
    );
  }

  /** Marks what happened at the moment, or last before it, and brings it into view within the list. */
  point(at) {
    const rows = [...this.list.querySelectorAll("[data-at]")];
    const found = at === null ? null : rows[placeAt(rows.map((row) => Number(row.dataset.at)), at)];
    for (const row of rows) row.toggleAttribute("data-pointed", row === found);
    const box = this.list.parentElement;
    if (found) box.scrollTop += found.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 3;
  }

  row(event) {
    const { text, code, icon: name, classes } = describeEvent(event, this.plays);
    const page = this.pageOf(event);
    return element(
      "li",
      { "data-event": event.kind, "data-level": event.level || null, "data-at": event.at },
      page ? element("a", { href: page, title: "What was measured then" }, when(event.at)) : when(event.at),
      icon(name, classes),
      element("span", {}, `${text} `, element("code", { class: "code" }, code)),
    );
  }
}

const lower = (text) => text[0].toLowerCase() + text.slice(1);

/* ---- codes (NetStream.Publish.Start, tcp_reset) stand beside their words for who wants them, on all pages ---- */

const CODES_KEY = "rtmpweb-codes";

function showCodes(shown) {
  document.documentElement.toggleAttribute("data-codes", shown);
  for (const button of document.querySelectorAll("[data-codes-toggle]")) {
    button.setAttribute("aria-pressed", String(shown));
    setText(button, shown ? "Hide codes" : "Show codes");
  }
}

/** Buttons with data-codes-toggle show and hide them; the browser remembers it. */
export function listenToCodes() {
  showCodes(localStorage.getItem(CODES_KEY) === "1");
  document.addEventListener("click", ({ target }) => {
    if (!target.closest("[data-codes-toggle]")) return;
    const shown = !document.documentElement.hasAttribute("data-codes");
    localStorage.setItem(CODES_KEY, shown ? "1" : "0");
    showCodes(shown);
  });
}

// An event's kind: what it says where the event itself brings no description, and its icon.
const EVENT_KINDS = {
  "session.started": ["Session started", "live"],
  "session.ended": ["Session ended", "out"],
  "publish.takeover": ["Another encoder took the stream over", "live"],
  "record.started": ["Recording started", "info"],
  "record.closed": ["Recording finished", "info"],
  "record.failed": ["Recording failed", "bad"],
  "health.opened": ["Issue opened", "warn"],
  "health.cleared": ["Issue resolved", "good"],
  "config.changed": ["The encoder changed its settings", "info"],
  "limit.breached": ["Over the key's bitrate limit", "bad"],
  metadata: ["Encoder's settings received", "info"],
  onstatus: ["Status sent", "info"],
  "push.live": ["Pushed", "out"],
  "push.failed": ["Push fails", "bad"],
  "push.stopped": ["Push ended", "out"],
  "operator.note": ["Note", "note"],
  "operator.ack": ["Issue acknowledged", "check"],
  "operator.mute": ["Alerts silenced", "mute"],
  "operator.unmute": ["Silence lifted", "mail"],
  "operator.kick": ["Encoder kicked", "kick"],
  "operator.push": ["Push started or stopped", "out"],
};

// Levels as the health checks and as onStatus name them.
const LEVEL_LOOK = {
  bad: ["bad", "w-bad"],
  error: ["bad", "w-bad"],
  warning: ["warn", "w-warn"],
  good: ["good", "w-good"],
};

// Of what people did.
const by = (event) => event.detail?.by || "Somebody";
const quoted = (event) => (event.description ? `: “${event.description}”` : ".");
const alertsOf = (event) => (event.code ? `the alerts of “${event.detail.name}”` : "all alerts");

// An issue that nobody mended: what had it is off air.
const endedWithSession = (event) => event.kind === "health.cleared" && event.detail?.by === "session.ended";
const plain = (event, words) => event.description || words;

// Kinds whose words come from more than their description.
const SENTENCES = {
  "session.ended": (event, words, plays) => {
    const why = (plays && PLAYER_END_WORDS[event.code]) || END_WORDS[event.code] || "for an unknown reason";
    return [`${words}: ${lower(why)}.`, event.description].filter(Boolean).join(" ");
  },
  "health.cleared": (event) =>
    `${endedWithSession(event) ? "Not fixed when the session ended" : "Resolved"}: ${lower(event.description || event.code)}`,
  "operator.note": (event) => `${by(event)}: “${event.description}”`,
  "operator.ack": (event) => `${by(event)} acknowledged: ${lower(event.detail.name)}${quoted(event)}`,
  "operator.mute": (event) => `${by(event)} silenced ${alertsOf(event)}${quoted(event)}`,
  "operator.unmute": (event) => `${by(event)} lifted the silence of ${alertsOf(event)}`,
  "push.live": (event) => `Pushed to ${event.description}`,
  "push.failed": (event) => `Not pushed to ${event.description}`,
  "push.stopped": (event) => `No longer pushed to ${event.description}`,
  "operator.push": (event) =>
    `${by(event)} ${event.code === "stop" ? "stopped" : "started"} the push to ${event.description}.`,
  "operator.kick": (event) => `${by(event)} kicked the encoder${quoted(event)}`,
  metadata: (event, words) => mediaWords(event.detail?.media ?? {}) || words,
};
