// The wall on a screen that nobody touches: no navigation, larger, page after page of the cards if they don't fit. It
// stays as truthful as the wall: counts, the server's time and the stale banner stand above each of its pages.

import { element, icon, setText } from "./dom.js";
import { count, number } from "./format.js";
import { HEALTHS } from "./health.js";

const PAGE_MS = 12_000;
const IDLE_MS = 3000; // Then the pointer is hidden.
const root = document.documentElement;

export class Kiosk {
  constructor(bar) {
    this.bar = bar;
    this.counts = bar.querySelector("[data-part=counts]");
    this.page = bar.querySelector("[data-part=page]");
    this.on = false;
    this.lock = null;
    document.addEventListener("keydown", (event) => {
      if (this.on && event.key === "Escape" && !document.querySelector("dialog[open]")) this.leave();
    });
    // Escape leaves the full screen without a key that the page hears of.
    document.addEventListener("fullscreenchange", () => {
      if (this.on && !document.fullscreenElement) this.leave();
    });
    document.addEventListener("visibilitychange", () => this.stayAwake());
    document.addEventListener("pointermove", () => this.pointed());
    addEventListener("resize", () => this.on && this.top());
    bar.querySelector("button").addEventListener("click", () => this.leave());
    if (new URLSearchParams(location.search).get("kiosk") === "1") this.enter();
  }

  toggle() {
    if (this.on) this.leave();
    else {
      this.enter();
      // Only a person's act may ask for it, and a browser may refuse.
      root.requestFullscreen?.().catch(() => {});
    }
  }

  enter() {
    this.on = true;
    root.classList.add("kiosk");
    this.bar.hidden = false;
    this.address("1");
    this.stayAwake();
    this.pointed();
    this.top();
    document.activeElement?.blur();
  }

  leave() {
    this.on = false;
    root.classList.remove("kiosk", "idle");
    this.bar.hidden = true;
    this.address(null);
    clearInterval(this.rotation);
    clearTimeout(this.idle);
    this.lock?.release();
    this.lock = null;
    if (document.fullscreenElement) document.exitFullscreen();
    scrollTo({ top: 0 });
  }

  address(value) {
    const query = new URLSearchParams(location.search);
    if (value) query.set("kiosk", value);
    else query.delete("kiosk");
    history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
  }

  /** A screen that sleeps shows nothing. Browsers take the lock back from a hidden page; not all have it. */
  async stayAwake() {
    if (!this.on || document.hidden || !navigator.wakeLock) return;
    try {
      this.lock = await navigator.wakeLock.request("screen");
      if (!this.on) this.lock.release();
    } catch {
      // The system saves its battery: the wall is as true on a screen that sleeps at times.
    }
  }

  pointed() {
    clearTimeout(this.idle);
    root.classList.remove("idle");
    if (this.on) this.idle = setTimeout(() => root.classList.add("idle"), IDLE_MS);
  }

  /** To the first page, where the worst are; the next one is a whole page's time away. */
  top() {
    clearInterval(this.rotation);
    scrollTo({ top: 0 });
    this.rotation = setInterval(() => this.next(), PAGE_MS);
    this.paintPage();
  }

  /** A stream got worse: it stands on the first page. */
  interrupt() {
    if (this.on) this.top();
  }

  /** On, to the first card that isn't wholly to be seen; after the last one, back to the top. */
  next() {
    const top = this.bar.getBoundingClientRect().bottom;
    const cards = [...document.querySelectorAll(".cards > li")].filter((card) => card.getClientRects().length);
    const cut = cards.find((card) => card.getBoundingClientRect().bottom > innerHeight + 1);
    const above = cut ? cut.getBoundingClientRect().top - top - 8 : 0;
    const before = scrollY;
    if (cut && above > 1) scrollBy({ top: above });
    else if (cut) scrollBy({ top: innerHeight - top });
    if (!cut || scrollY === before) scrollTo({ top: 0 });
    this.paintPage();
  }

  /** How many streams of each health; `healths` is one word for each. */
  count(healths) {
    const parts = Object.entries(HEALTHS).map(([name, { word, icon: shape }]) => {
      const many = healths.filter((each) => each === name).length;
      return many || name === "bad"
        ? element("li", { "data-count": name }, icon(shape, `w-${shape}`), `${word} `, element("b", {}, number(many)))
        : null;
    });
    this.counts.replaceChildren(
      element("li", {}, element("b", {}, count(healths.length, "stream"))),
      ...parts.filter(Boolean),
    );
  }

  paint() {
    if (this.on) this.paintPage();
  }

  paintPage() {
    const height = innerHeight - this.bar.getBoundingClientRect().height;
    const pages = Math.max(1, Math.ceil((root.scrollHeight - innerHeight) / height) + 1);
    const at = Math.min(pages, Math.round(scrollY / height) + 1);
    setText(this.page, pages > 1 ? `Page ${at} of ${pages}` : "");
  }
}
