// What plays the playlists: hls.js where there are Media Source Extensions, else the browser's own HLS (iPhone). Both are
// asked and told the same: `position`s are of the video's clock, in seconds.

const STALLS = 3; // So many within STALLS_MS of low latency, and it goes on without.
const STALLS_MS = 60_000;
// So many target durations behind live without it. HOLD-BACK's three are for players that may learn of a segment a whole target
// late; hls.js asks the packager for the next one and is answered when it is there.
const ORDINARY_TARGETS = 2.6;
const RECOVER_MS = 5_000;

const CONFIG = {
  enableWorker: false, // What comes is fMP4 already; and a worker would need another source in the page's policy.
  lowLatencyMode: true,
  maxLiveSyncPlaybackRate: 1.05, // Who fell a little behind catches up unheard.
  liveSyncOnStallIncrease: 0.3, // A stall costs that much more delay from then on, not hls.js's whole second.
  backBufferLength: 60,
  liveDurationInfinity: true,
  autoStartLoad: true,
};

let library = null;
/** hls.js is 600 KB: loaded when there is something to play. */
function load(url) {
  library ??= new Promise((done, fail) => {
    const script = document.createElement("script");
    script.src = url;
    script.onload = () => done(window.Hls);
    script.onerror = () => {
      library = null;
      fail(new Error("hls.js"));
    };
    document.head.append(script);
  });
  return library;
}

/**
 * An engine that plays `folder` in `video`; null: this browser has nothing for it. `on` has the callbacks failed(kind) and tracks().
 * `loadHls(url)` answers with hls.js.
 */
export async function makeEngine(video, folder, url, on, loadHls = load) {
  if (globalThis.MediaSource ?? globalThis.ManagedMediaSource) {
    const Hls = await loadHls(url);
    if (Hls.isSupported()) return new HlsEngine(Hls, video, folder, on);
  }
  return video.canPlayType("application/vnd.apple.mpegurl") ? new NativeEngine(video, folder, on) : null;
}

class HlsEngine {
  constructor(Hls, video, folder, on) {
    this.video = video;
    this.on = on;
    this.Hls = Hls;
    this.stalls = [];
    this.recoveredAt = -RECOVER_MS;
    const hls = new Hls(CONFIG);
    this.hls = hls;
    const { Events } = Hls;
    hls.on(Events.ERROR, (_, data) => this.error(data));
    hls.on(Events.MANIFEST_PARSED, () => on.tracks());
    hls.on(Events.LEVEL_SWITCHED, () => on.tracks());
    hls.on(Events.AUDIO_TRACKS_UPDATED, () => on.tracks());
    hls.on(Events.AUDIO_TRACK_SWITCHED, () => on.tracks());
    hls.loadSource(`${folder}index.m3u8`);
    hls.attachMedia(video);
  }

  error({ fatal, type, details }) {
    const { ErrorTypes, ErrorDetails } = this.Hls;
    if (details === ErrorDetails.BUFFER_STALLED_ERROR) this.stalled();
    if (!fatal) return;
    const unplayable =
      details === ErrorDetails.MANIFEST_INCOMPATIBLE_CODECS_ERROR ||
      details === ErrorDetails.BUFFER_INCOMPATIBLE_CODECS_ERROR ||
      details === ErrorDetails.BUFFER_ADD_CODEC_ERROR;
    if (unplayable) this.on.failed("codec");
    else if (type === ErrorTypes.MEDIA_ERROR && performance.now() - this.recoveredAt > RECOVER_MS) {
      this.recoveredAt = performance.now();
      this.hls.recoverMediaError();
    } else this.on.failed(type === ErrorTypes.NETWORK_ERROR ? "network" : "media");
  }

  stalled() {
    const now = performance.now();
    this.stalls = [...this.stalls.filter((at) => now - at < STALLS_MS), now];
    if (this.stalls.length >= STALLS && this.hls.lowLatencyMode) this.toOrdinaryLatency();
  }

