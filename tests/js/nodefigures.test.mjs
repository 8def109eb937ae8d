import assert from "node:assert/strict";
import { test } from "node:test";

import { NODE_FIGURES, nodeHealth, stripFigures } from "../../dashboard/static/dashboard/js/nodefigures.js";
import { plain, utc } from "./support.mjs";

const NODE = {
  node: "n1",
  cpu_percent: 12,
  disk_free_percent: 60.4,
  loop_delay_ms: 1.25,
  in_kbps: 2600,
  out_kbps: 10_000,
  players: 1200,
};

test("strip of a node has its figures in their units", () => {
  const words = Object.fromEntries(stripFigures(NODE).map(([name, text]) => [name, plain(text)]));
  assert.deepEqual(words, {
    CPU: "12 %",
    "Disk free": "60 %",
    "Server lag": "1.3 ms",
    Ingest: "2,600 kbit/s",
    Egress: "10.0 Mbit/s",
    Players: "1,200",
  });
});

test("strip of a node that can't measure its processor or disk leaves them out", () => {
  const names = stripFigures({ ...NODE, cpu_percent: null, disk_free_percent: null }).map(([name]) => name);
  assert.deepEqual(names, ["Server lag", "Ingest", "Egress", "Players"]);
});

test("health of a node is that of its worst issue", () => {
  assert.equal(nodeHealth([]), "good");
  assert.equal(nodeHealth([{ level: "warning" }]), "warning");
  assert.equal(nodeHealth([{ level: "warning" }, { level: "bad" }]), "bad");
});

test("players of a node name those that watch by HLS", () => {
  assert.equal(NODE_FIGURES.players({ players: 12, viewers: 0 }), "12");
  assert.equal(NODE_FIGURES.players({ players: 12 }), "12");
  assert.equal(NODE_FIGURES.players({ players: 1200, viewers: 9 }), "1,200, 9 by HLS");
});

test("figures that a node does not report are dashes", () => {
  for (const name of ["cpu_percent", "connections", "relaying", "disk_free_percent", "loop_delay_ms", "history_waiting", "telemetry"])
    assert.equal(NODE_FIGURES[name]({}), "–", name);
});

test("telemetry of a node is OK unless something was lost or can't be written", () => {
  const words = (records) => NODE_FIGURES.telemetry({ records });
  assert.equal(words({ telemetry_failing_since: null, telemetry_dropped: 0 }), "OK");
  assert.equal(words({ telemetry_failing_since: null, telemetry_dropped: 1200 }), "1,200 lost");
  assert.equal(words({ telemetry_failing_since: utc("2026-11-14 13:31:46"), telemetry_dropped: 5 }), "Failing since 13:31:46 UTC");
});
