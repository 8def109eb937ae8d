// The player's buttons, menu, seek bar and keys. They act on the video and on whatever engine plays in it.

import { element, icon, setText } from "../dashboard/js/dom.js";

const HIDE_MS = 3000; // Without a move of the pointer.
const STEP_S = 5;
const VOLUME_STEP = 0.1;
const FIELDS = "input, select, textarea";

const part = (id) => document.getElementById(id);

export class Controls {
  /** `actions`: play(), goLive(). */
  constructor(player, video, actions) {
    this.player = player;
    this.video = video;
    this.actions = actions;
    this.engine = null;
    this.canRewind = "rewind" in player.dataset;
    this.captions = 0; // Which track is shown where any is.
    this.fullscreen = Boolean(player.requestFullscreen && document.fullscreenEnabled);
    part("full").hidden = !this.fullscreen && !video.webkitEnterFullscreen;
    part("pip").hidden = !document.pictureInPictureEnabled;
    const on = (id, action) => part(id).addEventListener("click", action);
    on("play", () => this.toggle());
    on("mute", () => this.mute());
    on("unmute", () => this.mute());
    on("live", () => actions.goLive());
    on("captions", () => this.toggleCaptions());
    on("settings", () => this.openMenu(part("menu").hidden));
    on("keys", () => this.help());
    on("pip", () => this.pictureInPicture());
    on("full", () => this.fullScreen());
    part("volume").addEventListener("input", ({ target }) => this.setVolume(Number(target.value)));
    part("seek").addEventListener("input", ({ target }) => this.seekTo(Number(target.value)));
    part("menu").addEventListener("change", ({ target }) => this.choose(target));
    for (const name of ["play", "pause", "volumechange", "timeupdate", "enterpictureinpicture", "leavepictureinpicture"])
      video.addEventListener(name, () => this.paint());
    document.addEventListener("fullscreenchange", () => this.paint());
    for (const name of ["addtrack", "removetrack", "change"]) video.textTracks.addEventListener?.(name, () => this.paintTexts());
    document.addEventListener("keydown", (event) => this.key(event));
    this.listenToPointer();
    this.paint();
  }

  /** Null: nothing plays. */
  use(engine) {
    this.engine = engine;
    part("bar").hidden = !engine;
    if (!engine) this.openMenu(false);
    this.paint();
    this.wake();
  }

  /* ---- what is done ---- */

  toggle() {
    if (!this.engine) return;
    if (this.video.paused) this.actions.play();
    else this.video.pause();
  }

  mute() {
    this.video.muted = !this.video.muted;
    if (!this.video.muted && this.video.volume === 0) this.video.volume = 0.5;
    if (!this.video.muted && this.video.paused && this.engine) this.actions.play();
    this.announce(this.video.muted ? "Muted" : "Sound on");
  }

  setVolume(volume) {
    this.video.volume = Math.min(1, Math.max(0, volume));
    this.video.muted = this.video.volume === 0;
  }

  /** `behind`: the range's value, seconds before the live edge as a negative number. */
  seekTo(behind) {
    const { seekable } = this.video;
    if (!seekable.length) return;
    if (behind > -1) return this.actions.goLive();
    this.video.currentTime = Math.max(seekable.start(0), (this.engine?.livePosition ?? seekable.end(0)) + behind);
  }

  step(seconds) {
    const { seekable, currentTime } = this.video;
    const live = this.engine?.livePosition;
    if (!this.canRewind || !seekable.length || live === null || live === undefined) return;
    this.video.currentTime = Math.min(live, Math.max(seekable.start(0), currentTime + seconds));
  }

  get captionTracks() {
    return [...this.video.textTracks].filter(({ kind }) => kind === "captions" || kind === "subtitles");
  }

  get areCaptionsShown() {
    return this.captionTracks.some(({ mode }) => mode === "showing");
  }

