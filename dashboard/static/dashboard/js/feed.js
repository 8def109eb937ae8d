// The feed of events, newest first. A heading parts the days.

import { element, icon } from "./dom.js";
import { day, seconds } from "./format.js";
import { when } from "./moment.js";
import { describeEvent } from "./words.js";

const MAX_EVENTS = 200;

export class Feed {
  /** `list` shows what happened to publishers, or with `plays` to one player. */
  constructor(list, none, plays = false) {
    this.plays = plays;
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
    for (const event of events)
      this.events.set(`${event.session_id} ${event.sequence}`, { ...event, at: seconds(event.at) });
    const sorted = [...this.events.values()]
      .sort((a, b) => b.at - a.at || b.sequence - a.sequence)
      .slice(0, MAX_EVENTS);
    this.events = new Map(sorted.map((event) => [`${event.session_id} ${event.sequence}`, event]));
    this.none.hidden = sorted.length > 0;
    const today = day(Date.now() / 1000);
    let shownDay = today;
    const rows = [];
    for (const event of sorted) {
      const on = day(event.at);
      if (on !== shownDay) rows.push(element("li", { class: "day" }, on));
      shownDay = on;
      rows.push(this.row(event));
    }
    this.list.replaceChildren(...rows);
  }

  row(event) {
    const { text, code, icon: name, classes } = describeEvent(event, this.plays);
    return element(
      "li",
      { "data-event": event.kind, "data-level": event.level || null },
      when(event.at),
      icon(name, classes),
      element("span", {}, `${text} `, element("code", {}, code)),
    );
  }
}
