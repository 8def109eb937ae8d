import assert from "node:assert/strict";
import { test } from "node:test";

import {
  arranged,
  arrangedOffline,
  Criteria,
  hasOtherAudience,
  isWorse,
  wellWords,
} from "../../dashboard/static/dashboard/js/wallorder.js";

function card(name, fields = {}) {
  const { app = "live", health = "good", state = "live", node = "n1", players = 0, unattended = 0, audience = players } = fields;
  const path = `${app}/${name}`;
  const attention = health === "bad" || health === "warning";
  return { path, search: path.toLowerCase(), stream: { app, name, health, state, node, players }, attention, unattended, audience };
}

const criteria = (fields = {}) => Object.assign(new Criteria(), fields);
const names = (cards) => cards.map(({ stream }) => stream.name);

const WALL = [
  card("demo", { state: "waiting", health: "none" }),
  card("harbour", { app: "cams", node: "n2", players: 5 }),
  card("studio", { players: 7 }),
  card("court", { health: "warning", unattended: 1 }),
  card("lecture", { players: 70 }),
  card("arena", { health: "bad", unattended: 1000 }),
];

/* ---- order ---- */

test("cards are in two groups, the worst first, then those with the most players", () => {
  const { attention, well } = arranged(WALL, criteria());
  assert.deepEqual(names(attention), ["arena", "court"]);
  assert.deepEqual(names(well), ["lecture", "studio", "harbour", "demo"]);
});

test("cards by players have the most players first, whatever their health", () => {
  const cards = [card("a", { health: "bad", players: 1 }), card("b", { health: "warning", players: 9 })];
  assert.deepEqual(names(arranged(cards, criteria({ order: "players" })).attention), ["b", "a"]);
});

test("cards by name ignore health and players, and read numbers as numbers", () => {
  const cards = [card("cam-10", { players: 9 }), card("cam-2"), card("Cam-3"), card("cam-1", { players: 5 })];
  assert.deepEqual(names(arranged(cards, criteria({ order: "name" })).well), ["cam-1", "cam-2", "Cam-3", "cam-10"]);
});

test("cards with the same order are by name", () =>
  assert.deepEqual(names(arranged([card("b"), card("a"), card("c")], criteria()).well), ["a", "b", "c"]));

test("bad cards that nobody takes care of come before those with more players", () => {
  const bad = (name, players, unattended) => card(name, { health: "bad", players, unattended });
  const { attention } = arranged([bad("a", 90, 0), bad("b", 5, 1000), bad("c", 1, 2000), bad("d", 8, 1000)], criteria());
  assert.deepEqual(names(attention), ["c", "d", "b", "a"]);
});

test("streams that are checked come before good ones, those that wait for media after them", () => {
  const cards = [card("good"), card("waiting", { state: "waiting", health: "none" }), card("checked", { health: "none" })];
  assert.deepEqual(names(arranged(cards, criteria()).well), ["checked", "good", "waiting"]);
});

test("order in words is that of the choice, and worst first for an unknown one", () => {
  assert.equal(criteria().orderWords, "worst first");
  assert.equal(criteria({ order: "players" }).orderWords, "most players first");
  assert.equal(criteria({ order: "name" }).orderWords, "by name");
  assert.equal(criteria({ order: "colour" }).orderWords, "worst first");
});

test("order of no cards is empty", () => assert.deepEqual(arranged([], criteria()), { healths: [], attention: [], well: [] }));

test("order leaves the list that it is given as it was", () => {
  const before = [...WALL];
  arranged(WALL, criteria());
  assert.deepEqual(WALL, before);
});

/* ---- filters ---- */

test("filter by health leaves that health, and the counts of all", () => {
  const { attention, well, healths } = arranged(WALL, criteria({ health: "bad" }));
  assert.deepEqual([names(attention), names(well)], [["arena"], []]);
  assert.deepEqual(healths.toSorted(), ["bad", "good", "good", "good", "none", "warning"]);
});

test("filter by application or node leaves its cards and their counts", () => {
  assert.deepEqual(names(arranged(WALL, criteria({ app: "cams" })).well), ["harbour"]);
  assert.deepEqual(names(arranged(WALL, criteria({ node: "n2" })).well), ["harbour"]);
  assert.deepEqual(arranged(WALL, criteria({ app: "cams" })).healths, ["good"]);
});

test("filter by a part of the name ignores case in the card's path", () => {
  assert.deepEqual(names(arranged([card("Studio-1"), card("van")], criteria({ q: "stu" })).well), ["Studio-1"]);
  assert.deepEqual(names(arranged(WALL, criteria({ q: "cams/" })).well), ["harbour"]);
  assert.deepEqual(arranged(WALL, criteria({ q: "nobody" })).healths, []);
});

test("filters together leave what fits all of them", () =>
  assert.deepEqual(names(arranged(WALL, criteria({ app: "live", health: "good", q: "st" })).well), ["studio"]));

const OFFLINE = [{ app: "live", name: "cam-10" }, { app: "live", name: "cam-2" }, { app: "cams", name: "van" }];

test("streams off the air are by name, with numbers as numbers", () =>
  assert.deepEqual(arrangedOffline(OFFLINE, criteria()).map(({ name }) => name), ["van", "cam-2", "cam-10"]));

test("streams off the air fit no health and no node", () => {
  assert.deepEqual(arrangedOffline(OFFLINE, criteria({ health: "good" })), []);
  assert.deepEqual(arrangedOffline(OFFLINE, criteria({ node: "n1" })), []);
});

test("streams off the air are filtered by application and name", () => {
  assert.deepEqual(arrangedOffline(OFFLINE, criteria({ app: "cams" })).map(({ name }) => name), ["van"]);
  assert.deepEqual(arrangedOffline(OFFLINE, criteria({ q: "cam-2" })).map(({ name }) => name), ["cam-2"]);
});

/* ---- words ---- */

test("words for what runs well count good streams, those that are checked and those that wait", () => {
  const cards = [card("a"), card("b"), card("c", { health: "none" }), card("d", { state: "waiting", health: "none" })];
  assert.equal(wellWords(cards), "2 good, 1 checking, 1 waiting for media");
  assert.equal(wellWords([cards[2]]), "1 checking");
  assert.equal(wellWords([cards[0], cards[3]]), "1 good, 1 waiting for media");
});

test("words for no cards are 0 good", () => assert.equal(wellWords([]), "0 good"));

test("words for a thousand cards have a comma", () =>
  assert.equal(wellWords(Array.from({ length: 1200 }, (_, index) => card(`cam-${index}`))), "1,200 good"));

/* ---- what moves a card ---- */

for (const [before, now, moves] of [
  [0, 1, false],
  [0, 2, true],
  [5, 4, false],
  [5, 3, true],
  [10, 11, false],
  [100, 110, false],
  [100, 111, true],
  [100, 89, true],
])
  test(`players from ${before} to ${now} ${moves ? "move" : "do not move"} a card`, () =>
    assert.equal(hasOtherAudience({ stream: { players: now }, audience: before }), moves));

test("health is worse only than one that came before it", () => {
  assert.equal(isWorse("bad", "warning"), true);
  assert.equal(isWorse("warning", "good"), true);
  assert.equal(isWorse("warning", "warning"), false);
  assert.equal(isWorse("good", "bad"), false);
  assert.equal(isWorse("bad", undefined), false, "it has just come");
});
