import assert from "node:assert/strict";
import { test } from "node:test";

import { inSeconds, Samples } from "../../dashboard/static/dashboard/js/samples.js";
import { plain } from "./support.mjs";

const sample = (at, video_kbps, fields = {}) => ({ at, video_kbps, audio_kbps: 128, health: "good", ...fields });

function live(...rows) {
  const samples = new Samples();
  for (const row of rows) samples.push(row);
  return samples;
}

/** What the API answers for a stream whose bitrate was always 1,000 kbit/s, in spans of 10 s. */
function lake(at, gaps = []) {
  const column = (value) => at.map(() => value);
  const values = (value) => ({ video_kbps: column(value), audio_kbps: column(128) });
  return { at, step_s: 10, values: values(1000), low: values(900), high: values(1100), health: column("good"), gaps };
}

const zonesOf = ({ zones }) => zones.map(({ from, to, label }) => [from, to, plain(label)]);

/* ---- taking in ---- */

test("samples of a snapshot replace what was known", () => {
  const samples = live(sample(10, 1));
  samples.replace({ at: [100, 101], video_kbps: [1000, 2000], health: ["good", "bad"] });
  assert.deepEqual(samples.rows.map(({ at }) => at), [100, 101]);
  assert.equal(samples.last.video_kbps, 2000);
  assert.equal(samples.last.health, "bad");
});

test("samples of a snapshot that lacks a column are null in it", () => {
  const samples = live();
  samples.replace({ at: [100], video_kbps: [1000] });
  assert.equal(samples.last.rtt_ms, null);
});

test("samples of a snapshot without any are none", () => {
  const samples = live(sample(10, 1));
  samples.replace(undefined);
  assert.equal(samples.last, null);
});

test("sample that arrives twice, or late, is not taken again", () => {
  const samples = live(sample(100, 1), sample(101, 2), sample(101, 3), sample(99, 4));
  assert.deepEqual(samples.rows.map(({ at, video_kbps }) => [at, video_kbps]), [[100, 1], [101, 2]]);
});

test("samples are kept for five minutes, and the five seconds of the first mean", () => {
  const samples = live(sample(0, 1), sample(100, 1), sample(305, 1));
  assert.equal(samples.rows[0].at, 0);
  samples.push(sample(306, 1));
  assert.equal(samples.rows[0].at, 100);
});

/* ---- drawing ---- */

test("bitrate of live samples is a mean of the last five seconds", () => {
  const samples = live(...[1000, 2000, 3000, 4000, 5000, 6000].map((kbps, index) => sample(100 + index, kbps)));
  const { times, columns } = samples.view(105);
  assert.deepEqual(times, [100, 101, 102, 103, 104, 105]);
  assert.deepEqual(columns.bitrate, [1000, 1500, 2000, 2500, 3000, 4000]);
  assert.deepEqual(columns.video_kbps, [1000, 2000, 3000, 4000, 5000, 6000]);
});

test("view of no samples is empty, over the last five minutes", () => {
  const view = live().view(1000);
  assert.deepEqual([view.times, view.zones, view.low, view.high], [[], [], null, null]);
  assert.deepEqual(view.range, [700, 1000]);
});

test("pause of 2.5 s is no gap", () => {
  const view = live(sample(100, 1), sample(102.5, 1)).view(103);
  assert.deepEqual(view.times, [100, 102.5]);
  assert.deepEqual(view.zones, []);
});

test("pause of 4 s is a gap with its zone, and the mean begins again", () => {
  const view = live(sample(100, 1000), sample(101, 1000), sample(105, 4000)).view(105);
  assert.deepEqual(view.times, [100, 101, 102, 105]);
  assert.deepEqual(view.columns.bitrate, [1000, 1000, null, 4000]);
  assert.deepEqual(zonesOf(view), [[101, 105, "off 4 s"]]);
});

test("stream that stopped is off air up to now", () => {
  const view = live(sample(100, 1000)).view(110);
  assert.deepEqual(view.columns.bitrate, [1000, null]);
  assert.deepEqual(zonesOf(view), [[100, 110, "off 10 s"]]);
});

test("stream whose next sample is a second late is still on air", () => assert.deepEqual(live(sample(100, 1)).view(103.5).zones, []));