  toggleCaptions() {
    const shown = this.areCaptionsShown;
    const { length } = this.captionTracks;
    this.showCaptions(shown ? -1 : Math.min(this.captions, length - 1));
    if (length) this.announce(shown ? "Captions off" : "Captions on");
  }

  /** Of that track; -1: none. What is disabled is not loaded. */
  showCaptions(chosen) {
    this.captionTracks.forEach((track, index) => {
      track.mode = index === chosen ? "showing" : "disabled";
    });
    if (chosen >= 0) this.captions = chosen;
    this.paintTexts();
  }

  paintTexts() {
    this.paint();
    this.paintMenu();
  }

  async pictureInPicture() {
    try {
      if (document.pictureInPictureElement) await document.exitPictureInPicture();
      else await this.video.requestPictureInPicture();
    } catch {
      // Without a picture there is nothing to take out.
    }
  }

  fullScreen() {
    if (!this.fullscreen) return this.video.webkitEnterFullscreen?.();
    const done = document.fullscreenElement ? document.exitFullscreen() : this.player.requestFullscreen();
    return done.catch(() => {}); // A frame may not be allowed to.
  }

  help() {
    const dialog = part("help");
    if (!dialog.open && !document.fullscreenElement) dialog.showModal();
  }

  /* ---- the menu ---- */

  openMenu(whether) {
    part("menu").hidden = !whether;
    part("settings").setAttribute("aria-expanded", String(whether));
    if (whether) part("menu").querySelector("input:checked")?.focus();
  }

  /** What there is to choose from has changed. */
  paintMenu() {
    const groups = { qualities: this.engine?.qualities ?? [], tracks: this.engine?.tracks ?? [], texts: this.texts };
    for (const [name, choices] of Object.entries(groups)) {
      const group = part(name);
      group.hidden = choices.length === 0;
      const held = group.contains(document.activeElement);
      const rows = choices.map(({ id, words, chosen }) =>
        element("label", {}, element("input", { type: "radio", name, value: id, checked: chosen }), words),
      );
      group.replaceChildren(group.firstElementChild, ...rows);
      if (held) group.querySelector("input:checked")?.focus();
    }
    const nothing = Object.values(groups).every((choices) => choices.length === 0);
    part("settings").hidden = nothing;
    if (nothing) this.openMenu(false);
  }

  /** Captions to choose from, where there are several. */
  get texts() {
    const tracks = this.captionTracks;
    if (!this.engine || tracks.length < 2) return [];
    const rows = tracks.map(({ label, language, mode }, id) => ({
      id,
      words: label || language || `Captions ${id + 1}`,
      chosen: mode === "showing",
    }));
    return [{ id: -1, words: "Off", chosen: !this.areCaptionsShown }, ...rows];
  }

  choose({ name, value }) {
    if (name === "qualities") this.engine?.chooseQuality(Number(value));
    if (name === "tracks") this.engine?.chooseTrack(Number(value));
    if (name === "texts") this.showCaptions(Number(value));
  }

  /* ---- what is shown ---- */

  paint() {
    const { video, engine } = this;
    face("play", video.paused ? "play" : "pause", video.paused ? "Play" : "Pause", "k");
    const silent = video.muted || video.volume === 0;
    face("mute", silent ? "muted" : "sound", silent ? "Sound on" : "Mute", "m");
    pressed("mute", silent);
    const volume = part("volume");
    if (document.activeElement !== volume) volume.value = video.muted ? 0 : video.volume;
    part("unmute").hidden = !engine || !video.muted || video.paused;
    const isFull = Boolean(document.fullscreenElement);
    face("full", isFull ? "small" : "full", isFull ? "Leave full screen" : "Full screen", "f");
    pressed("full", isFull);
    pressed("pip", document.pictureInPictureElement === video);
    part("captions").hidden = this.captionTracks.length === 0;
    pressed("captions", this.areCaptionsShown);
    this.paintDelay();
  }

