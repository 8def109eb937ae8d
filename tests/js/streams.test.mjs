import assert from "node:assert/strict";
import { test } from "node:test";

import { Streams } from "../../dashboard/static/dashboard/js/streams.js";

const stream = (id, node, fields = {}) => ({ id, node, state: "live", health: "good", since: 100, players: 0, ...fields });
const snapshot = (streams, fields = {}) => ({ kind: "snapshot", streams, ...fields });
const update = (node, streams = [], gone = [], fields = {}) => ({ kind: "update", node, streams, gone, ...fields });

function after(...messages) {
  const streams = new Streams();
  for (const message of messages) streams.take(message);
  return streams;
}

test("stream of a snapshot is shown as the snapshot has it", () => {
  const streams = new Streams();
  assert.deepEqual(streams.take(snapshot([stream(1, "n1")])), new Set([1]));
  assert.deepEqual(streams.get(1), stream(1, "n1"));
  assert.equal(streams.get(2), undefined);
});

test("update of some fields keeps the others", () => {
  const streams = after(snapshot([stream(1, "n1", { video_kbps: 1000, fps: 30 })]), update("n1", [{ id: 1, video_kbps: 2000 }]));
  assert.equal(streams.get(1).video_kbps, 2000);
  assert.equal(streams.get(1).fps, 30);
});

test("update may set a field to null or 0", () => {
  const streams = after(snapshot([stream(1, "n1", { rtt_ms: 14, players: 3 })]), update("n1", [{ id: 1, rtt_ms: null, players: 0 }]));
  assert.deepEqual([streams.get(1).rtt_ms, streams.get(1).players], [null, 0]);
});

test("update that arrives twice changes nothing more", () => {
  const changes = update("n1", [{ id: 1, video_kbps: 2000 }]);
  const once = after(snapshot([stream(1, "n1")]), changes);
  const twice = after(snapshot([stream(1, "n1")]), changes, changes);
  assert.deepEqual(twice.get(1), once.get(1));
});

test("update of a stream that is not known makes no stream", () => {
  const streams = new Streams();
  assert.deepEqual(streams.take(update("n1", [{ id: 1, video_kbps: 2000 }])), new Set());
  assert.equal(streams.get(1), undefined);
});

test("update with a whole stream makes it", () => assert.equal(after(update("n1", [stream(1, "n1")])).get(1).state, "live"));

test("update that arrives after the stream is gone makes no stream", () => {
  const streams = after(snapshot([stream(1, "n1")]), update("n1", [], [1]), update("n1", [{ id: 1, fps: 30 }]));
  assert.equal(streams.get(1), undefined);
});

test("update with fields that the page does not know keeps them", () =>
  assert.equal(after(snapshot([stream(1, "n1")]), update("n1", [{ id: 1, colour: "red" }])).get(1).colour, "red"));

test("update without a node is of the node that its streams name", () => {
  const streams = after(snapshot([stream(1, "n1")]), { kind: "update", streams: [{ id: 1, node: "n1", fps: 25 }], gone: [] });
  assert.equal(streams.get(1).fps, 25);
});

test("update makes another object, so that a card can compare", () => {
  const streams = after(snapshot([stream(1, "n1")]));
  const before = streams.get(1);
  streams.take(update("n1", [{ id: 1, fps: 25 }]));
  assert.notEqual(streams.get(1), before);
  assert.equal(before.fps, undefined);
});

test("stream that is gone twice, or was never known, is just touched", () => {
  const streams = after(snapshot([stream(1, "n1")]));
  assert.deepEqual(streams.take(update("n1", [], [1, 7])), new Set([1, 7]));
  assert.deepEqual(streams.take(update("n1", [], [1])), new Set([1]));
  assert.equal(streams.get(1), undefined);
});

test("snapshot takes out what it does not have, and touches it", () => {
  const streams = after(snapshot([stream(1, "n1"), stream(2, "n1")]));
  assert.deepEqual(streams.take(snapshot([stream(2, "n1")])), new Set([1, 2]));
  assert.equal(streams.get(1), undefined);
});

/* ---- several nodes ---- */

const publisher = stream(1, "n1");
const relay = stream(1, "n2", { state: "waiting", health: "none", since: null, players: 9 });

