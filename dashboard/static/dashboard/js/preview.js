// The live preview, muted, by mpegts.js from the media listener: FLV in a WebSocket, or by HTTP where that fails. Each
// connection has a URL of its own, whose token is asked for at that moment and is good for a minute.

import { csrfToken } from "./actions.js";
import { setAttribute, setText } from "./dom.js";
import { number } from "./format.js";

const CHOICE = "rtmpweb.preview"; // In this browser: "on" starts it with the page.
const AGAIN_S = [1, 2, 4, 8, 15];
const STUCK_S = 8; // For so long nothing may be played of a stream that is live.
const HIDDEN_S = 30; // A tab that nobody sees needs no media.
const BEHIND_S = 10; // Further behind than this it begins anew.

// What mpegts.js takes out of FLV; the browser must play it, too.
const PICTURES = new Set(["H.264", "H.265", "AV1"]);
const SOUNDS = /^(x?HE-)?AAC|^MP3$|^Opus$/; // AAC has a name for each of its object types.

const CONFIG = {
  enableStashBuffer: false,
  liveBufferLatencyChasing: true,
  liveBufferLatencyMaxLatency: 3,
  liveBufferLatencyMinRemain: 0.8,
  lazyLoad: false,
  autoCleanupSourceBuffer: true,
  autoCleanupMaxBackwardDuration: 30,
  autoCleanupMinBackwardDuration: 10,
  referrerPolicy: "no-referrer",
};

/** {sentence} for what can't be played here; else {sound}: whether its sound can. */
function playable(media) {
  const { video_codec: picture, audio_codec: sound } = media;
  const name = (codec) => `This stream’s picture is ${codec}`;
  if (!window.MediaSource) return { sentence: "This browser plays no live media. The picture below is the last one." };
  if (!picture) return { sentence: "Audio only: no picture to show." };
  const plays = (kind, codec) => !codec || MediaSource.isTypeSupported(`${kind}/mp4; codecs="${codec}"`);
  if (!PICTURES.has(picture) || !plays("video", media.video_codec_string))
    return { sentence: `${name(picture)}, which this browser doesn’t play here. A player such as VLC does.` };
  return { sound: !sound || (SOUNDS.test(sound) && plays("audio", media.audio_codec_string)) };
}

let library = null;
/** mpegts.js is 275 KB: loaded by whom it is for. */
function load(url) {
  library ??= new Promise((done, fail) => {
    const script = document.createElement("script");
    script.src = url;
    script.onload = () => {
      window.mpegts.LoggingControl.enableAll = false; // Its lines would have the token.
      done(window.mpegts);
    };
    script.onerror = () => {
      library = null;
      fail(new Error("mpegts.js"));
    };
    document.head.append(script);
  });
  return library;
}

export class Preview {
  /** `card` has video, img, .tag, .say, and buttons by data-preview; `url` answers a POST with where media is. */
  constructor(card, url) {
    this.card = card;
    this.url = url;
    this.video = card.querySelector("video");
    this.picture = card.querySelector("img");
    this.wanted = remembered();
    this.player = null;
    this.tries = 0;
    this.moved = { at: 0, time: 0 };
    this.note = "";
    this.offer = document.getElementById("watch-preview"); // Beside the other ways to watch.
    this.offer.querySelector("button").addEventListener("click", () => {
      this.choose(true);
      card.scrollIntoView({ block: "nearest" });
    });
    const on = (name, action) => card.querySelector(`[data-preview=${name}]`).addEventListener("click", action);
    on("start", () => this.choose(true));
    on("stop", () => this.choose(false));
    on("sound", () => this.toggleSound());
    on("full", () => this.fullScreen());
    document.addEventListener("visibilitychange", () => this.visibility());
    addEventListener("pagehide", () => this.close());
    this.picture.addEventListener("error", () => setAttribute(this.picture, "src", null));
  }

  choose(wanted) {
    this.wanted = wanted;
    remember(wanted);
    this.tries = 0;
    this.retryAt = 0;
    if (!wanted) this.close();
    this.paint(this.stream, this.thumbnail);
  }

  visibility() {
    clearTimeout(this.leaving);
    if (document.hidden) this.leaving = setTimeout(() => this.close(), HIDDEN_S * 1000);
    else this.paint(this.stream, this.thumbnail);
  }

  /** Once a second. `thumbnail`: the URL of the last picture, or null. */
  paint(stream, thumbnail) {
    this.stream = stream;
    this.thumbnail = thumbnail;
    const live = stream.state === "live";
    const { sentence, sound } = live ? this.playable(stream.media ?? {}) : {};
    const words = !live
      ? this.wanted
        ? "Off air. The preview begins again with the stream."
        : "Off air."
      : (sentence ?? "");
    if (this.player) this.watch(live);
    else if (this.wanted && live && !sentence && !document.hidden) this.open(sound);
    if (!live || sentence) this.close();
    this.show({ words: words || this.note, canStart: live && !sentence && !this.wanted });
    // Off air the last picture stays: the server may have forgotten it.
    if (live && !this.plays) setAttribute(this.picture, "src", thumbnail);
    this.picture.hidden = this.plays || !this.picture.hasAttribute("src");
    this.card.hidden = !live && !this.wanted && this.picture.hidden;
    this.card.querySelector(".bar").hidden = !live && !this.wanted;
    this.showOffer(live, sentence);
  }

