import assert from "node:assert/strict";
import { test } from "node:test";

import { isFolded } from "../../dashboard/static/dashboard/js/wallfold.js";

test("cards on a phone are folded if there are more than eight", () => {
  assert.equal(isFolded(null, 8, true), false);
  assert.equal(isFolded(null, 9, true), true);
  assert.equal(isFolded(null, 0, true), false);
});

test("cards on a wide page are not folded", () => assert.equal(isFolded(null, 500, false), false));

test("cards are as somebody chose, on any page", () => {
  assert.equal(isFolded("names", 1, false), true);
  assert.equal(isFolded("cards", 500, true), false);
});

test("choice that is unknown shows cards", () => assert.equal(isFolded("tiles", 500, true), false));
