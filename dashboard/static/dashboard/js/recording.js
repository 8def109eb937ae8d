// A recording in the browser's own player, MP4 from the media listener: of who is logged in, for whom its URL is asked for
// when the page opens and again when that has expired, or by a link, whose page has the URL.

import { csrfToken } from "./actions.js";
import { pageData, setText } from "./dom.js";
import { onKey } from "./shortcuts.js";

const PATIENCE_MS = 700; // So long the file may take before that is said.
const AGAIN_MS = 5000; // After which a failure may be mended by another URL once more.
const STEP_S = 10;
const { MEDIA_ERR_NETWORK, MEDIA_ERR_SRC_NOT_SUPPORTED } = MediaError;

const PREPARES = "Getting the recording ready. That takes some seconds for a long one.";
const NO_ANSWER = "The server that sends recordings did not answer. Load the page again in a moment.";
const NO_CODEC = "This browser can’t play what was recorded. Download it, and play it with a program such as VLC.";

const boot = pageData("boot");
const video = document.querySelector("#player video");
const words = document.getElementById("player-say");
let mendedAt = -Infinity;

function say(text) {
  setText(words.querySelector("span"), text);
  words.hidden = !text;
}

/** There is nothing to play. */
function fail(sentence) {
  video.hidden = true;
  say(String(sentence));
}

/** Where the MP4 is. Throws a sentence. */
async function locate() {
  if (!boot.url) return video.src;
  const response = await fetch(boot.url, {
    method: "POST",
    headers: { Accept: "application/json", "X-CSRFToken": csrfToken() },
    cache: "no-store",
  }).catch(() => {
    throw NO_ANSWER;
  });
  if (response.status === 401 || response.status === 403) throw "You are logged out. Load the page again.";
  const { mp4_url: url, detail } = await response.json();
  if (!response.ok) throw detail;
  return url;
}

/** Has the server get it ready. Why it can't be had, in the server's words; "": it can, or that can't be told from here. */
async function refusal(url) {
  const waiting = setTimeout(() => say(PREPARES), PATIENCE_MS);
  try {
    const response = await fetch(url, {
      headers: { Range: "bytes=0-0" },
      cache: "no-store",
      credentials: "omit",
      referrerPolicy: "no-referrer",
    });
    return response.ok ? "" : ((await response.json()).detail ?? "");
  } catch {
    return "";
  } finally {
    clearTimeout(waiting);
    say("");
  }
}

async function open() {
  const url = await locate();
  const why = await refusal(url);
  if (why) throw why;
  if (video.src !== url) video.src = url;
}

/** A URL may have expired, or a connection have broken, in the middle: it goes on where it was. */
async function mend() {
  const { code } = video.error ?? {};
  if (code !== MEDIA_ERR_NETWORK && code !== MEDIA_ERR_SRC_NOT_SUPPORTED) return fail(NO_CODEC);
  const at = video.currentTime;
  const plays = !video.paused;
  const isSoon = performance.now() - mendedAt < AGAIN_MS;
  mendedAt = performance.now();
  try {
    const why = await refusal(video.src);
    if (!why && code === MEDIA_ERR_SRC_NOT_SUPPORTED) throw NO_CODEC;
    if (isSoon || (why && !boot.url)) throw why || NO_ANSWER;
    await open();
    video.load();
    video.currentTime = at;
    if (plays) await video.play().catch(() => {});
  } catch (sentence) {
    fail(sentence);
  }
}

/** Times of a page without a log-in are in the zone of who looks. */
for (const node of document.querySelectorAll("[data-own-zone]")) {
  node.title = node.textContent;
  setText(node, new Date(node.dateTime).toLocaleString([], { dateStyle: "long", timeStyle: "short" }));
}

onKey("p", () => (video.paused ? video.play().catch(() => {}) : video.pause()));
onKey("ArrowLeft", () => (video.currentTime = Math.max(video.currentTime - STEP_S, 0)));
onKey("ArrowRight", () => (video.currentTime = Math.min(video.currentTime + STEP_S, video.duration || 0)));
onKey("m", () => (video.muted = !video.muted));
onKey("f", () => (document.fullscreenElement ? document.exitFullscreen() : video.requestFullscreen?.().catch(() => {})));

video.addEventListener("error", mend);
video.addEventListener("loadedmetadata", () => {
  say("");
  video.classList.toggle("sound", video.videoWidth === 0);
});
if (boot.url) open().catch(fail);
else if (video.error) mend();
