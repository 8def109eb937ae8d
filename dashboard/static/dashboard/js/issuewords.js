// The open issues of a stream's page: their order, who takes care of them, and their words. This module draws nothing.

import { count, day, duration, seconds, time, timeWithUtc } from "./format.js";
import { acknowledges, health } from "./health.js";
import { isUtc } from "./zone.js";

const clock = (at) => (isUtc ? time(at) : timeWithUtc(at));

/** A moment in a sentence: the day too, unless it is the day of `now`. */
function momentWords(at, now) {
  return day(at) === day(now) ? clock(at) : `${day(at)}, ${clock(at)}`;
}

/** The acknowledgement of an issue of that session, among events; undefined if there is none. */
function ackOf(acks, issue, session) {
  return acks.find((ack) => ack.session_id === session && acknowledges({ ...ack.detail, check: ack.code }, issue));
}

/** The stream's issues as {issue, ack}: the worst first, then those that nobody takes care of, then the oldest. */
export function sortedWithAcks(stream, acks) {
  return stream.issues
    .map((issue) => ({ issue, ack: ackOf(acks, issue, stream.session_id) }))
    .sort(
      (a, b) =>
        health(a.issue.level).rank - health(b.issue.level).rank ||
        Boolean(a.ack) - Boolean(b.ack) ||
        a.issue.since - b.issue.since,
    );
}

/** [level, words] for each level that has issues: "2 bad", "1 warning". */
export function levelCounts(issues) {
  const bad = issues.filter((issue) => issue.level === "bad").length;
  const warnings = issues.length - bad;
  return [
    ["bad", bad, `${bad} bad`],
    ["warning", warnings, count(warnings, "warning")],
  ]
    .filter(([, n]) => n)
    .map(([level, , words]) => [level, words]);
}

export const openWords = (issue, now) => `open for ${duration(now - issue.since)}`;

/** The words of an acknowledgement: by whom, when, and its note. */
export function ackWords(ack, now) {
  const note = ack.description ? `: “${ack.description}”` : "";
  return `Acknowledged by ${ack.detail.by} at ${momentWords(seconds(ack.at), now)}${note}`;
}

/** A silence in a sentence. `checks` are {code: {name}}; a silence has `of` if it is of more than this stream. */
export function silenceWords({ check, of, until, note, by }, checks, now) {
  const what = [check && `“${checks[check]?.name ?? check}”`, of].filter(Boolean).join(", ");
  const end = until === null ? "somebody lifts it" : momentWords(until, now).replace(/(\d\d:\d\d):00/g, "$1");
  return [`Silenced until ${end}`, by ? ` by ${by}` : "", what ? ` (${what})` : "", note ? `: ${note}` : "."].join("");
}
