// Bring parts of a page up to date that the server renders: the page is fetched again, and a part that differs replaced.

const LEAVING_MS = 5000;
let sentAt = -LEAVING_MS; // When a form was sent: the page is being left, and what it was of may be gone.
addEventListener("submit", (event) => {
  if (!event.defaultPrevented) sentAt = performance.now();
});

/**
 * `ids` are the parts' element ids. One that holds the focus waits for the next time, unless a button with an id has
 * it: the fresh one of that id gets it, or the part itself where there is none any more.
 */
export async function refreshParts(ids) {
  if (document.hidden || performance.now() - sentAt < LEAVING_MS) return;
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!response.ok || response.redirected) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const id of ids) {
      const [old, fresh] = [document.getElementById(id), page.getElementById(id)];
      if (!old || !fresh || old.innerHTML === fresh.innerHTML) continue;
      const held = old.contains(document.activeElement) ? document.activeElement : null;
      if (held && !(held instanceof HTMLButtonElement && held.id)) continue;
      old.replaceChildren(...document.adoptNode(fresh).childNodes);
      if (!held) continue;
      old.tabIndex = -1;
      (document.getElementById(held.id) ?? old).focus();
    }
  } catch {
    // The server is away; what is shown stays.
  }
}

/** Elements with data-refresh, by that many seconds. Whoever reads further pages of a list is left alone. */
export function refreshMarked() {
  const marked = [...document.querySelectorAll("[data-refresh]")];
  if (!marked.length || new URLSearchParams(location.search).get("page")) return;
  setInterval(() => refreshParts(marked.map(({ id }) => id)), 1000 * marked[0].dataset.refresh);
}

const GAP_MS = 1500; // Between two refreshes, however much has changed.

/**
 * A function to call when something has changed: `refresh` runs `soonMs` after it, and once more `lateMs` after the last
 * one. The server notifies before it has written, and writes late when its database is busy.
 */
export function throttle(refresh, soonMs, lateMs) {
  let [soon, late, again, last] = [null, null, false, -GAP_MS];
  function run() {
    [soon, last] = [null, performance.now()];
    refresh();
    if (again) schedule();
  }
  function schedule() {
    again = soon !== null;
    soon ??= setTimeout(run, Math.max(soonMs, last + GAP_MS - performance.now()));
    clearTimeout(late);
    late = setTimeout(refresh, lateMs);
  }
  return schedule;
}
