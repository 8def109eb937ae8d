// The page's connection to the server: a WebSocket that comes back (a snapshot first, then updates), and what shows
// whether its figures are live, which they never pretend to be: the badge in the rail, and the banner that says since when
// they are stale.

import { setAttribute, setText } from "./dom.js";
import { duration, time, timeWithUtc, utc, utcBeside } from "./format.js";
import { isUtc, offsetWords } from "./zone.js";

const BACKOFF_S = [1, 2, 4, 8, 15];
const JITTER = 0.2;
const SILENCE_CHECK_MS = 1000;
const CLOCK_CHANGED_S = 5; // Offsets that differ by more are of a clock that was set, not of a slow way.
// Close codes of the server's consumers that no further try can heal.
const REFUSALS = { 4401: "logged-out", 4403: "not-allowed", 4404: "no-stream", 4429: "too-many" };

const WORDS = { connecting: "Connecting", live: "Live", stale: "Stale since" };
const LOST = "The connection to the server is lost; figures below are the last known.";
const REFUSED = {
  "logged-out": "You are logged out; figures below are the last known.",
  "not-allowed": "Your role no longer allows this page; figures below are the last known.",
  "no-stream": "The stream was removed; figures below are the last known.",
  "too-many": "Too many pages are open in this browser: close some, then load this one again.",
};

/** How long to wait before the next try, after that many in a row have failed. `random` is from 0 to 1. */
export function backoffS(tries, random = Math.random()) {
  return BACKOFF_S[Math.min(tries, BACKOFF_S.length - 1)] * (1 + JITTER * (2 * random - 1));
}

/** The words of the banner for a stale page, at `ownMs` of our own clock. `state` is a LiveSocket's. */
export function staleWords({ since, retryAt, refused }, ownMs) {
  const wait = Math.ceil((retryAt - ownMs) / 1000);
  return {
    since: `Stale since ${isUtc ? time(since) : timeWithUtc(since)}.`,
    problem: REFUSED[refused] ?? LOST,
    next: refused ? "" : wait > 0 ? `Next try in ${duration(wait)}.` : "Trying now.",
    button: refused === "logged-out" ? "Log in" : refused ? "Load again" : "Try now",
  };
}

/** The server's clock, as far as its messages tell. All times are in seconds since the epoch; `own` is our own clock. */
export class ServerClock {
  offset = 0;
  best = null;

  /** Take in a message that was sent `at`: the one that took the shortest way has the best offset. */
  take(at, own) {
    const offset = at - own;
    if (this.best === null || offset > this.best || Math.abs(offset - this.best) > CLOCK_CHANGED_S) this.best = offset;
    this.offset = this.best;
  }

  now(own) {
    return own + this.offset;
  }
}

/** Whoever uses it gets three states: "connecting", "live" and "stale" (since when, and when the next try is). */
export class LiveSocket {
  /**
   * `path` is the address on this host. `onMessage(message)` gets each parsed JSON text; `onState(state)` gets
   * {link, since, retryAt, refused}. `silenceS()` answers how long nothing may come before the figures are called
   * stale, or null while silence is normal.
   */
  constructor(path, { onMessage, onState, silenceS = () => null }) {
    this.url = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;
    this.onMessage = onMessage;
    this.onState = onState;
    this.silenceS = silenceS;
    this.tries = 0;
    this.lastAt = null; // Server's time of the latest message, seconds since the epoch.
    this.lastMessageAt = 0; // Our clock at that moment, ms.
    this.state = { link: "connecting", since: null, retryAt: null, refused: null };
    this.open();
    this.watch = setInterval(() => this.checkSilence(), SILENCE_CHECK_MS);
    // The page was asleep, or the network came back: don't wait for the backoff to end.
    addEventListener("online", () => this.retry());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.retry();
    });
    addEventListener("pagehide", () => this.socket?.close());
    addEventListener("pageshow", (event) => {
      if (event.persisted) this.retry();
    });
  }

  open() {
    clearTimeout(this.timer);
    const socket = new WebSocket(this.url);
    this.socket = socket;
    this.hasReceived = false;
    socket.addEventListener("message", (event) => {
      if (socket !== this.socket) return;
      const message = JSON.parse(event.data);
      this.hasReceived = true;
      this.tries = 0;
      this.lastMessageAt = performance.now();
      this.lastAt = message.at ?? Date.now() / 1000;
      this.change({ link: "live", since: null, retryAt: null, refused: null });
      this.onMessage(message);
    });
    socket.addEventListener("close", (event) => {
      if (socket !== this.socket) return;
      if (event.code in REFUSALS) this.stale(null, REFUSALS[event.code]);
      else this.lost();
    });
  }

  /** The connection is gone, or never came. */
  lost() {
    const seconds = backoffS(this.tries);
    this.tries += 1;
    this.stale(Date.now() + seconds * 1000);
    this.timer = setTimeout(() => this.open(), seconds * 1000);
  }

  stale(retryAt, refused = null) {
    const since = this.state.since ?? this.lastAt ?? Date.now() / 1000;
    this.change({ link: "stale", since, retryAt, refused });
  }

  /** Try now: unless the connection stands, or was refused for good. */
  retry() {
    if (
      this.state.refused ||
      this.socket.readyState === WebSocket.OPEN ||
      this.socket.readyState === WebSocket.CONNECTING
    )
      return;
    this.tries = 0;
    this.open();
  }

  /** An open socket on which nothing comes is no better than a closed one. */
  checkSilence() {
    const limit = this.silenceS();
    const open = this.socket.readyState === WebSocket.OPEN && this.hasReceived;
    if (limit === null || !open || performance.now() - this.lastMessageAt < limit * 1000) return;
    const silent = this.socket;
    this.socket = null;
    silent.close();
    this.socket = silent;
    this.lost();
  }

  change(state) {
    const before = this.state;
    this.state = state;
    const same = Object.keys(state).every((name) => state[name] === before[name]);
    if (!same || before.link === "connecting") this.onState(state);
  }
}

/** Shows a LiveSocket's state. Also keeps the server's clock: `now()` is its time, in seconds since the epoch. */
export class LinkView {
  constructor() {
    this.badges = [...document.querySelectorAll("[data-link]")];
    this.banner = document.getElementById("stale");
    this.state = { link: "connecting" };
    this.clock = new ServerClock();
    document.addEventListener("click", (event) => {
      if (event.target.closest("[data-do='reconnect']")) this.onRetry?.();
    });
    setInterval(() => this.paint(), 1000);
  }

  /** The time of the server, as far as its messages told it. It stands still while the figures are stale. */
  now() {
    if (this.state.link === "stale") return this.state.since;
    return this.clock.now(Date.now() / 1000);
  }

  /** A message arrived that was sent `at`. */
  received(at) {
    this.clock.take(at, Date.now() / 1000);
    this.paint();
  }

  show(state) {
    this.state = state;
    document.documentElement.classList.toggle("stale-on", state.link === "stale");
    this.paint();
  }

  paint() {
    const { link, since } = this.state;
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
    const words = staleWords(this.state, Date.now());
    const [sinceNode, problem, next] = this.banner.querySelectorAll("[data-part]");
    setText(sinceNode, words.since);
    setText(problem, words.problem);
    setText(next, words.next);
    setText(this.banner.querySelector("button"), words.button);
  }
}

/** What "Try now" does: after a refusal, loading the page leads to the log-in and back, or says what is wrong. */
export function retryWith(view, socket) {
  view.onRetry = () => {
    if (view.state.refused) location.reload();
    else socket.retry();
  };
}
