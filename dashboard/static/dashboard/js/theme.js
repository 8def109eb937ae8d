// Light and dark: the system's choice, unless the user made one. It is kept in a cookie, so that the server writes it
// into the page and nothing flashes.

const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");
const YEAR_S = 365 * 24 * 3600;

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
}

/** Call `listener` whenever the colours have changed: for what is drawn on a canvas. */
export function onColoursChanged(listener) {
  system.addEventListener("change", listener);
  root.addEventListener("themechange", listener);
}

export function toggleTheme() {
  const theme = isDark() ? "light" : "dark";
  root.dataset.theme = theme;
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `theme=${theme}; path=/; max-age=${YEAR_S}; samesite=lax${secure}`;
  root.dispatchEvent(new Event("themechange"));
}

/** A token's value as it is now, such as colour("--series"). */
export const colour = (token) => getComputedStyle(root).getPropertyValue(token).trim();
