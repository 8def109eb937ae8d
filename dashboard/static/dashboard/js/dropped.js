// The strip of streams that dropped in the last 15 minutes, from the sessions that the API lists.

import { element, icon, setText } from "./dom.js";
import { duration, time } from "./format.js";
import { when } from "./moment.js";
import { throttle } from "./refresh.js";
import { END_WORDS } from "./words.js";

const WINDOW_S = 15 * 60;
const MAX_ITEMS = 12;
const REFRESH_MS = 60000;
// The session's end is written after its stream went: soon, or when the database is less busy.
const SOON_MS = 1500;
const LATE_MS = 6000;

export class DroppedStrip {
  /** `url` lists publishing sessions, newest first; null where the user may not see them. */
  constructor(section, url, sessionUrl) {
    this.section = section;
    this.list = section.querySelector("ul");
    this.url = url;
    this.sessionUrl = sessionUrl;
    this.items = [];
    this.refreshSoon = throttle(() => this.refresh(), SOON_MS, LATE_MS);
    this.signature = "";
    if (url)
      setInterval(() => {
        if (!document.hidden) this.refresh();
      }, REFRESH_MS);
  }

  async refresh() {
    if (!this.url) return;
    try {
      const response = await fetch(this.url, { headers: { Accept: "application/json" } });
      if (!response.ok) return;
      const { items } = await response.json();
      this.items = items
        .filter((session) => session.ended_at)
        .map((session) => ({ ...session, at: Date.parse(session.ended_at) / 1000 }));
    } catch {
      // The link's banner says that the server is away; the strip keeps what it knew.
    }
  }

  /** One item for each stream, its latest end; `liveStream(path)` is what is on air now. */
  paint(now, liveStream) {
    const latest = new Map();
    for (const item of this.items) {
      const path = `${item.app}/${item.name}`;
      if (item.at > now - WINDOW_S && !(latest.get(path)?.at > item.at)) latest.set(path, item);
    }
    const shown = [...latest.values()].sort((a, b) => b.at - a.at).slice(0, MAX_ITEMS);
    this.section.hidden = shown.length === 0;
    const signature = shown.map((item) => item.id).join();
    if (signature !== this.signature) {
      this.signature = signature;
      this.list.replaceChildren(...shown.map((item) => this.row(item)));
    }
    shown.forEach((item, index) => {
      const stream = liveStream(`${item.app}/${item.name}`);
      const back = stream?.state === "live" && stream.since !== null;
      const row = this.list.children[index].lastElementChild;
      const state = back ? "back" : "off";
      if (row.dataset.state !== state) {
        row.dataset.state = state;
        row.replaceChildren(icon(back ? "good" : "bad", back ? "w-good" : "w-bad"), " ", element("span"));
      }
      setText(
        row.lastElementChild,
        back ? `Back after ${duration(Math.max(0, stream.since - item.at))}` : `Off for ${duration(now - item.at)}`,
      );
    });
  }

  row(item) {
    return element(
      "li",
      { "data-dropped": `${item.app}/${item.name}` },
      element(
        "div",
        { class: "row" },
        element("a", { class: "clip", href: this.sessionUrl(item.id) }, `${item.app}/${item.name}`),
        when(item.at, time(item.at), "dim"),
      ),
      element("span", { class: "sub clip" }, END_WORDS[item.end_reason] ?? "Ended"),
      element("span", { class: "nowrap" }),
    );
  }
}
