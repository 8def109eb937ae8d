// Connections that were refused lately: how many, in the rail; and until when somebody at this browser has seen them,
// which a cookie keeps, so that the server counts by it too.

import { setText } from "./dom.js";
import { number } from "./format.js";

const COOKIE = "refused_seen";
const KEPT_S = 24 * 3600;

export function refusedSeenAt(cookies = document.cookie) {
  const found = cookies.split("; ").find((each) => each.startsWith(`${COOKIE}=`));
  return Number(found?.slice(COOKIE.length + 1)) || 0;
}

/** Whoever begins to be refused after `at`, in seconds of the server's time, is told of again. */
export function seeRefused(at) {
  const until = Math.ceil(at);
  if (until <= refusedSeenAt()) return;
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `${COOKIE}=${until}; path=/; max-age=${KEPT_S}; samesite=lax${secure}`;
}

export function showRefusedCount(refused) {
  for (const badge of document.querySelectorAll("[data-refused-count]")) {
    badge.hidden = refused === 0;
    setText(badge.querySelector("span"), number(refused));
  }
}
