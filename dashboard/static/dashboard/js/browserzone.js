// The browser's own time zone. Each page that loads this, the log-in too, reports it to the server in a cookie.

import { serverName, zone } from "./zone.js";

const root = document.documentElement;
const COOKIE = "browser_zone";
const YEAR_S = 365 * 24 * 3600;

const own = serverName(Intl.DateTimeFormat().resolvedOptions().timeZone ?? "");
const isNews = reportZone();

/** Set the cookie. True if that changed it. */
function reportZone() {
  const isSet = () => document.cookie.split("; ").includes(`${COOKIE}=${own}`);
  if (own === "" || isSet()) return false;
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `${COOKIE}=${own}; path=/; max-age=${YEAR_S}; samesite=lax${secure}`;
  return isSet();
}

/**
 * Load the page again if it was made in another zone than the one just reported, and nobody chose that zone. A page that
 * answers a form stays: loading it again would send the form a second time.
 */
export function remakeInOwnZone() {
  const isAnswer = root.dataset.posted !== undefined;
  if (isNews && !isAnswer && own !== zone && root.dataset.zoneBy !== "choice") location.reload();
}
