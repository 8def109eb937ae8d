// The wall's filters: health, application, name, order. They are kept in the address, so that a reload keeps them.

import { element, setText } from "./dom.js";
import { number } from "./format.js";
import { byName, Criteria } from "./wallorder.js";

const NAMES = ["health", "app", "node", "order", "q"];

export class Filters extends Criteria {
  constructor(form, onChange) {
    super();
    this.form = form;
    this.onChange = onChange;
    this.options = {};
    const query = new URLSearchParams(location.search);
    // An application's or a node's option comes with its first stream.
    for (const name of ["app", "node"]) {
      const chosen = query.get(name);
      if (chosen) form.elements[name].append(element("option", { value: chosen }, chosen));
    }
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
    const query = new URLSearchParams(location.search);
    for (const name of NAMES) {
      const { value } = this.form.elements[name];
      if (value) query.set(name, value);
      else query.delete(name);
    }
    history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
    this.onChange();
  }

  clear() {
    for (const name of NAMES) this.form.elements[name].value = "";
    this.changed();
  }

  showCounts(healths) {
    for (const node of this.form.querySelectorAll("[data-count]")) {
      const name = node.dataset.count;
      setText(node, number(name ? healths.filter((one) => one === name).length : healths.length));
    }
  }

  showApplications(streams) {
    this.choices("app", "All applications", new Set(streams.map((stream) => stream.app)));
  }

  /** Only where there are several. */
  showNodes(names) {
    const known = this.choices("node", "All nodes", new Set(names));
    this.form.elements.node.hidden = known.length < 2 && !this.node;
  }

  choices(name, all, values) {
    const known = [...new Set([...values, this[name]].filter(Boolean))].sort(byName);
    const signature = known.join("\n");
    if (signature === this.options[name]) return known;
    this.options[name] = signature;
    const select = this.form.elements[name];
    select.replaceChildren(
      element("option", { value: "" }, all),
      ...known.map((value) => element("option", { value }, value)),
    );
    select.value = this[name];
    return known;
  }
}
