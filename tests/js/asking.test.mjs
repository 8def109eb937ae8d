import assert from "node:assert/strict";
import { test } from "node:test";

import { nextTries, NO_TRIES, parseAnswer, sayings, stateWord, waitS } from "../../dashboard/static/watch/asking.js";

/** The waits after that many answers of one state, without jitter. */
function waits(state, answers, isHidden = false) {
  let tries = NO_TRIES;
  return Array.from({ length: answers }, () => {
    tries = nextTries(tries, state);
    return waitS(tries, isHidden, 0.5);
  });
}

test("waits for a stream that has not started grow up to ten seconds", () => assert.deepEqual(waits("waiting", 8), [2, 3, 4, 6, 8, 10, 10, 10]));

test("waits for a closed stream are longer than for one that ended", () => {
  assert.deepEqual(waits("ended", 5), [3, 5, 10, 20, 20]);
  assert.deepEqual(waits("closed", 4), [10, 20, 30, 30]);
});

test("waits for a live stream that could not be played begin with half a second", () => assert.equal(waits("live", 1)[0], 0.5));

test("waits begin again with another answer", () => {
  const tries = nextTries(nextTries(nextTries(NO_TRIES, "waiting"), "waiting"), "unreachable");
  assert.deepEqual(tries, { state: "unreachable", count: 0 });
  assert.equal(waitS(tries, false, 0.5), 1);
});

test("waits of a tab that nobody sees are 30 s at least", () => {
  assert.deepEqual(waits("waiting", 2, true), [30, 30]);
  assert.deepEqual(waits("closed", 3, true), [30, 30, 30]);
});

test("waits of two pages differ by 40 % at most", () => {
  const tries = nextTries(NO_TRIES, "closed");
  assert.equal(waitS(tries, false, 0), 6);
  assert.equal(waitS(tries, false, 1), 14);
});

test("answer has its state, words and title", () => {
  assert.deepEqual(parseAnswer({ state: "live", words: "", title: "Sunday service" }), { state: "live", words: "", title: "Sunday service" });
  assert.deepEqual(parseAnswer({ state: "waiting" }), { state: "waiting", words: "", title: "" });
});

test("answer of a state that the page does not know counts as none", () => {
  for (const state of [undefined, null, "dancing", "toString", "paused"]) assert.equal(parseAnswer({ state }).state, "unreachable");
});

test("page says what happened and what follows", () => {
  assert.deepEqual(sayings("waiting"), ["The stream has not started yet.", "It begins here by itself."]);
  assert.deepEqual(sayings("looking"), ["Connecting", ""]);
  assert.deepEqual(sayings("live"), ["", ""]);
});

test("page says the server's words in place of its own", () => {
  assert.deepEqual(sayings("ended", "See you next Sunday."), ["See you next Sunday.", "If it goes on, it does so here by itself."]);
});

test("page adds nothing to the server's words for a stream that is closed or can't be played", () => {
  assert.deepEqual(sayings("closed", "The stream was closed."), ["The stream was closed.", ""]);
  assert.deepEqual(sayings("unplayable", "It is MPEG-4 Visual."), ["It is MPEG-4 Visual.", ""]);
  assert.notEqual(sayings("closed")[1], "");
});

test("page has a word for each state, and none for one that it does not know", () => {
  assert.equal(stateWord("live"), "Live");
  assert.equal(stateWord("paused"), "Interrupted");
  assert.equal(stateWord("looking"), "");
});
