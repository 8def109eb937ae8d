import assert from "node:assert/strict";
import { test } from "node:test";

import { sparkPaths } from "../../dashboard/static/dashboard/js/sparkline.js";

// The picture is 60 wide, one unit for each second up to now, and 40 high. The bitrate's zero is at 31, its top at 2.

const starts = (path) => path.match(/M/g)?.length ?? 0;
const point = (at, kbps, health = "good") => ({ at, kbps, health });

test("sparkline of no points is empty", () =>
  assert.deepEqual(sparkPaths([], 100, null), {
    line: "",
    area: "",
    target: "",
    lanes: { good: "", warning: "", bad: "", none: "" },
  }));

test("sparkline of one point is a dot with its area, and a second of its health", () => {
  // The scale's top is 1.1 times the greatest value, 1100: 31 - 29 * 1000 / 1100 = 4.6.
  const { line, area, lanes } = sparkPaths([point(100, 1000)], 101, null);
  assert.equal(line, "M59.0 4.6");
  assert.equal(area, "M59.0 31L59.0 4.6L59.0 31Z");
  assert.equal(lanes.good, "M59.0 40V38.5H60.0V40Z");
});

test("sparkline's target is a line at its height, and makes room above it", () => {
  // The scale's top is 1.35 times the target, 2700: 31 - 29 * 2000 / 2700 = 9.5.
  assert.equal(sparkPaths([point(100, 1000)], 101, 2000).target, "M0 9.5H60");
  assert.equal(sparkPaths([point(100, 1000)], 101, 0).target, "");
});

test("sparkline of 0 kbit/s stands on its base", () => assert.equal(sparkPaths([point(100, 0)], 101, null).line, "M59.0 31.0"));

test("sparkline joins seconds that follow each other", () => {
  const { line } = sparkPaths([point(98, 0), point(99, 0), point(100, 0)], 100, null);
  assert.equal(line, "M58.0 31.0L59.0 31.0L60.0 31.0");
});

test("sparkline joins a pause of 2.5 s, and leaves a gap for one of 3 s", () => {
  assert.equal(starts(sparkPaths([point(90, 1), point(92.5, 1)], 100, null).line), 1);
  const gap = sparkPaths([point(90, 1), point(93, 1)], 100, null);
  assert.equal(starts(gap.line), 2);
  assert.equal(gap.area.match(/Z/g).length, 2, "each part of the area is closed");
  assert.equal(gap.lanes.good, "M50.0 40V38.5H51.0V40ZM53.0 40V38.5H54.0V40Z", "a second of health, not three");
});

test("sparkline's health goes on to the next second that came", () =>
  assert.equal(sparkPaths([point(90, 1), point(92, 1, "bad")], 100, null).lanes.good, "M50.0 40V38.5H52.0V40Z"));

test("sparkline leaves a gap for a second without a bitrate, and shows its health", () => {
  const { line, lanes } = sparkPaths([point(98, 1), point(99, null, "bad"), point(100, 1)], 100, null);
  assert.equal(starts(line), 2);
  assert.equal(lanes.bad, "M59.0 40V34H60.0V40Z");
});

test("sparkline shows trouble taller than what is well", () => {
  const top = (health) => Number(sparkPaths([point(100, 1, health)], 101, null).lanes[health].match(/V([\d.]+)H/)[1]);
  assert.ok(top("bad") < top("warning"));
  assert.ok(top("warning") < top("good"));
});

test("sparkline shows an unknown health as pending", () => {
  assert.notEqual(sparkPaths([point(100, 1, "purple")], 101, null).lanes.none, "");
  assert.notEqual(sparkPaths([point(100, 1, null)], 101, null).lanes.none, "");
});

test("sparkline cuts what is older than a minute at its left edge", () =>
  assert.equal(sparkPaths([point(30, 0), point(31, 0)], 100, null).line, "M0.0 31.0L0.0 31.0"));

test("sparkline's health ends now", () =>
  assert.equal(sparkPaths([point(99.5, 0)], 100, null).lanes.good, "M59.5 40V38.5H60.0V40Z"));
