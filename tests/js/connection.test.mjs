import assert from "node:assert/strict";
import { test } from "node:test";

import { backoffS, LiveSocket, ServerClock, staleWords } from "../../dashboard/static/dashboard/js/connection.js";
import { inZone, plain, utc } from "./support.mjs";

/* ---- the server's clock ---- */

test("server's clock before any message is our own", () => assert.equal(new ServerClock().now(1000), 1000));

test("server's clock after a message is ahead or behind by its offset", () => {
  const clock = new ServerClock();
  clock.take(1030, 1000);
  assert.equal(clock.now(1001), 1031);
});

test("server's clock keeps the message that took the shortest way", () => {
  const clock = new ServerClock();
  for (const [at, own] of [[1000, 1000.2], [1001, 1001.05], [1002, 1003.5]]) clock.take(at, own);
  assert.ok(Math.abs(clock.now(2000) - 1999.95) < 1e-6);
});

test("server's clock that is set back by more than 5 s is followed", () => {
  const clock = new ServerClock();
  clock.take(1030, 1000);
  clock.take(1025, 1000);
  assert.equal(clock.now(1000), 1030, "5 s may be a slow way");
  clock.take(1020, 1000);
  assert.equal(clock.now(1000), 1020);
});

/* ---- the next try ---- */

test("wait before the next try grows up to 15 s", () =>
  assert.deepEqual([0, 1, 2, 3, 4, 5, 99].map((tries) => backoffS(tries, 0.5)), [1, 2, 4, 8, 15, 15, 15]));

test("wait before the next try differs by a fifth at most", () => {
  assert.equal(backoffS(0, 0), 0.8);
  assert.equal(backoffS(0, 1), 1.2);
  for (let tries = 0; tries < 5; tries += 1) assert.ok(Math.abs(backoffS(tries) / backoffS(tries, 0.5) - 1) <= 0.2);
});

/* ---- the banner ---- */

const SINCE = utc("2026-11-14 13:31:46");

test("banner of a lost connection says since when, and when the next try is", () => {
  const words = staleWords({ since: SINCE, retryAt: 10_000, refused: null }, 5500);
  assert.equal(words.since, "Stale since 13:31:46.");
  assert.match(words.problem, /^The connection to the server is lost/);
  assert.equal(plain(words.next), "Next try in 5 s.");
  assert.equal(words.button, "Try now");
});

test("banner in another zone has UTC next to its time", (t) => {
  inZone(t, "Europe/Berlin");
  assert.equal(staleWords({ since: SINCE, retryAt: 0, refused: null }, 0).since, "Stale since 14:31:46 (13:31:46 UTC).");
});

test("banner whose next try is due says so", () => {
  assert.equal(staleWords({ since: SINCE, retryAt: 5000, refused: null }, 5000).next, "Trying now.");
  assert.equal(staleWords({ since: SINCE, retryAt: 5000, refused: null }, 9000).next, "Trying now.");
  assert.equal(plain(staleWords({ since: SINCE, retryAt: 5001, refused: null }, 5000).next), "Next try in 1 s.");
});

for (const [refused, problem, button] of [
  ["logged-out", /^You are logged out/, "Log in"],
  ["not-allowed", /^Your role no longer allows this page/, "Load again"],
  ["no-stream", /^The stream was removed/, "Load again"],
  ["too-many", /^Too many pages are open/, "Load again"],
])
  test(`banner of a page that is refused as ${refused} has no next try`, () => {
    const words = staleWords({ since: SINCE, retryAt: null, refused }, 0);
    assert.match(words.problem, problem);
    assert.deepEqual([words.next, words.button], ["", button]);
  });

/* ---- the socket ---- */

class FakeSocket extends EventTarget {
  static CONNECTING = 0;
  static OPEN = 1;
  static CLOSED = 3;
  static made = [];

  constructor(url) {
    super();
    this.url = url;
    this.readyState = FakeSocket.CONNECTING;
    FakeSocket.made.push(this);
  }

  say(message) {
    this.readyState = FakeSocket.OPEN;
    this.dispatchEvent(Object.assign(new Event("message"), { data: JSON.stringify(message) }));
  }

  end(code) {
    this.readyState = FakeSocket.CLOSED;
    this.dispatchEvent(Object.assign(new Event("close"), { code }));
  }

  close() {
    this.readyState = FakeSocket.CLOSED;
  }
}

/** A LiveSocket without a browser. `states` and `messages` are what it reported; time passes only by `pass`. */
function connected(t, { silenceS = () => null, protocol = "http:" } = {}) {
  const [states, messages, timers] = [[], [], []];
  const page = new EventTarget();
  const clock = { ms: 0 };
  FakeSocket.made = [];
  const globals = {
    WebSocket: FakeSocket,
    location: { protocol, host: "example.org" },
    document: Object.assign(new EventTarget(), { hidden: false }),
    addEventListener: page.addEventListener.bind(page),
  };
  Object.assign(globalThis, globals);
  t.after(() => Object.keys(globals).forEach((name) => delete globalThis[name]));
  t.mock.method(globalThis, "setTimeout", (run, ms) => timers.push({ run, at: clock.ms + ms }));
  t.mock.method(globalThis, "clearTimeout", (id) => id && (timers[id - 1].at = Infinity));
  t.mock.method(globalThis, "setInterval", () => 0);
  t.mock.method(performance, "now", () => clock.ms);
  t.mock.method(Date, "now", () => 1_000_000 + clock.ms);
  t.mock.method(Math, "random", () => 0.5);
  const socket = new LiveSocket("/ws/live/", {
    onMessage: (message) => messages.push(message),
    onState: (state) => states.push(state),
    silenceS,
  });
  const pass = (ms) => {
    clock.ms += ms;
    for (const timer of timers.filter(({ at }) => at <= clock.ms)) {
      timer.at = Infinity;
      timer.run();
    }
    socket.checkSilence();
  };
  const wakeUp = () => page.dispatchEvent(new Event("online"));
  return { socket, states, messages, pass, wakeUp, latest: () => FakeSocket.made.at(-1) };
}

