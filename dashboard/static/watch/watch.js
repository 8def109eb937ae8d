// The watch page: asks whether the stream is live, waits with a growing interval while it is not, and plays it while it is.
// Whatever ends or fails leads back to asking. No two pages ask at the same time: each interval has its own jitter.

import { setText } from "../dashboard/js/dom.js";
import { NO_TRIES, nextTries, parseAnswer, sayings, stateWord, waitS } from "./asking.js";
import { Beacon } from "./beacon.js";
import { Controls } from "./controls.js";
import { makeEngine } from "./engine.js";

const ANSWER_MS = 8_000;
const QUIET_MS = 3_000; // So long nothing was played, and it is asked why.
const STUCK_MS = 20_000; // Live, and yet nothing is played for so long: begin anew.
const STEADY_MS = 10_000; // Played for so long, an earlier failure is forgotten.

const part = (id) => document.getElementById(id);
const player = part("player");
const video = part("video");
const poster = part("poster");
const { hls: folder, library } = player.dataset;

let engine = null;
let beacon = null;
let opening = false;
let timer = 0;
let tries = NO_TRIES;
let moved = { at: performance.now(), time: -1, since: performance.now() };
let askedAt = 0;
let patience = 1; // By how much longer than others this page waits this time.
let answered = { state: "looking", words: "" };

const controls = new Controls(player, video, { play, goLive });

/* ---- asking ---- */

async function look() {
  clearTimeout(timer);
  askedAt = performance.now();
  patience = 1 + Math.random();
  const found = await ask();
  if (found.title) {
    setText(part("title"), found.title);
    document.title = found.title;
  }
  answered = found;
  if (found.state === "live") {
    if (!engine) await open();
    else if (performance.now() - moved.at > STUCK_MS) failed("network");
    return;
  }
  if (engine && (found.state === "closed" || (found.state === "ended" && (engine.isEnded || isQuiet())))) close();
  if (!engine) say(found.state, found.words);
  else if (isQuiet()) say(found.state === "waiting" ? "paused" : found.state, found.state === "waiting" ? "" : found.words);
  if (!engine) again(found.state);
}

/** {state, words, title}. */
async function ask() {
  try {
    const options = { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(ANSWER_MS) };
    const response = await fetch(`${folder}state.json`, options);
    return parseAnswer(await response.json());
  } catch {
    return parseAnswer({});
  }
}

/** Asks again after a while: longer each time that the answer is the same. */
function again(state) {
  tries = nextTries(tries, state);
  clearTimeout(timer);
  timer = setTimeout(look, waitS(tries, document.hidden) * 1000);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !engine && !opening) timer = (clearTimeout(timer), setTimeout(look, 1000 * Math.random()));
});
addEventListener("online", () => !engine && look());
part("again").addEventListener("click", look);

/* ---- playing ---- */

async function open() {
  if (opening || engine) return;
  opening = true;
  const since = performance.now();
  say("looking");
  try {
    engine = await makeEngine(video, folder, library, { failed, tracks: () => controls.paintMenu() });
  } catch {
    again("live");
    return;
  } finally {
    opening = false;
  }
  if (!engine) return say("unplayable", answered.words);
  beacon = new Beacon(video, engine, folder, since);
  moved = { at: since, time: -1, since };
  controls.use(engine);
  await play();
}

async function play() {
  part("start").hidden = true;
  if (engine && behindWindow()) goLive();
  try {
    await video.play();
  } catch (error) {
    if (error.name === "NotAllowedError") part("start").hidden = false; // This browser wants a press first, even muted.
  }
}

/** What was paused for longer than the server keeps can't go on where it was. */
function behindWindow() {
  const { seekable, currentTime } = video;
  return seekable.length > 0 && currentTime > 0 && currentTime < seekable.start(0);
}

function goLive() {
  const position = engine?.livePosition;
  if (position !== null && position !== undefined) video.currentTime = position;
  if (video.paused) video.play().catch(() => {});
}

/** By the engine: network, media or codec. */
function failed(kind) {
  const played = performance.now() - moved.since > STEADY_MS && moved.time > 0;
  close();
  if (kind === "codec") {
    say("unplayable", answered.words);
    return again("closed");
  }
  if (played) tries = NO_TRIES;
  if (!isSaid("paused")) say("looking");
  again("live");
}

function close() {
  beacon?.close();
  engine?.close();
  beacon = engine = null;
  controls.use(null);
  controls.paintMenu();
  part("start").hidden = true;
}

part("start").addEventListener("click", play);

const isQuiet = () => !video.paused && performance.now() - moved.at > QUIET_MS;

/** Twice a second: is it going on? */
setInterval(() => {
  if (!engine) return;
  const now = performance.now();
  if (video.currentTime !== moved.time || video.paused) {
    if (now - moved.at > QUIET_MS) moved.since = now;
    moved.at = now;
    moved.time = video.currentTime;
    if (!video.paused && video.readyState > 2 && video.currentTime > 0) plays();
  } else if (isQuiet() && now - askedAt > patience * Math.max(QUIET_MS, (now - moved.at) / 3)) look();
  controls.paintDelay();
}, 500);

video.addEventListener("ended", () => {
  close();
  look();
});

function plays() {
  say("live");
  if (performance.now() - moved.since > STEADY_MS) tries = NO_TRIES;
}

/* ---- what is said ---- */

const isSaid = (state) => player.dataset.state === state;

/** `words`: the server's own for this stream, in place of ours. */
function say(state, words = "") {
  const [what, more] = sayings(state, words);
  player.dataset.state = state;
  part("say").hidden = state === "live";
  part("say").querySelector(".ring").hidden = state !== "looking" && state !== "paused" && state !== "unreachable";
  setText(part("say-what"), what);
  setText(part("say-more"), more);
  part("again").hidden = state !== "unreachable";
  const line = part("state");
  if (line) setText(line, stateWord(state));
  const note = state === "live" && !video.videoWidth ? answered.words || "Sound only: there is no picture." : "";
  setText(part("note"), note);
  part("note").hidden = note === "";
  poster.hidden = !poster.naturalWidth || (state === "live" && video.videoWidth > 0) || state === "paused";
}

poster.addEventListener("load", () => say(player.dataset.state, answered.state === player.dataset.state ? answered.words : ""));

say("looking");
look();