  paintDelay() {
    const { engine, video } = this;
    const behind = engine?.behind ?? 0;
    const isLive = !video.paused && behind <= (engine?.liveWithin ?? 0);
    this.player.classList.toggle("at-live", isLive);
    setText(part("live-word"), isLive ? "Live" : "Go to live");
    part("behind").hidden = behind <= 0;
    setText(part("delay"), delay(behind));
    const { seekable, currentTime } = video;
    const start = seekable.length ? seekable.start(0) : 0;
    const live = engine?.livePosition ?? 0;
    part("seek-row").hidden = !this.canRewind || !engine || live - start < STEP_S;
    const seek = part("seek");
    if (part("seek-row").hidden || seek.matches(":active")) return;
    seek.min = Math.min(0, start - live);
    seek.value = Math.min(0, currentTime - live);
    seek.setAttribute("aria-valuetext", isLive ? "Live" : `${delay(behind)} behind live`);
  }

  announce(words) {
    setText(part("announce"), words);
  }

  /* ---- keys and pointer ---- */

  key(event) {
    if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented || part("help").open) return;
    if (event.key === "Escape" && !part("menu").hidden) {
      this.openMenu(false);
      return part("settings").focus();
    }
    const { target } = event;
    if (event.key.startsWith("Arrow") && target.matches?.(FIELDS)) return; // A slider's own.
    if (event.key === " " && target.matches?.(`button, summary, ${FIELDS}`)) return; // Presses it.
    const action = this.keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action || (action.repeats !== true && event.repeat)) return;
    event.preventDefault();
    action.act();
    this.wake();
  }

  keys = {
    " ": { act: () => this.toggle() },
    k: { act: () => this.toggle() },
    m: { act: () => this.mute() },
    f: { act: () => this.fullScreen() },
    c: { act: () => this.toggleCaptions() },
    l: { act: () => this.engine && this.actions.goLive() },
    "?": { act: () => this.help() },
    ArrowLeft: { act: () => this.step(-STEP_S), repeats: true },
    ArrowRight: { act: () => this.step(STEP_S), repeats: true },
    ArrowUp: { act: () => this.setVolume(this.video.volume + VOLUME_STEP), repeats: true },
    ArrowDown: { act: () => this.setVolume(this.video.volume - VOLUME_STEP), repeats: true },
  };

  /** A mouse's click plays and pauses; a finger's shows the controls. */
  listenToPointer() {
    const { player, video } = this;
    let isAwake = true;
    for (const name of ["pointermove", "pointerdown", "focusin"]) player.addEventListener(name, () => this.wake());
    video.addEventListener("pointerdown", () => {
      isAwake = !player.classList.contains("asleep");
    }, { capture: true });
    video.addEventListener("click", (event) => {
      if (!part("menu").hidden) return this.openMenu(false);
      if (event.pointerType === "mouse" || (!isAwake && this.video.paused)) this.toggle();
    });
    document.addEventListener("click", ({ target }) => {
      if (!part("menu").hidden && !part("menu").contains(target) && !part("settings").contains(target)) this.openMenu(false);
    });
  }

  wake() {
    clearTimeout(this.sleeping);
    this.player.classList.remove("asleep");
    this.sleeping = setTimeout(() => {
      const busy = this.video.paused || !part("menu").hidden || part("bar").contains(document.activeElement);
      this.player.classList.toggle("asleep", !busy);
    }, HIDE_MS);
  }
}

/** A button's icon and words, with its key. */
function face(id, name, words, key) {
  const button = part(id);
  if (button.dataset.face === name) return;
  button.dataset.face = name;
  button.title = `${words} (${key})`;
  button.querySelector("svg").replaceWith(icon(name));
  setText(button.querySelector("span"), words);
}

const pressed = (id, whether) => part(id).setAttribute("aria-pressed", String(whether));

/** How far behind live, in words: 4.2 s, 14 s, 1:05 min. */
export const delay = (seconds) =>
  seconds < 60
    ? `${seconds.toFixed(seconds < 10 ? 1 : 0)}\u00a0s`
    : `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}\u00a0min`;
