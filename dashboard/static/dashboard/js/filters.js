// The wall's filters: health, application, name, order. They are kept in the address, so that a reload keeps them.

import { element, setText } from "./dom.js";
import { number } from "./format.js";
import { health } from "./health.js";

const NAMES = ["health", "app", "order", "q"];
export const byName = new Intl.Collator("en", { numeric: true }).compare;

export class Filters {
  constructor(form, onChange) {
    this.form = form;
    this.onChange = onChange;
    this.applications = "";
    const query = new URLSearchParams(location.search);
    // An application's option comes with its first stream.
    if (query.get("app")) form.elements.app.append(element("option", { value: query.get("app") }, query.get("app")));
    for (const name of NAMES) if (query.has(name)) form.elements[name].value = query.get(name);
    this.read();
    form.addEventListener("input", () => this.changed());
    form.addEventListener("submit", (event) => event.preventDefault());
    form.elements.q.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      form.elements.q.value = "";
      form.elements.q.blur();
      this.changed();
    });
  }

  read() {
    for (const name of NAMES) this[name] = this.form.elements[name].value;
    this.q = this.q.trim().toLowerCase();
  }

  changed() {
    this.read();
    const query = new URLSearchParams(
      NAMES.map((name) => [name, this.form.elements[name].value]).filter(([, value]) => value),
    );
    history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
    this.onChange();
  }

  clear() {
    for (const name of NAMES) this.form.elements[name].value = "";
    this.changed();
  }

  focus() {
    this.form.elements.q.focus();
    this.form.elements.q.select();
  }

  path(stream) {
    return `${stream.app}/${stream.name}`;
  }

  /** Whether a stream fits application and name: what the counts by health are taken of. */
  fitsPlace(stream) {
    return (!this.app || stream.app === this.app) && (!this.q || this.path(stream).toLowerCase().includes(this.q));
  }

  fitsHealth(stream) {
    return !this.health || stream.health === this.health;
  }

  /** How cards are ordered; equal ones by name, so that nothing jumps about. */
  compare = (a, b) => {
    const [x, y] = [a.stream, b.stream];
    const first =
      this.order === "players"
        ? y.players - x.players
        : this.order === "name"
          ? 0
          : this.severity(x) - this.severity(y);
    return first || byName(this.path(x), this.path(y));
  };

  /** Worst first; among the quiet ones, those that wait for media come last. */
  severity(stream) {
    return stream.state === "waiting" && stream.health === "none" ? 9 : health(stream.health).rank;
  }

  get orderWords() {
    return { players: "most players first", name: "by name" }[this.order] ?? "worst first";
  }

  showCounts(healths) {
    for (const node of this.form.querySelectorAll("[data-count]")) {
      const name = node.dataset.count;
      setText(node, number(name ? healths.filter((one) => one === name).length : healths.length));
    }
  }

  showApplications(names) {
    const known = [...new Set([...names, this.app].filter(Boolean))].sort(byName);
    const signature = known.join("\n");
    if (signature === this.applications) return;
    this.applications = signature;
    const select = this.form.elements.app;
    select.replaceChildren(
      element("option", { value: "" }, "All applications"),
      ...known.map((name) => element("option", { value: name }, name)),
    );
    select.value = this.app;
  }
}