test("encoder that has sent nothing yet has no bitrate", () => {
  const silent = { audio_kbps: 0 };
  const view = live(sample(100, 0, silent), sample(101, 0, silent), sample(102, 3000)).view(102);
  assert.deepEqual(view.columns.bitrate, [null, null, 3000]);
});

test("encoder that stops sending for a second has a bitrate all the same", () => {
  const view = live(sample(100, 3000), sample(101, 0, { audio_kbps: 0 })).view(101);
  assert.deepEqual(view.columns.bitrate, [3000, 1500]);
});

test("samples that are older than the view are left out", () => {
  const samples = live(sample(100, 1), sample(101, 1));
  assert.deepEqual(samples.view(500).times, []);
});

test("samples of the five seconds before the view are kept, for the first mean", () => {
  const samples = live(sample(694, 1), sample(696, 1), sample(999, 1));
  assert.equal(samples.view(1000).times[0], 696);
});

/* ---- the lake ---- */

test("lake's samples stand before the live ones, with their extremes", () => {
  const samples = live(sample(995, 1000), sample(996, 1000));
  samples.remember(lake([960, 970, 980]));
  const view = samples.view(996, 1800);
  assert.deepEqual(view.times, [960, 970, 980, 995, 996]);
  assert.deepEqual(view.columns.bitrate, [1000, 1000, 1000, 1000, 1000]);
  assert.deepEqual(view.low.bitrate, [900, 900, 900, null, null]);
  assert.deepEqual(view.high.bitrate, [1100, 1100, 1100, null, null]);
  assert.deepEqual(view.zones, []);
  assert.deepEqual(view.range, [996 - 1800, 996]);
});

test("lake's span that the live samples begin in leaves no gap before them", () => {
  const samples = live(sample(409, 1000), sample(410, 1000));
  samples.remember(lake([370, 380, 390, 400]));
  assert.deepEqual(zonesOf(samples.view(410, 600)), []);
});

test("lake's samples of the live time are left out", () => {
  const samples = live(sample(985, 1000), sample(986, 1000));
  samples.remember(lake([970, 980, 990]));
  assert.deepEqual(samples.view(986, 1800).times, [970, 985, 986]);
});

test("lake's samples are not shown in the view of five minutes", () => {
  const samples = live(sample(995, 1000));
  samples.remember(lake([970, 980]));
  assert.deepEqual(samples.view(995).times, [995]);
  assert.equal(samples.view(995).low, null);
});

test("lake's span that is missing is a gap from the end of the one before", () => {
  const samples = live(sample(995, 1000));
  samples.remember(lake([930, 940, 980]));
  const view = samples.view(995, 1800);
  assert.deepEqual(view.columns.bitrate, [1000, 1000, null, 1000, 1000]);
  assert.deepEqual(zonesOf(view), [[950, 980, "off 30 s"]]);
});

test("lake's last span counts up to its end before the stream is off air", () => {
  const samples = live();
  samples.remember(lake([970, 980]));
  assert.deepEqual(samples.view(993, 1800).zones, []);
  assert.equal(samples.view(1000, 1800).columns.bitrate.at(-1), null);
});

test("lake's short gap within a span is marked, and breaks no line", () => {
  const samples = live(sample(995, 1000));
  samples.remember(lake([970, 980], [[972, 978], [1000, 1005]]));
  const view = samples.view(995, 1800);
  assert.ok(view.columns.bitrate.every((value) => value !== null));
  assert.deepEqual(zonesOf(view), [[972, 978, "off 6 s"]]);
});

test("lake's span of a stream without video has the bitrate of its audio in the extremes", () => {
  const samples = live(sample(995, null));
  const column = (value) => ({ video_kbps: [null], audio_kbps: [value] });
  samples.remember({ ...lake([980]), values: column(128), low: column(120), high: column(136) });
  const view = samples.view(995, 1800);
  assert.deepEqual([view.low.bitrate[0], view.high.bitrate[0]], [120, 136]);
});

test("lake's samples that are forgotten are not shown any more", () => {
  const samples = live(sample(995, 1000));
  samples.remember(lake([980]));
  samples.remember(null);
  assert.deepEqual(samples.view(995, 1800).times, [995]);
});

test("column in seconds keeps its gaps, and no column stays none", () => {
  assert.deepEqual(inSeconds([1500, null, 0, -250]), [1.5, null, 0, -0.25]);
  assert.equal(inSeconds(null), null);
  assert.equal(inSeconds(undefined), null);
});
