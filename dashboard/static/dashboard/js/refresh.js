// Bring parts of a page up to date that the server renders: the page is fetched again, and a part that differs replaced.

/** `ids` are the parts' element ids. One that holds the focus waits for the next time. */
export async function refreshParts(ids) {
  if (document.hidden) return;
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!response.ok || response.redirected) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const id of ids) {
      const [old, fresh] = [document.getElementById(id), page.getElementById(id)];
      if (!old || !fresh || old.innerHTML === fresh.innerHTML || old.contains(document.activeElement)) continue;
      old.replaceChildren(...document.adoptNode(fresh).childNodes);
    }
  } catch {
    // The server is away; what is shown stays.
  }
}
