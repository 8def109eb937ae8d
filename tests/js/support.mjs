// Helpers of the unit tests. A test file runs in a process of its own, so what it sets up reaches no other.

import { useZone } from "../../dashboard/static/dashboard/js/zone.js";

/** The text with ordinary spaces in place of no-break ones. */
export const plain = (text) => text.replaceAll("\u00a0", " ");

/** Seconds since the epoch of a moment in UTC, such as utc("2026-11-14 13:31:46"). */
export const utc = (text) => Date.parse(`${text.replace(" ", "T")}Z`) / 1000;

/** Show times in a zone until the test ends. */
export function inZone(t, name, besideUtc = false) {
  useZone(name, besideUtc);
  t.after(() => useZone("UTC"));
}
