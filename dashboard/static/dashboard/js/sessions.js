// The list of sessions: two of them are chosen to be compared, and the exports follow the filters. htmx brings the
// results as one types; without it the form does.

const form = document.getElementById("filters");
const compare = document.getElementById("compare");
const MOST = 2;
let chosen = []; // In the order in which they were chosen.

function paintChosen() {
  for (const box of document.querySelectorAll("[name=pick]")) box.checked = chosen.includes(box.value);
  const ready = chosen.length === MOST;
  compare.setAttribute("aria-disabled", String(!ready));
  if (ready) compare.href = `${compare.dataset.url}?a=${chosen[0]}&b=${chosen[1]}`;
  else compare.removeAttribute("href");
}

function paintExports() {
  const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  for (const link of document.querySelectorAll("[data-export]")) link.search = String(query);
}

document.addEventListener("change", (event) => {
  const box = event.target;
  if (box.name !== "pick") return;
  chosen = box.checked ? [...chosen, box.value].slice(-MOST) : chosen.filter((one) => one !== box.value);
  paintChosen();
});
form.addEventListener("input", paintExports);
form.addEventListener("change", paintExports);
document.body.addEventListener("htmx:afterSettle", paintChosen);
// Empty fields are left out of the address.
document.body.addEventListener("htmx:configRequest", (event) => {
  for (const [name, value] of Object.entries(event.detail.parameters)) if (!value) delete event.detail.parameters[name];
});
paintChosen();
paintExports();
