// A WebSocket that comes back: a snapshot first, then updates. Whoever uses it hears of three states: "connecting",
// "live" and "stale" (with since when, and when the next try is).

const BACKOFF_S = [1, 2, 4, 8, 15];
const JITTER = 0.2;
const SILENCE_CHECK_MS = 1000;
// Close codes of the server's consumers that no further try can heal.
const REFUSALS = { 4401: "logged-out", 4403: "not-allowed", 4404: "no-stream", 4429: "too-many" };

export class LiveSocket {
  /**
   * `path` is the address on this host. `onMessage(message)` gets each parsed JSON text; `onState(state)` gets
   * {link, since, retryAt, refused}. `silenceS()` answers how long nothing may come before the figures are called
   * stale, or null while silence is normal.
   */
  constructor(path, { onMessage, onState, silenceS = () => null }) {
    this.url = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;
    this.onMessage = onMessage;
    this.onState = onState;
    this.silenceS = silenceS;
    this.tries = 0;
    this.lastAt = null; // Server's time of the latest message, seconds since the epoch.
    this.lastHeard = 0; // Our clock at that moment, ms.
    this.state = { link: "connecting", since: null, retryAt: null, refused: null };
    this.open();
    this.watch = setInterval(() => this.checkSilence(), SILENCE_CHECK_MS);
    // The page was asleep, or the network came back: don't wait for the backoff to end.
    addEventListener("online", () => this.retry());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.retry();
    });
    addEventListener("pagehide", () => this.socket?.close());
    addEventListener("pageshow", (event) => {
      if (event.persisted) this.retry();
    });
  }

  open() {
    clearTimeout(this.timer);
    const socket = new WebSocket(this.url);
    this.socket = socket;
    this.heard = false;
    socket.addEventListener("message", (event) => {
      if (socket !== this.socket) return;
      const message = JSON.parse(event.data);
      this.heard = true;
      this.tries = 0;
      this.lastHeard = performance.now();
      this.lastAt = message.at ?? Date.now() / 1000;
      this.change({ link: "live", since: null, retryAt: null, refused: null });
      this.onMessage(message);
    });
    socket.addEventListener("close", (event) => {
      if (socket !== this.socket) return;
      if (event.code in REFUSALS) this.stale(null, REFUSALS[event.code]);
      else this.lost();
    });
  }

  /** The connection is gone, or never came. */
  lost() {
    const seconds = BACKOFF_S[Math.min(this.tries, BACKOFF_S.length - 1)] * (1 + JITTER * (2 * Math.random() - 1));
    this.tries += 1;
    this.stale(Date.now() + seconds * 1000);
    this.timer = setTimeout(() => this.open(), seconds * 1000);
  }

  stale(retryAt, refused = null) {
    const since = this.state.since ?? this.lastAt ?? Date.now() / 1000;
    this.change({ link: "stale", since, retryAt, refused });
  }

  /** Try now: unless the connection stands, or was refused for good. */
  retry() {
    if (
      this.state.refused ||
      this.socket.readyState === WebSocket.OPEN ||
      this.socket.readyState === WebSocket.CONNECTING
    )
      return;
    this.tries = 0;
    this.open();
  }

  /** An open socket on which nothing comes is no better than a closed one. */
  checkSilence() {
    const limit = this.silenceS();
    const open = this.socket.readyState === WebSocket.OPEN && this.heard;
    if (limit === null || !open || performance.now() - this.lastHeard < limit * 1000) return;
    const silent = this.socket;
    this.socket = null;
    silent.close();
    this.socket = silent;
    this.lost();
  }

  change(state) {
    const before = this.state;
    this.state = state;
    const same = Object.keys(state).every((name) => state[name] === before[name]);
    if (!same || before.link === "connecting") this.onState(state);
  }
}
