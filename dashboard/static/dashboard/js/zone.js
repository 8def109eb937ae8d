// The time zone of the page, which the server wrote into it: the operator's choice, else the browser's, else UTC. The
// server learns the browser's by a cookie.

const root = document.documentElement;
const COOKIE = "browser_zone";
const YEAR_S = 365 * 24 * 3600;
const SLOT_S = 900; // Clocks change at quarters of an hour alone.
const MOST_SLOTS = 4096;
const SAME_AS_UTC = /^((Etc\/)?(UTC|UCT|Universal|Zulu|GMT|Greenwich)|Etc\/Unknown)$/;

const named = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";
const own = SAME_AS_UTC.test(named) ? "UTC" : named;
export const zone = root.dataset.zone || "UTC";
export const isUtc = zone === "UTC";
export const showsUtc = root.dataset.showsUtc !== undefined; // Beside each time.

const clocks = isUtc ? null : clocksOf(zone);
const offsets = new Map();

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

/** The server is told the browser's zone by whatever page loads this, the log-in too. */
const isNews = tellZone();

function tellZone() {
  const isSet = () => document.cookie.split("; ").includes(`${COOKIE}=${own}`);
  if (own === "" || isSet()) return false;
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `${COOKIE}=${own}; path=/; max-age=${YEAR_S}; samesite=lax${secure}`;
  return isSet();
}

/** A page that was made in another zone than the one just set, though nobody chose it, is made again; but not one that
 * answers a form: it would be sent a second time. */
export function remakeInOwnZone() {
  const isAnswer = root.dataset.posted !== undefined;
  if (isNews && !isAnswer && own !== zone && root.dataset.zoneBy !== "choice") location.reload();
}
