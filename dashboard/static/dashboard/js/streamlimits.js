// The limits by which a stream's charts are judged: from the checks' limits ({warning, bad}), the stream's target bitrate
// and the frame rate that its encoder claims. This module draws nothing.

import { unit } from "./format.js";

const MOST_MARKS = 4; // More than these on one chart can't be read.

/** A limit in % of a value; undefined without a limit. */
const percent = (limit, value) => (limit === null || limit === undefined ? undefined : (limit / 100) * value);

/** The frame rate that the encoder claims; null if it claims none. */
export function nominalFps(stream) {
  const claimed = stream.metadata?.framerate;
  return typeof claimed === "number" && claimed > 0 ? claimed : null;
}

/** A chart's options for a check that opens above its limits. */
export function aboveLimit(limit) {
  const { warning, bad } = limit ?? {};
  return { dashed: warning ?? bad ?? null, limits: { warnAbove: warning ?? undefined, badAbove: bad ?? undefined } };
}

/** The words for a dashed line: "dashed: warning over 4 s"; "" without a limit. */
export function limitWords(limit, name) {
  const { warning = null, bad = null } = limit ?? {};
  const [word, value] = warning === null ? ["bad", bad] : ["warning", warning];
  return value === null ? "" : `dashed: ${word} over ${unit(value, name, value % 1 ? 1 : 0)}`;
}

/** A chart's options that depend on the stream: its target bitrate and its nominal frame rate, each null if unknown. */
export function optionsOf(name, { target, nominal }, limits) {
  if (name === "bitrate") return bitrateOptions(target, limits.bitrate_low ?? {}, limits.bitrate_high ?? {});
  if (name === "fps") return fpsOptions(nominal, limits.fps_low ?? {});
  return {};
}

function bitrateOptions(target, low, high) {
  if (!target) return { dashed: null, band: null, limits: {} };
  const [from, to] = [percent(low.warning, target), percent(high.warning, target)];
  return {
    dashed: target,
    band: from !== undefined && to !== undefined ? [from, to] : null,
    limits: {
      warnBelow: from,
      badBelow: percent(low.bad, target),
      warnAbove: to, // `high.bad` is a limit of the key, for video and audio together.
    },
  };
}

function fpsOptions(nominal, low) {
  if (!nominal) return { top: 30, limits: {} };
  return {
    top: nominal,
    limits: { warnBelow: percent(low.warning, nominal), badBelow: percent(low.bad, nominal) },
  };
}

/** The marks of a chart: when issues opened, by the events of the feed (the newest first). */
export function issueMarks(events, [from, to], limits) {
  return [...events]
    .filter((event) => event.kind === "health.opened" && event.at > from && event.at <= to)
    .slice(0, MOST_MARKS)
    .map((event) => ({ at: event.at, label: (limits[event.code]?.name ?? event.code).toLowerCase() }));
}
