// How well a video plays, as totals since this viewer began. Times are in milliseconds of one clock, and are passed in.

export class PlayTotals {
  /** `since`: when playing was wanted; `now`: when the first tick begins. */
  constructor(since, now) {
    this.since = since;
    this.tickAt = now;
    this.joinMs = null; // How long the first picture took; null before it.
    this.stalls = this.stalledMs = this.watchedMs = 0;
    this.stalledAt = null; // When the stall began that goes on; null if none does.
    this.behindS = 0;
  }

  /** The video plays, or was paused: a stall is over. True if this is the first picture. */
  plays(now, hasPicture) {
    const isFirst = this.joinMs === null && hasPicture;
    if (isFirst) this.joinMs = now - this.since;
    if (this.stalledAt !== null) this.stalledMs += now - this.stalledAt;
    this.stalledAt = null;
    return isFirst;
  }

  /** The video waits for media. `isMeant`: it is paused, or somebody seeks in it, which is no stall. */
  waits(now, isMeant) {
    if (this.joinMs === null || this.stalledAt !== null || isMeant) return;
    this.stalls += 1;
    this.stalledAt = now;
  }

  /** Some time has passed. True if it counts: the video has begun, and is not paused. */
  tick(now, { isPaused, behindS }) {
    const passed = now - this.tickAt;
    this.tickAt = now;
    if (this.joinMs === null || isPaused) return false;
    if (this.stalledAt === null) {
      this.watchedMs += passed;
      this.behindS = behindS;
    }
    return true;
  }

  /** The totals as the server takes them: whole milliseconds, none below 0. */
  report(now) {
    const open = this.stalledAt === null ? 0 : now - this.stalledAt;
    const found = {
      join_ms: this.joinMs,
      stalls: this.stalls,
      stalled_ms: this.stalledMs + open,
      watched_ms: this.watchedMs,
      behind_ms: this.behindS * 1000,
    };
    return Object.fromEntries(Object.entries(found).map(([name, value]) => [name, Math.max(0, Math.round(value))]));
  }
}
