import assert from "node:assert/strict";
import { test } from "node:test";

import { delay } from "../../dashboard/static/watch/controls.js";
import { plain } from "./support.mjs";

for (const [seconds, words] of [
  [0, "0.0 s"],
  [4.24, "4.2 s"],
  [9.9, "9.9 s"],
  [10, "10 s"],
  [59, "59 s"],
  [60, "1:00 min"],
  [65.9, "1:05 min"],
  [3599, "59:59 min"],
  [3600, "60:00 min"],
])
  test(`delay of ${seconds} s is shown as ${words}`, () => assert.equal(plain(delay(seconds)), words));

test("delay keeps its number with its unit", () => assert.equal(delay(4.2), "4.2\u00a0s"));
