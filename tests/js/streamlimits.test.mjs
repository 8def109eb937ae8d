import assert from "node:assert/strict";
import { test } from "node:test";

import { aboveLimit, issueMarks, limitWords, nominalFps, optionsOf } from "../../dashboard/static/dashboard/js/streamlimits.js";
import { plain } from "./support.mjs";

const CHECKS = {
  bitrate_low: { name: "Bitrate low", warning: 70, bad: 40 },
  bitrate_high: { name: "Bitrate high", warning: 130, bad: null },
  fps_low: { name: "Frame rate low", warning: 90, bad: 60 },
};

test("nominal frame rate is the one that the encoder claims", () => assert.equal(nominalFps({ metadata: { framerate: 29.97 } }), 29.97));

test("nominal frame rate that is no positive number is unknown", () => {
  for (const metadata of [undefined, null, {}, { framerate: 0 }, { framerate: -1 }, { framerate: "30" }])
    assert.equal(nominalFps({ metadata }), null);
});

test("limit from above is dashed at the warning, or else where it is bad", () => {
  assert.deepEqual(aboveLimit({ warning: 4, bad: 10 }), { dashed: 4, limits: { warnAbove: 4, badAbove: 10 } });
  assert.deepEqual(aboveLimit({ warning: null, bad: 10 }), { dashed: 10, limits: { warnAbove: undefined, badAbove: 10 } });
  assert.deepEqual(aboveLimit(undefined), { dashed: null, limits: { warnAbove: undefined, badAbove: undefined } });
});

test("words of a limit name its level and its value", () => {
  assert.equal(plain(limitWords({ warning: 4, bad: 10 }, "s")), "dashed: warning over 4 s");
  assert.equal(plain(limitWords({ warning: null, bad: 2.5 }, "s")), "dashed: bad over 2.5 s");
  assert.equal(plain(limitWords({ warning: 0, bad: 10 }, "ms")), "dashed: warning over 0 ms");
});

test("words of no limit are none", () => {
  assert.equal(limitWords(undefined, "s"), "");
  assert.equal(limitWords({ warning: null, bad: null }, "s"), "");
});

test("bitrate is judged by shares of its target", () =>
  assert.deepEqual(optionsOf("bitrate", { target: 2500, nominal: null }, CHECKS), {
    dashed: 2500,
    band: [1750, 3250],
    limits: { warnBelow: 1750, badBelow: 1000, warnAbove: 3250 },
  }));

test("bitrate without a target is not judged", () =>
  assert.deepEqual(optionsOf("bitrate", { target: null, nominal: 30 }, CHECKS), { dashed: null, band: null, limits: {} }));

test("bitrate whose upper limit is switched off has no band", () => {
  const { band, limits } = optionsOf("bitrate", { target: 2500, nominal: null }, { bitrate_low: CHECKS.bitrate_low });
  assert.equal(band, null);
  assert.deepEqual(limits, { warnBelow: 1750, badBelow: 1000, warnAbove: undefined });
});

test("frame rate is judged by shares of the nominal one", () =>
  assert.deepEqual(optionsOf("fps", { target: null, nominal: 50 }, CHECKS), {
    top: 50,
    limits: { warnBelow: 45, badBelow: 30 },
  }));

test("frame rate that the encoder does not claim is not judged", () =>
  assert.deepEqual(optionsOf("fps", { target: 2500, nominal: null }, CHECKS), { top: 30, limits: {} }));

test("other charts do not depend on the stream", () => assert.deepEqual(optionsOf("rtt_ms", { target: 2500, nominal: 30 }, CHECKS), {}));

test("marks are issues that opened within the range, by their check's name", () => {
  const events = [
    { kind: "health.opened", code: "bitrate_low", at: 200 },
    { kind: "health.cleared", code: "bitrate_low", at: 180 },
    { kind: "health.opened", code: "new_check", at: 150 },
    { kind: "health.opened", code: "fps_low", at: 100 },
  ];
  assert.deepEqual(issueMarks(events, [100, 200], CHECKS), [
    { at: 200, label: "bitrate low" },
    { at: 150, label: "new_check" },
  ]);
});

test("marks are the latest four", () => {
  const events = [9, 8, 7, 6, 5].map((at) => ({ kind: "health.opened", code: "fps_low", at }));
  assert.deepEqual(issueMarks(new Map(events.entries()).values(), [0, 10], CHECKS).map(({ at }) => at), [9, 8, 7, 6]);
});
