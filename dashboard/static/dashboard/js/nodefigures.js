// The figures of media nodes in words, for the wall's strip and the nodes' page. This module draws nothing.

import { bitrate, number, timeWithUtc, unit } from "./format.js";

/** The state of the node's telemetry: records are written, some were lost, or none are written now. */
function telemetryWords(records) {
  if (!records) return "–";
  if (records.telemetry_failing_since) return `Failing since ${timeWithUtc(records.telemetry_failing_since)}`;
  return records.telemetry_dropped ? `${number(records.telemetry_dropped)} lost` : "OK";
}

/** Words by the name of a figure on the nodes' page. */
export const NODE_FIGURES = {
  in_kbps: (node) => bitrate(node.in_kbps),
  out_kbps: (node) => bitrate(node.out_kbps),
  cpu_percent: (node) => unit(node.cpu_percent, "%"),
  publishers: (node) => number(node.publishers),
  players: (node) => (node.viewers ? `${number(node.players)}, ${number(node.viewers)} by HLS` : number(node.players)),
  connections: (node) => number(node.connections),
  relaying: (node) => number(node.relaying),
  disk_free_percent: (node) => unit(node.disk_free_percent, "%"),
  loop_delay_ms: (node) => unit(node.loop_delay_ms, "ms", 1),
  history_waiting: (node) => number(node.records?.history_waiting),
  telemetry: (node) => telemetryWords(node.records),
};

/** The figures in the wall's strip: [name, words, classes], without the ones that the node can't measure. */
export function stripFigures(node) {
  return [
    ["CPU", unit(node.cpu_percent, "%"), node.cpu_percent !== null],
    ["Disk free", unit(node.disk_free_percent, "%"), node.disk_free_percent !== null],
    ["Server lag", unit(node.loop_delay_ms, "ms", 1), true, "hide-s"],
    ["Ingest", bitrate(node.in_kbps), true],
    ["Egress", bitrate(node.out_kbps), true],
    ["Players", number(node.players), true, "hide-s"],
  ]
    .filter(([, , known]) => known)
    .map(([name, words, , classes]) => [name, words, classes]);
}

/** The health of a node: that of its worst issue. */
export function nodeHealth(issues) {
  return issues.some((issue) => issue.level === "bad") ? "bad" : issues.length ? "warning" : "good";
}
