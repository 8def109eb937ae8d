// How well it plays, told to the server: as totals since this viewer began, at the first picture, each half minute, and
// at the end.

import { PlayTotals } from "./playtotals.js";

const EACH_S = 30;
const TICK_MS = 500;

export class Beacon {
  /** `since`: when playing was wanted, by performance.now(). */
  constructor(video, engine, folder, since) {
    this.video = video;
    this.engine = engine;
    this.folder = folder;
    this.totals = new PlayTotals(since, performance.now());
    this.stop = new AbortController();
    const { signal } = this.stop;
    const on = (name, action) => video.addEventListener(name, action, { signal });
    on("playing", () => this.plays());
    on("timeupdate", () => this.plays());
    on("waiting", () => this.waits());
    on("pause", () => this.plays());
    addEventListener("pagehide", () => this.send(true), { signal });
    this.timer = setInterval(() => this.tick(), TICK_MS);
    this.told = 0;
  }

  plays() {
    const { currentTime, readyState } = this.video;
    if (this.totals.plays(performance.now(), currentTime > 0 && readyState > 2)) this.send(false);
  }

  waits() {
    this.totals.waits(performance.now(), this.video.paused || this.video.seeking);
  }

  tick() {
    const now = performance.now();
    const counts = this.totals.tick(now, { isPaused: this.video.paused, behindS: this.engine.behind });
    if (counts && now - this.told > EACH_S * 1000) this.send(false);
  }

  send(isLast) {
    const { viewer } = this.engine;
    if (!viewer || this.totals.joinMs === null) return;
    this.told = performance.now();
    const url = `${this.folder}beacon?viewer=${encodeURIComponent(viewer)}`;
    const body = JSON.stringify(this.totals.report(this.told));
    if (isLast && navigator.sendBeacon?.(url, body)) return;
    fetch(url, { method: "POST", body, keepalive: isLast, credentials: "omit" }).catch(() => {}); // It is but a figure.
  }

  close() {
    this.send(true);
    clearInterval(this.timer);
    this.stop.abort();
  }
}