  /** Where nothing sends media no codec matters. */
  playable(media) {
    const { off } = this.offer.dataset;
    return off ? { sentence: off } : playable(media);
  }

  showOffer(live, sentence) {
    const words = live ? (sentence ?? (this.wanted ? "The preview is on." : "")) : "Off air.";
    setText(this.offer.querySelector(".sub"), this.offer.dataset.off || words);
    this.offer.querySelector("button").hidden = !live || Boolean(sentence) || this.wanted;
  }

  get plays() {
    return Boolean(this.player && this.video.videoWidth);
  }

  show({ words, canStart }) {
    const say = this.card.querySelector(".say");
    setText(say, this.plays ? "" : words);
    say.hidden = say.textContent === "";
    this.button("start").hidden = !canStart;
    this.button("stop").hidden = !this.wanted;
    this.button("sound").hidden = this.button("full").hidden = this.video.hidden = !this.plays;
    const tag = this.card.querySelector(".tag");
    setText(tag, this.tag());
    tag.hidden = tag.textContent === "";
  }

  tag() {
    if (!this.player) return "";
    if (!this.plays) return "Connecting";
    const behind = `${number(this.behind(), 1)}\u00a0s behind`;
    if (!this.hasSound) return `${behind}, sound not playable here`;
    return this.video.muted ? `Muted, ${behind}` : behind;
  }

  /** Seconds of media that are here and not played yet. */
  behind() {
    const { buffered, currentTime } = this.video;
    return buffered.length ? Math.max(0, buffered.end(buffered.length - 1) - currentTime) : 0;
  }

  button(name) {
    return this.card.querySelector(`[data-preview=${name}]`);
  }

  /* ---- the player ---- */

  async open(sound) {
    if (this.opening || Date.now() < (this.retryAt ?? 0)) return;
    this.opening = true;
    try {
      const mpegts = await load(this.card.dataset.library);
      const urls = await this.askUrls();
      if (!urls || !this.wanted) return;
      const url = this.tries % 2 ? urls.flv_url : urls.ws_url;
      this.hasSound = sound;
      this.start(mpegts, { type: "flv", isLive: true, cors: true, url, ...(sound ? {} : { hasAudio: false }) });
    } catch {
      this.failed("The preview could not be loaded.");
    } finally {
      this.opening = false;
    }
  }

  start(mpegts, source) {
    const player = mpegts.createPlayer(source, CONFIG);
    this.player = player;
    this.moved = { at: Date.now(), time: -1 };
    player.on(mpegts.Events.ERROR, (_kind, detail) => {
      if (player === this.player) this.broken(detail);
    });
    player.on(mpegts.Events.LOADING_COMPLETE, () => {
      if (player === this.player) this.broken("ended");
    });
    player.attachMediaElement(this.video);
    player.load();
    player.play()?.catch(() => {}); // A closing player's.
  }

  async askUrls() {
    const response = await fetch(this.url, {
      method: "POST",
      headers: { Accept: "application/json", "X-CSRFToken": csrfToken() },
    });
    if (response.ok) return response.json();
    const { detail } = await response.json();
    this.failed(detail);
    return null;
  }

  broken(detail) {
    this.close();
    this.failed(detail === "CodecUnsupported" ? "This browser can’t play what the encoder sends." : "");
  }

  failed(why) {
    const seconds = AGAIN_S[Math.min(this.tries, AGAIN_S.length - 1)];
    this.tries += 1;
    this.retryAt = Date.now() + seconds * 1000;
    this.note = `${why || "The preview was interrupted."} Next try in ${seconds}\u00a0s.`;
  }

  /** A publisher's short absence passes by itself; what stands still beside a live stream, or is far behind, does not. */
  watch(live) {
    const { currentTime } = this.video;
    if (currentTime !== this.moved.time) {
      this.moved = { at: Date.now(), time: currentTime };
      if (currentTime > 0) {
        this.tries = 0;
        this.note = "";
      }
    }
    const isStuck = Date.now() - this.moved.at > STUCK_S * 1000;
    if (live && (isStuck || this.behind() > BEHIND_S)) this.broken("stuck");
  }

  close() {
    const { player } = this;
    this.player = null;
    if (!player) return;
    player.destroy();
    this.video.removeAttribute("src");
    this.video.load(); // Forget the last picture.
    this.video.muted = true;
  }

  toggleSound() {
    this.video.muted = !this.video.muted;
    const words = this.video.muted ? "Sound on" : "Sound off";
    setText(this.button("sound").querySelector("span"), words);
    setAttribute(this.button("sound"), "aria-pressed", String(!this.video.muted));
    this.button("sound").title = words;
    this.paint(this.stream, this.thumbnail);
  }

  fullScreen() {
    (this.video.requestFullscreen ?? this.video.webkitEnterFullscreen)?.call(this.video);
  }
}

function remembered() {
  try {
    return localStorage.getItem(CHOICE) === "on";
  } catch {
    return false; // A browser that keeps nothing.
  }
}

function remember(wanted) {
  try {
    localStorage.setItem(CHOICE, wanted ? "on" : "off");
  } catch {
    // As above.
  }
}
