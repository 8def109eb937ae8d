// Never pretend to be live: the badge in the rail, and the banner that says since when the figures are stale.

import { setAttribute, setText } from "./dom.js";
import { duration, time, timeWithUtc, utc, utcBeside } from "./format.js";
import { isUtc, offsetWords } from "./zone.js";

const WORDS = { connecting: "Connecting", live: "Live", stale: "Stale since" };
const LOST = "The connection to the server is lost; figures below are the last known.";
const REFUSED = {
  "logged-out": "You are logged out; figures below are the last known.",
  "not-allowed": "Your role no longer allows this page; figures below are the last known.",
  "no-stream": "The stream was removed; figures below are the last known.",
  "too-many": "Too many pages are open in this browser: close some, then load this one again.",
};

/** Shows a LiveSocket's state. Also keeps the server's clock: `now()` is its time, in seconds since the epoch. */
export class LinkView {
  constructor() {
    this.badges = [...document.querySelectorAll("[data-link]")];
    this.banner = document.getElementById("stale");
    this.state = { link: "connecting" };
    this.offset = 0;
    this.best = null;
    document.addEventListener("click", (event) => {
      if (event.target.closest("[data-do='reconnect']")) this.onRetry?.();
    });
    setInterval(() => this.paint(), 1000);
  }

  /** The time of the server, as far as its messages told it. It stands still while the figures are stale. */
  now() {
    if (this.state.link === "stale") return this.state.since;
    return Date.now() / 1000 + this.offset;
  }

  /** A message says `at`. The one that took the shortest way tells the offset best. */
  heard(at) {
    const offset = at - Date.now() / 1000;
    if (this.best === null || offset > this.best || Math.abs(offset - this.best) > 5) this.best = offset;
    this.offset = this.best;
    this.paint();
  }

  show(state) {
    this.state = state;
    document.documentElement.classList.toggle("stale-on", state.link === "stale");
    this.paint();
  }

  paint() {
    const { link, since, retryAt, refused } = this.state;
    const at = link === "stale" ? since : link === "live" ? this.now() : null;
    for (const badge of this.badges) {
      badge.dataset.link = link;
      setText(badge.querySelector("b"), WORDS[link]);
      const clock = badge.querySelector("time");
      setText(clock, at === null ? "" : `${time(at)} ${offsetWords(at)} ${utcBeside(at)}`.trim());
      setAttribute(clock, "title", at === null ? null : utc(at));
    }
    if (!this.banner) return;
    this.banner.hidden = link !== "stale";
    if (link !== "stale") return;
    const [since_, what, next] = this.banner.querySelectorAll("[data-part]");
    setText(since_, `Stale since ${isUtc ? time(since) : timeWithUtc(since)}.`);
    setText(what, REFUSED[refused] ?? LOST);
    const wait = Math.ceil((retryAt - Date.now()) / 1000);
    setText(next, refused ? "" : wait > 0 ? `Next try in ${duration(wait)}.` : "Trying now.");
    setText(
      this.banner.querySelector("button"),
      refused === "logged-out" ? "Log in" : refused ? "Load again" : "Try now",
    );
  }
}

/** What "Try now" does: after a refusal, loading the page leads to the log-in and back, or says what is wrong. */
export function retryWith(view, socket) {
  view.onRetry = () => {
    if (view.state.refused) location.reload();
    else socket.retry();
  };
}
