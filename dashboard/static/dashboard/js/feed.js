// The feed of events, newest first. A heading parts the days.

import { element, icon } from "./dom.js";
import { day, seconds, time } from "./format.js";
import { describeEvent } from "./words.js";

const MAX_EVENTS = 200;

export class Feed {
  constructor(list, none) {
    this.list = list;
    this.none = none;
    this.events = new Map();
  }

  add(events) {
    for (const event of events) this.events.set(`${event.session_id} ${event.sequence}`, { ...event, at: seconds(event.at) });
    const sorted = [...this.events.values()].sort((a, b) => b.at - a.at || b.sequence - a.sequence).slice(0, MAX_EVENTS);
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
    const { text, code, icon: name, classes } = describeEvent(event);
    return element("li", { "data-event": event.kind, "data-level": event.level || null },
      element("time", { datetime: new Date(event.at * 1000).toISOString() }, time(event.at)), icon(name, classes), element("span", {}, `${text} `, element("code", {}, code)));
  }
}