test("socket is opened on the page's host, with TLS where the page has it", (t) => {
  assert.equal(connected(t).latest().url, "ws://example.org/ws/live/");
  assert.equal(connected(t, { protocol: "https:" }).latest().url, "wss://example.org/ws/live/");
});

test("socket is live from its first message on, and reports that once", (t) => {
  const { latest, states, messages } = connected(t);
  latest().say({ at: 500, kind: "snapshot" });
  latest().say({ at: 501, kind: "update" });
  assert.deepEqual(states.map(({ link }) => link), ["live"]);
  assert.deepEqual(messages.map(({ kind }) => kind), ["snapshot", "update"]);
});

test("socket that closes is stale since its last message, and tries again", (t) => {
  const { latest, states, pass } = connected(t);
  latest().say({ at: 500 });
  latest().end(1006);
  assert.deepEqual(states.at(-1), { link: "stale", since: 500, retryAt: 1_001_000, refused: null });
  pass(999);
  assert.equal(FakeSocket.made.length, 1);
  pass(1);
  assert.equal(FakeSocket.made.length, 2);
});

test("socket whose tries fail waits longer each time, and stays stale since the same time", (t) => {
  const { latest, states, pass } = connected(t);
  latest().say({ at: 500 });
  const waits = [];
  for (const wait of [1000, 2000, 4000]) {
    latest().end(1006);
    waits.push(states.at(-1).retryAt);
    pass(wait);
  }
  assert.deepEqual(waits, [1_001_000, 1_003_000, 1_007_000]);
  assert.deepEqual(states.slice(1).map(({ since }) => since), [500, 500, 500]);
});

test("socket that comes back is live, and its next wait is short again", (t) => {
  const { latest, states, pass } = connected(t);
  latest().say({ at: 500 });
  latest().end(1006);
  pass(1000);
  latest().say({ at: 510 });
  assert.equal(states.at(-1).link, "live");
  latest().end(1006);
  assert.deepEqual(states.at(-1), { link: "stale", since: 510, retryAt: 1_002_000, refused: null });
});

test("socket that never opened is stale since now", (t) => {
  const { latest, states } = connected(t);
  latest().end(1006);
  assert.deepEqual([states.at(-1).link, states.at(-1).since], ["stale", 1000]);
});

for (const [code, refused] of [[4401, "logged-out"], [4403, "not-allowed"], [4404, "no-stream"], [4429, "too-many"]])
  test(`socket that is closed with ${code} is refused as ${refused}, and does not try again`, (t) => {
    const { latest, states, pass, wakeUp } = connected(t);
    latest().say({ at: 500 });
    latest().end(code);
    assert.deepEqual(states.at(-1), { link: "stale", since: 500, retryAt: null, refused });
    pass(60_000);
    wakeUp();
    assert.equal(FakeSocket.made.length, 1);
  });

test("socket that is closed with another code tries again", (t) => {
  const { latest, states } = connected(t);
  latest().say({ at: 500 });
  latest().end(4503);
  assert.equal(states.at(-1).refused, null);
});

test("socket on which nothing comes for the limit is stale, and its late messages do not count", (t) => {
  const { latest, states, messages, pass } = connected(t, { silenceS: () => 5 });
  latest().say({ at: 500 });
  const silent = latest();
  pass(4999);
  assert.equal(states.at(-1).link, "live");
  pass(1);
  assert.equal(states.at(-1).link, "stale");
  assert.equal(silent.readyState, FakeSocket.CLOSED);
  pass(1000);
  silent.say({ at: 501 });
  silent.end(1006);
  assert.equal(messages.length, 1);
  assert.equal(FakeSocket.made.length, 2);
});

test("socket that opens and says nothing yet is not silent", (t) => {
  const { latest, states, pass } = connected(t, { silenceS: () => 5 });
  latest().readyState = FakeSocket.OPEN;
  pass(60_000);
  assert.deepEqual(states, []);
});

test("socket on which silence is normal stays live", (t) => {
  const { latest, states, pass } = connected(t, { silenceS: () => null });
  latest().say({ at: 500 });
  pass(3_600_000);
  assert.equal(states.at(-1).link, "live");
});

test("socket tries at once when the network is back, and only then", (t) => {
  const { latest, wakeUp } = connected(t);
  latest().say({ at: 500 });
  wakeUp();
  assert.equal(FakeSocket.made.length, 1, "it is open");
  latest().end(1006);
  wakeUp();
  assert.equal(FakeSocket.made.length, 2);
  wakeUp();
  assert.equal(FakeSocket.made.length, 2, "it is on its way");
});

test("socket that tried at once when the network was back waits a short time again", (t) => {
  const { latest, states, pass, wakeUp } = connected(t);
  latest().end(1006);
  pass(1000);
  latest().end(1006);
  wakeUp();
  latest().end(1006);
  assert.equal(states.at(-1).retryAt, 1_002_000);
});

test("message without a time counts as of now", (t) => {
  const { latest, states } = connected(t);
  latest().say({ kind: "relays" });
  latest().end(1006);
  assert.equal(states.at(-1).since, 1000);
});
