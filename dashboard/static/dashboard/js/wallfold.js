// "Running well" folded to names: by the button, which the address keeps; unasked on a phone, where hundreds of cards are
// a long way to go.

import { setText } from "./dom.js";

const MANY = 8; // On a phone.

/** True if cards are folded to names: as somebody chose ("names" or "cards"; null for no choice), else many on a phone. */
export function isFolded(chosen, cards, isPhone) {
  return chosen ? chosen === "names" : isPhone && cards > MANY;
}

export class Fold {
  constructor(section, onChange) {
    this.phone = matchMedia("(max-width: 639px)");
    this.list = section.querySelector("ul");
    this.button = section.querySelector("button");
    this.chosen = new URLSearchParams(location.search).get("well");
    this.button.addEventListener("click", () => {
      this.chosen = this.folded ? "cards" : "names";
      const query = new URLSearchParams(location.search);
      query.set("well", this.chosen);
      history.replaceState(null, "", `?${query}`);
      onChange();
    });
    this.phone.addEventListener("change", onChange);
  }

  /** The kiosk decides for itself. */
  apply(cards, inKiosk) {
    if (inKiosk) return;
    const folded = isFolded(this.chosen, cards.length, this.phone.matches);
    this.set(cards, folded);
    setText(this.button, folded ? "Show cards" : "Show names");
  }

  set(cards, folded) {
    this.folded = folded;
    this.list.classList.toggle("names", folded);
    for (const card of cards) card.folded = folded;
  }
}
