import assert from "node:assert/strict";
import { test } from "node:test";

import { askedFor, atMoment, partOf, queryOf, wordsOf } from "../../dashboard/static/dashboard/js/moments.js";
import { inZone, plain, utc } from "./support.mjs";

const AT = utc("2026-11-28 20:14:03");
const SPAN = [utc("2026-11-28 20:10:00"), utc("2026-11-28 20:20:00")];
const HOUR = [0, 3600];

/* ---- the address ---- */

test("address of a moment has it in UTC", (t) => {
  inZone(t, "Asia/Tokyo");
  assert.equal(atMoment("/sessions/1/", AT), "/sessions/1/?at=2026-11-28T20:14:03Z");
});

test("query of a moment and a span has all three times", () => {
  assert.equal(queryOf({ at: null, span: null }), "");
  assert.equal(queryOf({ at: AT, span: null }), "?at=2026-11-28T20:14:03Z");
  assert.equal(queryOf({ at: null, span: SPAN }), "?from=2026-11-28T20:10:00Z&until=2026-11-28T20:20:00Z");
  assert.equal(
    queryOf({ at: AT, span: SPAN }),
    "?at=2026-11-28T20:14:03Z&from=2026-11-28T20:10:00Z&until=2026-11-28T20:20:00Z",
  );
});

test("address without a moment asks for none", () => assert.deepEqual(askedFor(""), { at: null, span: null }));

test("address with a moment and a span asks for both", () => {
  const query = "?at=2026-11-28T20:14:03Z&from=2026-11-28T20:10:00Z&until=2026-11-28T20:20:00Z&other=1";
  assert.deepEqual(askedFor(query), { at: AT, span: SPAN });
});

test("address with half a span, or one that ends before it begins, asks for no span", () => {
  assert.equal(askedFor("?from=2026-11-28T20:10:00Z").span, null);
  assert.equal(askedFor("?until=2026-11-28T20:20:00Z").span, null);
  assert.equal(askedFor("?from=2026-11-28T20:20:00Z&until=2026-11-28T20:10:00Z").span, null);
  assert.equal(askedFor("?from=2026-11-28T20:20:00Z&until=2026-11-28T20:20:00Z").span, null);
});

test("address with a moment that is no time asks for none", () => {
  assert.equal(askedFor("?at=").at, null);
  assert.equal(askedFor("?at=yesterday").at, null);
});

/* ---- the part of a session that is shown ---- */

test("part without a moment is all of the session", () => assert.equal(partOf(HOUR, { at: null, span: null }), null));

test("part of a long session is five minutes before and after the moment", () =>
  assert.deepEqual(partOf(HOUR, { at: 1800, span: null }), [1500, 2100]));

test("part of a session of ten minutes is all of it", () => {
  assert.equal(partOf([7000, 7600], { at: 7300, span: null }), null);
  assert.equal(partOf([0, 600], { at: 300, span: null }), null);
  assert.deepEqual(partOf([0, 601], { at: 300, span: null }), [0, 600]);
});

test("part near the begin or the end of the session is cut there", () => {
  assert.deepEqual(partOf(HOUR, { at: 100, span: null }), [0, 400]);
  assert.deepEqual(partOf(HOUR, { at: 3590, span: null }), [3290, 3600]);
});

test("part for a moment outside of the session is all of it", () => {
  assert.equal(partOf(HOUR, { at: -1000, span: null }), null);
  assert.equal(partOf(HOUR, { at: 5000, span: null }), null);
});

test("part for a span is that span, whatever the moment is", () => {
  assert.deepEqual(partOf(HOUR, { at: 3000, span: [10, 70] }), [10, 70]);
  assert.deepEqual(partOf([0, 300], { at: null, span: [10, 70] }), [10, 70]);
});

test("part for a span of less than a second is all of the session", () => {
  assert.equal(partOf(HOUR, { at: null, span: [10, 10.5] }), null);
  assert.deepEqual(partOf(HOUR, { at: null, span: [10, 11] }), [10, 11]);
});

/* ---- words ---- */

test("words of a moment have its day and time", () => assert.equal(plain(wordsOf({ at: AT, span: null })), "28 Nov, 20:14:03"));

test("words of a span have its length", () =>
  assert.equal(plain(wordsOf({ at: null, span: SPAN })), "28 Nov, 20:10:00 to 20:20:00 (10 min 0 s)"));

test("words of a moment in a span have both", () =>
  assert.equal(plain(wordsOf({ at: AT, span: SPAN })), "28 Nov, 20:14:03, in 28 Nov, 20:10:00 to 20:20:00 (10 min 0 s)"));

test("words of a moment are of the page's zone", (t) => {
  inZone(t, "Asia/Tokyo");
  assert.equal(plain(wordsOf({ at: AT, span: null })), "29 Nov, 05:14:03");
});
