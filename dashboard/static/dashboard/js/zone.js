// The time zone of the page: the operator's choice, else the browser's, else UTC. The server writes it into the page.
// Without a page, as in the unit tests, it is UTC until `useZone` is called.

const SLOT_S = 900; // Clocks change at quarters of an hour alone.
const MOST_SLOTS = 4096;
const SAME_AS_UTC = /^((Etc\/)?(UTC|UCT|Universal|Zulu|GMT|Greenwich)|Etc\/Unknown)$/;

const page = globalThis.document?.documentElement.dataset ?? {};
const offsets = new Map();
let clocks = null;

export let zone = "UTC";
export let isUtc = true;
export let showsUtc = false; // True if pages show UTC next to each time.

/** Show all times in the zone `name`, and with `besideUtc` UTC next to each of them. */
export function useZone(name, besideUtc = false) {
  [zone, isUtc, showsUtc] = [name, name === "UTC", besideUtc];
  clocks = isUtc ? null : clocksOf(name);
  offsets.clear();
}

/** The name of a zone as the server knows it: several names mean UTC. */
export const serverName = (name) => (SAME_AS_UTC.test(name) ? "UTC" : name);

function clocksOf(name) {
  const parts = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" };
  try {
    return new Intl.DateTimeFormat("en-GB", { timeZone: name, hourCycle: "h23", ...parts });
  } catch {
    return null; // The server knows a zone that this browser doesn't.
  }
}

/** How many seconds the zone's clocks are before UTC at a moment, in seconds since the epoch. */
export function offset(at) {
  if (!clocks || !Number.isFinite(at)) return 0;
  const slot = Math.floor(at / SLOT_S);
  let found = offsets.get(slot);
  if (found === undefined) {
    if (offsets.size >= MOST_SLOTS) offsets.clear();
    const begin = slot * SLOT_S;
    const shown = Object.fromEntries(clocks.formatToParts(begin * 1000).map(({ type, value }) => [type, Number(value)]));
    found = Date.UTC(shown.year, shown.month - 1, shown.day, shown.hour, shown.minute, shown.second) / 1000 - begin;
    offsets.set(slot, found);
  }
  return found;
}

/** By how much, in words: UTC+1, UTC-3:30, UTC. */
export function offsetWords(at) {
  const minutes = Math.round(offset(at) / 60);
  if (minutes === 0) return "UTC";
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `UTC${minutes < 0 ? "-" : "+"}${hours}${rest ? `:${String(rest).padStart(2, "0")}` : ""}`;
}

/** The moment at which the zone's clocks show `local`, which is seconds since the epoch as if they showed UTC. */
export function moment(local) {
  return local - offset(local - offset(local));
}

useZone(page.zone || "UTC", page.showsUtc !== undefined);
