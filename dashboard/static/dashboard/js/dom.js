// Small helpers on elements. Text from the network only ever becomes text nodes and attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes (a null or false one is left out) and children (strings become text). */
export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

/** An icon of the page's sprite; decoration, the word beside it carries the meaning. */
export function icon(name, classes = "") {
  return svg("svg", { class: `i ${classes}`.trim(), "aria-hidden": "true" }, svg("use", { href: `#i-${name}` }));
}

/** Set an element's text if it differs: what doesn't change isn't touched, and isn't read out again. */
export function setText(node, text) {
  if (node && node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, value);
  }
}

/** What the server left in a `<script type="application/json">`; `fallback` where there is none. */
export function pageData(id, fallback = {}) {
  const node = document.getElementById(id);
  return node ? JSON.parse(node.textContent) : fallback;
}
