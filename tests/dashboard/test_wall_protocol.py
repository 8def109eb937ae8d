"""What the wall is told, by any changes of any nodes: merged it is what they know, whatever gets lost on its way."""

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from dashboard.streams.queries import by_stream
from ingest import pages
from ingest.contracts import StreamSnapshot
from ingest.pages import SELDOM, SELDOM_SHOWN, WORDS_A_TICK, WORDS_EACH, card
from tests.wallfeed import Node, finished, issue, made, picture

Card = dict[str, Any]


class Reader:
    """A wall's client, as short as docs/api.md has it: what each node says of each stream."""

    def __init__(self) -> None:
        self.said: dict[tuple[str, int], Card] = {}

    def hear(self, text: str) -> None:
        message = json.loads(text)
        if message["kind"] == "snapshot":
            self.said = {(each["node"], each["id"]): each for each in message["streams"] + message["others"]}
            return
        for fields in message["streams"]:
            self.said.setdefault((message["node"], fields["id"]), {}).update(fields)
        for stream in message["gone"]:
            self.said.pop((message["node"], stream), None)

    def shown(self) -> dict[int, Card]:
        return cast(dict[int, Card], by_stream(cast(list[StreamSnapshot], list(self.said.values()))))


def at_once(cards: Mapping[int, Mapping[str, Any]]) -> dict[int, Card]:
    """What must be told at each tick; of issues, that they are open."""
    return {
        stream: {name: value for name, value in each.items() if name not in (*SELDOM_SHOWN, "issues")}
        | {"issues": [(issue["check"], issue["level"]) for issue in each["issues"]]}
        for stream, each in cards.items()
    }


def known(*nodes: Node) -> dict[int, Card]:
    chosen = by_stream(stream for node in nodes for stream in node.shown.values())
    return {stream: json.loads(json.dumps(card(each))) for stream, each in chosen.items()}


ISSUES = some.lists(
    some.builds(
        issue,
        some.sampled_from(["starving", "drift"]),
        some.sampled_from(["warning", "bad"]),
        since=some.just(1.0),
        actual=some.sampled_from(["1 s", "2 s", "3 s"]),
    ),
    max_size=2,
    unique_by=lambda each: each["check"],
)
CHANGE = some.fixed_dictionaries(
    {},
    optional={
        "state": some.sampled_from(["live", "waiting"]),
        "session_id": some.sampled_from([None, "a", "b"]),
        "health": some.sampled_from(["good", "warning", "bad", "none"]),
        "video_kbps": some.none() | some.floats(0, 9000),
        "fps": some.none() | some.floats(0, 60),
        "drift": some.none() | some.floats(-900, 900),
        "dropped_frames": some.integers(0, 9),
        "idle_ms": some.none() | some.integers(0, 20_000),
        "players": some.integers(0, 3),
        "media": some.sampled_from([{}, {"video_codec": "H.264"}]),
        "thumbnail": some.none() | some.integers(1, 3),
        "issues": ISSUES,
    },
)
STREAMS = some.dictionaries(some.integers(1, 4), some.none() | CHANGE, max_size=3)
"""What becomes of streams in a second: None, gone."""
SECOND = some.tuples(STREAMS, STREAMS, some.sampled_from(["heard", "lost", "whole"]))
"""Of two nodes; and what a page hears of it: all, nothing, or a whole picture after it."""


def change(node: Node, streams: Mapping[int, Mapping[str, Any] | None]) -> None:
    for stream, fields in streams.items():
        if fields is None:
            node.streams.pop(stream, None)
        else:
            node.put(cast(StreamSnapshot, {**(node.streams.get(stream) or made(stream)), **fields}))


@settings(max_examples=30)
@given(some.lists(SECOND, max_size=12))
def test_updates_merged_are_what_the_nodes_know(seconds: list[tuple[Any, Any, str]]) -> None:
    async def go() -> None:
        nodes = (Node("n1"), Node("n2"))
        reader = Reader()
        complete = True
        for number, (first, second, how) in enumerate(seconds):
            change(nodes[0], first)
            change(nodes[1], second)
            for node in nodes:
                message = await node.tick(100.0 + number)
                if how == "heard":
                    reader.hear(message["text"])
            complete = (complete and how == "heard") or how == "whole"
            if how == "whole":
                reader.hear(await picture(nodes))
            if complete:
                assert at_once(reader.shown()) == at_once(known(*nodes))
        reader.hear(await picture(nodes))
        assert reader.shown() == known(*nodes)
        for number in range(SELDOM + WORDS_EACH):  # Nothing changes any more, and what comes seldom has come.
            for node in nodes:
                reader.hear((await node.tick(200.0 + number))["text"])
        assert reader.shown() == known(*nodes)

    finished(go())


