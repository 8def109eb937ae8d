// The wall on a screen that nobody touches: no navigation, text by the size of the window, page after page of the cards if
// they don't fit; what needs attention is on every page. It stays as truthful as the wall: counts, the server's time and
// the stale banner stand above each of its pages.

import { element, icon, setText } from "./dom.js";
import { count, number } from "./format.js";
import { HEALTHS } from "./health.js";

const PAGE_MS = 12_000;
const IDLE_MS = 3000; // Then the pointer is hidden.
const PINNED = 0.6; // Of the height, for what is on every page,
const LARGE = 0.4; // and as far as that with pictures.
const MOST_PAGES = 3; // Of cards with pictures; more are folded to names.
const LAY_OUT_MS = 900;
const GAP = 8; // Below the last row, px.
const root = document.documentElement;

export class Kiosk {
  /** `onChange` has the wall painted anew, which calls `layOut`. */
  constructor(bar, onChange) {
    this.bar = bar;
    this.onChange = onChange;
    this.more = document.getElementById("kiosk-more");
    this.at = 0; // The page that is shown.
    this.laidOut = -LAY_OUT_MS;
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
    addEventListener("resize", () => this.on && this.onChange());
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
    for (const card of document.querySelectorAll(".cards > .off")) card.classList.remove("off");
    document.querySelector(".cards.attn").classList.remove("dense");
    this.more.hidden = true;
    this.onChange();
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

  /** To the first page; the next one is a whole page's time away. */
  top() {
    clearInterval(this.rotation);
    this.at = 0;
    this.rotation = setInterval(() => this.turn(), PAGE_MS);
    this.onChange();
  }

  /** A stream got worse: what is wrong is on every page, and a long list of it begins on the first. */
  interrupt() {
    if (this.on) this.top();
  }

  turn() {
    this.at += 1;
    this.onChange();
  }

  /**
   * Which cards are on this page: each second, since they grow with what they say, and at once with `now`. Those that need attention come first, on each page,
   * as far as PINNED of the height lets them; the rest of them has the first pages below, then come those that run well.
   */
  layOut(now) {
    if (!this.on || (!now && performance.now() - this.laidOut < LAY_OUT_MS)) return;
    this.laidOut = performance.now();
    const [attention, well] = [listOf("attention"), listOf("well")];
    for (const { node } of attention.cards) node.classList.remove("off");
    for (const { node } of well.cards.slice(1)) node.classList.add("off");
    well.cards[0]?.node.classList.remove("off");
    attention.host.classList.remove("dense");
    const pinned = this.pin(attention, well.cards.length > 0);
    const rest = attention.cards.slice(pinned.length);
    this.showMore(rest);
    const pages = [
      ...this.pagesOf(attention, rest).map((cards) => ({ section: attention, cards })),
      ...this.wellPages(well, rest).map((cards) => ({ section: well, cards })),
    ];
    this.at = pages.length ? this.at % pages.length : 0;
    const page = pages[this.at];
    show(attention, [...pinned, ...(page?.section === attention ? page.cards : [])]);
    show(well, page?.section === well ? page.cards : []);
    setText(this.page, pages.length > 1 ? `Page ${this.at + 1} of ${pages.length}` : "");
  }

  /** Those that are on every page: as large cards if all fit, else as many as fit without their pictures. */
  pin({ host, cards }, hasOthers) {
    if (!cards.length) return [];
    const top = host.getBoundingClientRect().top;
    const fits = (share) => {
      const limit = top + (innerHeight - top) * (hasOthers ? share : 1);
      return cards.filter(({ node }) => node.getBoundingClientRect().bottom <= limit);
    };
    if (fits(LARGE).length < cards.length) host.classList.add("dense");
    const found = fits(PINNED);
    return found.length ? found : cards.slice(0, columns(host));
  }

  /** Rows as they stand, cut where the page is full. */
  pagesOf({ host }, rest) {
    const room = innerHeight - host.getBoundingClientRect().top - GAP;
    const used = rest.length ? rest[0].node.getBoundingClientRect().top - host.getBoundingClientRect().top : 0;
    const pages = [];
    let top = -Infinity;
    for (const card of rest) {
      const box = card.node.getBoundingClientRect();
      if (pages.length === 0 || (box.bottom - top > room - used && box.top > top)) {
        pages.push([]);
        top = box.top;
      }
      pages.at(-1).push(card);
    }
    return pages;
  }

  /** Equal cells, as cards with pictures unless these would take many pages. */
  wellPages(well, rest) {
    if (!well.cards.length) return [];
    for (const { node } of rest) node.classList.add("off");
    well.section.hidden = false;
    this.fold(well, false);
    let size = this.pageSize(well);
    if (size * MOST_PAGES < well.cards.length) {
      this.fold(well, true);
      size = this.pageSize(well);
    }
    const pages = [];
    for (let start = 0; start < well.cards.length; start += size) pages.push(well.cards.slice(start, start + size));
    return pages;
  }

  pageSize({ host, cards }) {
    const { top, height } = cards[0].node.getBoundingClientRect();
    const gap = parseFloat(getComputedStyle(host).rowGap) || 0;
    const rows = Math.floor((innerHeight - top - GAP + gap) / (height + gap));
    return Math.max(1, rows) * columns(host);
  }

  fold({ host, cards }, folded) {
    host.classList.toggle("names", folded);
    for (const card of cards) card.folded = folded;
  }

  /** Those that are not on every page, in one line. */
  showMore(rest) {
    const counts = ["bad", "warning"].map((name) => [name, rest.filter(({ stream }) => stream.health === name).length]);
    const words = counts.filter(([, many]) => many).map(([name, many]) => `${number(many)} ${name}`);
    this.more.hidden = rest.length === 0;
    setText(this.more, rest.length ? `${number(rest.length)} more, page by page: ${words.join(", ")}` : "");
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
}

function listOf(id) {
  const section = document.getElementById(id);
  const host = section.querySelector("ul");
  return { section, host, cards: [...host.children].map((node) => node.card) };
}

function show({ section, cards }, shown) {
  const wanted = new Set(shown);
  for (const card of cards) card.node.classList.toggle("off", !wanted.has(card));
  section.hidden = shown.length === 0;
}

const columns = (host) => getComputedStyle(host).gridTemplateColumns.split(" ").length;
