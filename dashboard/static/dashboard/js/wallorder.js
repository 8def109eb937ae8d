// The cards that the wall shows, in their groups and order, and the wall's words for them. This module draws nothing.
// A card has `stream`, `path` and `search`, `attention` (true if its stream is bad or in warning), `unattended` (the weight
// of the issues that nobody takes care of) and `audience` (its players when the wall last looked).

import { number } from "./format.js";
import { health } from "./health.js";

const AUDIENCE_SHARE = 0.1; // Only a change by more than this share moves a card.

export const byName = new Intl.Collator("en", { numeric: true }).compare;

export const pathOf = (stream) => `${stream.app}/${stream.name}`;

/** An operator's choice of cards: `health`, `app`, `node`, `order` and `q` (a part of the name); each "" for all. */
export class Criteria {
  health = "";
  app = "";
  node = "";
  order = "";
  q = "";

  /** True if the card's stream fits application, node and name: the counts by health are of these cards. */
  fitsPlace({ stream, search }) {
    return (
      (!this.app || stream.app === this.app) &&
      (!this.node || stream.node === this.node) &&
      (!this.q || search.includes(this.q))
    );
  }

  /** A stream that is off the air has no health, and no node. */
  fitsOffline(stream) {
    return !this.health && !this.node && this.fitsPlace({ stream, search: pathOf(stream).toLowerCase() });
  }

  fitsHealth(stream) {
    return !this.health || stream.health === this.health;
  }

  /**
   * How cards are ordered. Cards of one health: first those with the most issues that nobody takes care of, then those
   * that most people watch, then by name.
   */
  compare = (a, b) => {
    const worse = this.order === "" ? severity(a.stream) - severity(b.stream) || b.unattended - a.unattended : 0;
    const watched = this.order === "name" ? 0 : b.audience - a.audience;
    return worse || watched || byName(a.path, b.path);
  };

  get orderWords() {
    return { players: "most players first", name: "by name" }[this.order] ?? "worst first";
  }
}

/** Worst first; among the quiet ones, those that wait for media come last. */
function severity(stream) {
  return stream.state === "waiting" && stream.health === "none" ? 9 : health(stream.health).rank;
}

/** The cards in their order: {attention, well}, and `healths`, one word for each card before the choice of a health. */
export function arranged(cards, criteria) {
  const all = cards.filter((card) => criteria.fitsPlace(card));
  const shown = all.filter((card) => criteria.fitsHealth(card.stream)).sort(criteria.compare);
  return {
    healths: all.map((card) => card.stream.health),
    attention: shown.filter((card) => card.attention),
    well: shown.filter((card) => !card.attention),
  };
}

/** The streams off the air that fit, by name. */
export function arrangedOffline(streams, criteria) {
  return streams.filter((stream) => criteria.fitsOffline(stream)).sort((a, b) => byName(pathOf(a), pathOf(b)));
}

/** How many streams run well: "3 good, 1 checking, 2 waiting for media". */
export function wellWords(cards) {
  const good = cards.filter((card) => card.stream.health === "good").length;
  const waiting = cards.filter((card) => card.stream.state === "waiting").length;
  const others = cards.length - good - waiting;
  return [
    good || !cards.length ? `${number(good)} good` : "",
    others ? `${number(others)} checking` : "",
    waiting ? `${number(waiting)} waiting for media` : "",
  ]
    .filter(Boolean)
    .join(", ");
}

/** True if a card's players have changed by so much since the wall last looked that the card may move. */
export function hasOtherAudience({ stream, audience }) {
  return Math.abs(stream.players - audience) > Math.max(1, AUDIENCE_SHARE * audience);
}

/** True if a stream's health is worse than `former`; false if there is no former one. */
export const isWorse = (name, former) => Boolean(former) && health(name).rank < health(former).rank;