def test_all_that_is_seldom_told_has_come_after_a_while() -> None:
    async def go() -> None:
        node, reader = Node(), Reader()
        node.put(*(made(stream) for stream in range(1, 31)))
        reader.hear((await node.tick(1.0))["text"])
        node.put(*(made(stream, drift=77.7, issues=[issue(actual="2 s")]) for stream in range(1, 31)))
        reader.hear((await node.tick(2.0))["text"])
        node.put(*(made(stream, drift=77.7, issues=[issue(since=1.0, actual="3 s")]) for stream in range(1, 31)))
        for at in range(SELDOM):
            reader.hear((await node.tick(3.0 + at))["text"])
        assert reader.shown() == known(node)
        assert {each["drift"] for each in reader.shown().values()} == {78}

    finished(go())


def test_a_good_stream_costs_few_bytes_a_second() -> None:
    """The bound is 60 kB/s for 300 streams: 200 bytes of each."""

    async def go() -> int:
        node = Node()
        moving = ("video_kbps", "audio_kbps", "fps", "drift", "open_gop_age", "wire_kbps", "out_kbps", "rtt_ms")
        node.put(*(made(stream) for stream in range(1, 101)))
        await node.tick(0.0)
        size = 0
        for second in range(1, SELDOM + 1):
            fields: dict[str, Any] = dict.fromkeys(moving, second * 7.77)
            node.put(*(made(stream, **fields) for stream in range(1, 101)))
            size += len((await node.tick(float(second)))["text"])
        return size // SELDOM

    assert finished(go()) < 100 * 120


def test_general_trouble_costs_no_more_than_so_many_issues_words() -> None:
    async def go() -> list[int]:
        node = Node()
        told = []
        for second in range(12):
            words = f"{second} s"
            node.put(*(made(stream, issues=[issue(since=1.0, actual=words)]) for stream in range(1, 301)))
            update = json.loads((await node.tick(float(second)))["text"])
            told.append(sum(len(each.get("issues", [])) for each in update["streams"]))
        assert {each["actual"] for stream in node.shown.values() for each in stream["issues"]} == {"11 s"}
        return told

    told = finished(go())
    assert told[0] == 300
    assert max(told[1:]) <= WORDS_A_TICK
    assert sum(told[1:7]) >= 300 + WORDS_A_TICK  # Everybody's turn comes.


def test_an_issue_that_opens_clears_or_gets_worse_is_told_at_once() -> None:
    async def go() -> list[Any]:
        node = Node()
        told = []
        steps: list[list[Any]] = [
            [],
            [issue(level="warning", since=1.0, actual="1 s")],
            [issue(level="warning", since=1.0, actual="2 s")],
            [issue(level="bad", since=1.0, actual="3 s")],
            [],
        ]
        for second, issues in enumerate(steps):
            node.put(made(7, issues=issues))
            (update,) = json.loads((await node.tick(float(second)))["text"])["streams"] or [{}]
            found = update.get("issues")
            told.append(None if found is None else [(each["level"], each["actual"]) for each in found])
        return told

    assert finished(go()) == [[], [("warning", "1 s")], None, [("bad", "3 s")], []]


def test_a_field_that_is_new_to_snapshots_is_told_at_once() -> None:
    """All but those that are named as seldom or left out: no list that nobody kept up to date forgets one."""
    every = set(StreamSnapshot.__annotations__)
    assert set(pages.AT_ONCE) | set(SELDOM_SHOWN) | {"issues"} | set(pages.LEFT_OUT) == every
    assert set(pages.ROUNDED) <= every


@pytest.mark.parametrize(("said", "rounded"), [(29.949, 29.9), (None, None), (29.951, 30.0)])
def test_figures_are_rounded_as_cards_show_them(said: float | None, rounded: float | None) -> None:
    assert card(made(1, fps=said))["fps"] == rounded


def test_rounding_keeps_zero_and_whole_numbers() -> None:
    shown = card(made(1, video_kbps=2480.5, idle_ms=14_400, drift=-0.4))
    assert (shown["video_kbps"], shown["idle_ms"], shown["drift"]) == (2480, 14_000, 0)
    assert "metadata" not in shown