test("stream of two nodes is the publisher's, whatever their order", () => {
  assert.equal(after(snapshot([publisher, relay])).get(1).node, "n1");
  assert.equal(after(snapshot([relay, publisher])).get(1).node, "n1");
  assert.equal(after(snapshot([publisher], { others: [relay] })).get(1).node, "n1");
});

test("update of the other node does not change what is shown", () => {
  const streams = after(snapshot([publisher, relay]), update("n2", [{ id: 1, players: 99 }]));
  assert.equal(streams.get(1).players, 0);
});

test("stream that leaves its publisher's node is shown as the other node has it", () => {
  const streams = after(snapshot([publisher, relay]), update("n2", [{ id: 1, players: 99 }]), update("n1", [], [1]));
  assert.deepEqual([streams.get(1).state, streams.get(1).players], ["waiting", 99]);
  streams.take(update("n2", [], [1]));
  assert.equal(streams.get(1), undefined);
});

test("stream that leaves the other node stays its publisher's", () =>
  assert.equal(after(snapshot([publisher, relay]), update("n2", [], [1])).get(1).node, "n1"));

test("stream that waits on one node comes before one that is offline on another", () => {
  const offline = stream(1, "n1", { state: "offline", since: 500 });
  assert.equal(after(snapshot([offline, relay])).get(1).node, "n2");
});

test("stream that is live on two nodes is that of the later publisher", () => {
  const later = stream(1, "n2", { since: 200 });
  assert.equal(after(snapshot([publisher, later])).get(1).node, "n2");
  assert.equal(after(snapshot([later, publisher])).get(1).node, "n2");
});

test("stream that is the same on two nodes is that of the first name", () => {
  const other = stream(1, "n2");
  assert.equal(after(snapshot([other, publisher])).get(1).node, "n1");
});

/* ---- what operators said ---- */

test("marks touch the streams that are known", () => {
  const streams = after(snapshot([stream(1, "n1")]));
  const touched = streams.take(update("", [], [], { marks: { 1: { muted: [] }, 7: { muted: [] } } }));
  assert.deepEqual(touched, new Set([1]));
  assert.deepEqual([streams.marks.has(1), streams.marks.has(7)], [true, true]);
});

test("marks replace those of the same stream, and a snapshot's all of them", () => {
  const streams = after(
    snapshot([stream(1, "n1"), stream(2, "n1")], { marks: { 1: { muted: [1] }, 2: { muted: [2] } } }),
    update("", [], [], { marks: { 1: { muted: [] } } }),
  );
  assert.deepEqual(streams.marks.get(1), { muted: [] });
  assert.deepEqual(streams.marks.get(2), { muted: [2] });
  streams.take(snapshot([stream(1, "n1")]));
  assert.equal(streams.marks.size, 0);
});

/* ---- all of it ---- */

test("streams after a thousand random changes of two nodes are what the nodes know", () => {
  let seed = 7;
  const chance = () => (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 31;
  const nodes = { n1: new Map(), n2: new Map() };
  const order = ["live", "waiting"];
  const streams = new Streams();
  for (let turn = 0; turn < 1000; turn += 1) {
    const name = chance() < 0.5 ? "n1" : "n2";
    const known = nodes[name];
    const id = 1 + Math.floor(chance() * 5);
    if (chance() < 0.2) {
      known.delete(id);
      streams.take(update(name, [], [id]));
    } else {
      const fields = { state: order[Math.floor(chance() * 2)], video_kbps: Math.floor(chance() * 5000), since: null };
      const isNew = !known.has(id);
      known.set(id, { ...(known.get(id) ?? { id, node: name }), ...fields });
      streams.take(update(name, [isNew ? known.get(id) : { id, ...fields }]));
    }
    if (chance() < 0.02) streams.take(snapshot([...nodes.n1.values(), ...nodes.n2.values()]));
  }
  for (let id = 1; id <= 5; id += 1) {
    const found = [nodes.n1.get(id), nodes.n2.get(id)].filter(Boolean);
    const expected = found.find(({ state }) => state === "live") ?? found[0];
    assert.deepEqual(streams.get(id), expected);
  }
});