  /** Back into what was shown already, which is at hand: nobody waits until a whole segment is there. */
  toOrdinaryLatency() {
    const { hls, video } = this;
    hls.lowLatencyMode = false;
    hls.targetLatency = ORDINARY_TARGETS * hls.latestLevelDetails.targetduration;
    video.currentTime = Math.min(video.currentTime, hls.liveSyncPosition);
  }

  get isLowLatency() {
    const details = this.hls.latestLevelDetails;
    return this.hls.lowLatencyMode && Boolean(details?.partTarget);
  }

  /** By which the server counts this viewer. */
  get viewer() {
    const { url } = this.hls.levels[0] ?? {};
    return url ? new URL([url].flat()[0], location.href).searchParams.get("viewer") : null;
  }

  get behind() {
    return this.hls.latency;
  }

  /** Further behind than this is no longer live. */
  get liveWithin() {
    return (this.hls.targetLatency ?? 6) + 3;
  }

  get livePosition() {
    return this.hls.liveSyncPosition;
  }

  get isEnded() {
    return this.hls.latestLevelDetails?.live === false;
  }

  get qualities() {
    const { levels, currentLevel, autoLevelEnabled } = this.hls;
    return levels.length < 2
      ? []
      : [
          { id: -1, words: automatic(levels[currentLevel]), chosen: autoLevelEnabled },
          ...levels.map((level, id) => ({ id, words: quality(level, id), chosen: !autoLevelEnabled && id === currentLevel })),
        ];
  }

  chooseQuality(id) {
    this.hls.nextLevel = id;
  }

  get tracks() {
    const { audioTracks, audioTrack } = this.hls;
    return audioTracks.length < 2
      ? []
      : audioTracks.map(({ name, lang }, id) => ({ id, words: name || lang || `Track ${id + 1}`, chosen: id === audioTrack }));
  }

  chooseTrack(id) {
    this.hls.audioTrack = id;
  }

  close() {
    this.hls.destroy();
  }
}

const automatic = (level) => (level?.height ? `Automatic (${level.height}p)` : "Automatic");
const quality = ({ height, bitrate, name }, id) =>
  [height ? `${height}p` : name || `Picture ${id + 1}`, bitrate ? `${(bitrate / 1e6).toFixed(1)} Mbit/s` : ""]
    .filter(Boolean)
    .join(", ");

class NativeEngine {
  constructor(video, folder, on) {
    this.video = video;
    this.stop = new AbortController();
    const { signal } = this.stop;
    this.viewer = null; // The browser keeps it to itself.
    this.isLowLatency = false;
    this.liveWithin = 12;
    this.qualities = [];
    video.addEventListener("error", () => on.failed(video.error?.code === 2 ? "network" : "media"), { signal });
    video.addEventListener("loadedmetadata", () => on.tracks(), { signal });
    video.audioTracks?.addEventListener?.("addtrack", () => on.tracks(), { signal });
    video.src = `${folder}index.m3u8`;
  }

  get livePosition() {
    const { seekable } = this.video;
    const end = seekable.length ? seekable.end(seekable.length - 1) : NaN;
    return Number.isFinite(end) ? end - 2 : null;
  }

  get behind() {
    const { seekable, currentTime } = this.video;
    const behind = seekable.length ? seekable.end(seekable.length - 1) - currentTime : 0;
    return Number.isFinite(behind) ? Math.max(0, behind) : 0;
  }

  get isEnded() {
    return this.video.ended;
  }

  get tracks() {
    const tracks = [...(this.video.audioTracks ?? [])];
    return tracks.length < 2
      ? []
      : tracks.map(({ label, language, enabled }, id) => ({ id, words: label || language || `Track ${id + 1}`, chosen: enabled }));
  }

  chooseTrack(id) {
    [...this.video.audioTracks].forEach((track, index) => {
      track.enabled = index === id;
    });
  }

  chooseQuality() {}

  close() {
    this.stop.abort();
    this.video.removeAttribute("src");
    this.video.load();
  }
}
