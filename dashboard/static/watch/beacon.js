// How well it plays, told to the server: as totals since this viewer began, at the first picture, each half minute, and
// at the end.

const EACH_S = 30;
const TICK_MS = 500;

export class Beacon {
  /** `since`: when playing was wanted, by performance.now(). */
  constructor(video, engine, folder, since) {
    this.video = video;
    this.engine = engine;
    this.folder = folder;
    this.since = since;
    this.joinMs = null;
    this.stalls = this.stalledMs = this.watchedMs = 0;
    this.stalledAt = null;
    this.behind = 0;
    this.stop = new AbortController();
    const { signal } = this.stop;
    const on = (name, action) => video.addEventListener(name, action, { signal });
    on("playing", () => this.plays());
    on("timeupdate", () => this.plays());
    on("waiting", () => this.waits());
    on("pause", () => this.plays());
    addEventListener("pagehide", () => this.send(true), { signal });
    this.tickAt = performance.now();
    this.timer = setInterval(() => this.tick(), TICK_MS);
    this.told = 0;
  }

  plays() {
    if (this.joinMs === null && this.video.currentTime > 0 && this.video.readyState > 2) {
      this.joinMs = performance.now() - this.since;
      this.send(false);
    }
    if (this.stalledAt !== null) this.stalledMs += performance.now() - this.stalledAt;
    this.stalledAt = null;
  }

  waits() {
    if (this.joinMs === null || this.stalledAt !== null || this.video.paused || this.video.seeking) return;
    this.stalls += 1;
    this.stalledAt = performance.now();
  }

  tick() {
    const now = performance.now();
    const passed = now - this.tickAt;
    this.tickAt = now;
    if (this.joinMs === null || this.video.paused) return;
    if (this.stalledAt === null) {
      this.watchedMs += passed;
      this.behind = this.engine.behind;
    }
    if (now - this.told > EACH_S * 1000) this.send(false);
  }

  get totals() {
    const open = this.stalledAt === null ? 0 : performance.now() - this.stalledAt;
    const found = {
      join_ms: this.joinMs,
      stalls: this.stalls,
      stalled_ms: this.stalledMs + open,
      watched_ms: this.watchedMs,
      behind_ms: this.behind * 1000,
    };
    return Object.fromEntries(Object.entries(found).map(([name, value]) => [name, Math.max(0, Math.round(value))]));
  }

  send(isLast) {
    const { viewer } = this.engine;
    if (!viewer || this.joinMs === null) return;
    this.told = performance.now();
    const url = `${this.folder}beacon?viewer=${encodeURIComponent(viewer)}`;
    const body = JSON.stringify(this.totals);
    if (isLast && navigator.sendBeacon?.(url, body)) return;
    fetch(url, { method: "POST", body, keepalive: isLast, credentials: "omit" }).catch(() => {}); // It is but a figure.
  }

  close() {
    this.send(true);
    clearInterval(this.timer);
    this.stop.abort();
  }
}
