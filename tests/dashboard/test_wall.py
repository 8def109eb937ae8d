"""The wall: the snapshot and the updates of /ws/live/, how one that is lost is made good, the last minute that
sparklines begin with; and what it is told, by any changes of any nodes: merged it is what they know."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from channels.layers import get_channel_layer
from channels.testing import WebsocketCommunicator
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as some

from dashboard import consumers
from dashboard.streams import actions as streams_actions
from dashboard.streams import silences
from dashboard.streams.queries import Now, by_stream
from dashboard.streams.snapshots import wall_text
from ingest import pages
from ingest.contracts import NodeFigures, StreamSnapshot
from ingest.live_store import LiveView, get_livestore
from ingest.models import Stream
from ingest.pages import SELDOM, SELDOM_SHOWN, WORDS_A_TICK, WORDS_EACH, Drop, WallFeed, card
from ingest.services.audit import Actor
from tests import snapshots
from tests.dashboard.conftest import make_session, make_stream, put_node, snapshot
from tests.dashboard.sockets import groups, opened, put, said, sample, tick
from tests.loops import run
from tests.snapshots import figures, issue

pytestmark = pytest.mark.django_db(transaction=True)

# --- Made-up nodes, whose reports to the wall are written by the server's own code ---

MEDIA = {
    "video_codec": "H.264",
    "video_codec_string": "avc1.64001f",
    "width": 1280,
    "height": 720,
    "profile": "High",
    "level": "3.1",
    "audio_codec": "AAC",
    "audio_codec_string": "mp4a.40.2",
    "sample_rate": 48000,
    "channels": 2,
}


def made(stream: int, name: str = "", **fields: Any) -> StreamSnapshot:
    own = {
        "name": name or f"cam-{stream}",
        "players": stream % 40,
        "session_id": f"00000000-0000-4000-8000-{stream:012d}",
        "since": time.time() - 1000 - stream,
        "media": MEDIA,
        "thumbnail": None,
    }
    return snapshots.snapshot(stream, **(own | fields))


class Node:
    """A node, its streams, and its reports to the wall."""

    def __init__(self, name: str = "n1") -> None:
        self.name = name
        self.streams: dict[int, StreamSnapshot] = {}
        self.shown: dict[int, StreamSnapshot] = {}
        self.shown_at: float | None = None
        self.feed = WallFeed()
        self.fields: dict[str, Any] = {}
        self.dropped: list[Drop] = []
        """Drops since the last tick."""

    def put(self, *snapshots: StreamSnapshot) -> None:
        self.streams |= {each["id"]: each | {"node": self.name} for each in snapshots}

    def figures(self, at: float) -> NodeFigures:
        own = {
            "streams": len(self.streams),
            "publishers": len(self.streams),
            "players": sum(each["players"] for each in self.streams.values()),
        }
        return figures(self.name, at, **(own | self.fields))

    async def tick(self, at: float) -> dict[str, Any]:
        """Return the node's message to the channel layer."""
        former, self.shown = self.shown, dict(self.streams)
        dropped, self.dropped = self.dropped, []
        prior, self.shown_at = self.shown_at, at
        return pages.update(
            self.name,
            at=at,
            prior=prior,
            nodes=[self.figures(at)],
            streams=await self.feed.changes(former, self.shown),
            gone=[stream for stream in former if stream not in self.shown],
            drops=dropped,
        )


async def picture(nodes: Iterable[Node], drops: Sequence[Drop] = ()) -> str:
    """Return the wall's snapshot of the last reports of these nodes."""
    view = LiveView(
        [node.figures(node.shown_at or 0.0) for node in nodes],
        [stream for node in nodes for stream in node.shown.values()],
    )
    known = [{"id": each["id"], "app": each["app"], "name": each["name"], "state": "offline"} for each in view.streams]
    return await wall_text(Now.of(view), known, {}, drops)


# --- The wall's WebSocket ---


async def heard(page: WebsocketCommunicator, text: str) -> bool:
    """That the page gets this text next, unaltered."""
    return bool(await page.receive_from(timeout=5) == text)


@pytest.mark.both_forms
async def test_the_wall_gets_a_snapshot_then_what_changed_unaltered(viewer: Client, stream: Stream) -> None:
    idle = await sync_to_async(make_stream)("idle")
    at = time.time()
    await put(at, snapshot(stream))
    async with opened("/ws/live/", viewer) as wall:
        first = await said(wall)
        assert first["kind"] == "snapshot"
        assert first["at"] == pytest.approx(at, abs=0.001)
        assert [node["node"] for node in first["nodes"]] == ["n1"]
        assert first["streams"] == [card(snapshot(stream))]
        assert {item["id"]: item["name"] for item in first["known"]} == {stream.pk: "cam-1", idle.pk: "idle"}
        assert await heard(wall, await tick(at + 1, snapshot(stream, fps=25.0)))


@pytest.mark.both_forms
async def test_an_update_before_the_snapshot_is_neither_lost_nor_a_step_back(viewer: Client, stream: Stream) -> None:
    at = time.time()
    await put(at, snapshot(stream, fps=30.0))
    store = get_livestore()
    read = store.aread
    sent: list[str] = []

    async def late() -> Any:
        """Between the subscription and the snapshot: one update that it has, one that it has not."""
        assert "live" in await groups()
        await tick(at, snapshot(stream, fps=29.0))
        view = await read()
        sent.append(await tick(at + 1, snapshot(stream, fps=31.0)))
        return view

    store.aread = late  # type: ignore[method-assign]
    async with opened("/ws/live/", viewer) as wall:
        assert (await said(wall))["streams"][0]["fps"] == 30.0
        assert await wall.receive_from(timeout=5) == sent[0]
        assert await wall.receive_nothing(0.2)


async def test_wall_receives_a_gone_stream_though_the_tick_is_not_newer(viewer: Client, stream: Stream) -> None:
    at = time.time()
    await put(at, snapshot(stream))
    async with opened("/ws/live/", viewer) as wall:
        await said(wall)
        await tick(at, gone=(stream.pk,))
        assert (await said(wall))["gone"] == [stream.pk]


async def test_clock_of_one_node_does_not_hide_another_nodes_updates(viewer: Client, stream: Stream) -> None:
    at = time.time()
    await put(at, node="ahead")
    async with opened("/ws/live/", viewer) as wall:
        await said(wall)
        assert await heard(wall, await tick(at - 30, snapshot(stream), node="behind"))


async def test_wall_snapshot_omits_publisher_metadata_and_is_valid_json(viewer: Client, stream: Stream) -> None:
    await put(time.time(), snapshot(stream, metadata={"duration": float("inf"), "title": "x"}))
    async with opened("/ws/live/", viewer) as wall:
        text = await wall.receive_from(timeout=5)
        assert "Infinity" not in text
        assert "metadata" not in json.loads(text)["streams"][0]


async def test_wall_websocket_ignores_client_messages(viewer: Client) -> None:
    async with opened("/ws/live/", viewer) as wall:
        await said(wall)
        await wall.send_to(text_data="[" * 1000)
        await wall.send_to(bytes_data=b"\0\xff")
        assert await heard(wall, await tick(time.time()))


@pytest.mark.both_forms
async def test_wall_receives_silences_and_acknowledgements(viewer: Client, stream: Stream) -> None:
    session = await sync_to_async(make_session)(stream)
    opened_at = time.time() - 60
    trouble = {"check": "drift", "level": "warning", "since": opened_at, "title": "Drift", "actual": "740 ms"}
    await put(time.time(), snapshot(stream, session_id=str(session.pk), issues=[trouble]))
    actor = Actor("vera")
    await sync_to_async(silences.silence)(stream, actor, check="drift")
    async with opened("/ws/live/", viewer) as wall:
        muted = [{"check": "drift", "until": None}]
        assert (await said(wall))["marks"] == {str(stream.pk): {"muted": muted, "acknowledged": []}}
        await sync_to_async(streams_actions.acknowledge_issue)(stream, actor, check="drift")
        known = [{"check": "drift", "since": opened_at, "level": "warning"}]
        update = await said(wall)
        assert update["marks"] == {str(stream.pk): {"muted": muted, "acknowledged": known}}
        assert (update["kind"], update["nodes"], update["streams"], update["gone"]) == ("update", [], [], [])
        await sync_to_async(silences.lift_of)(stream, actor)
        while (found := (await said(wall))["marks"][str(stream.pk)])["muted"]:
            pass
        assert found["acknowledged"] == known
        everything = await sync_to_async(silences.silence)(None, actor)
        whole = [{"check": "", "until": None}]
        while (await said(wall))["marks"] != {str(stream.pk): {"muted": whole, "acknowledged": known}}:
            pass
        await sync_to_async(silences.lift)(everything, actor)
        while (await said(wall))["marks"][str(stream.pk)]["muted"]:
            pass


@pytest.mark.both_forms
async def test_a_page_that_missed_an_update_gets_the_whole_picture(
    viewer: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "HEAL_S", 0.0)
    at = time.time()
    await put(at, snapshot(stream))
    async with opened("/ws/live/", viewer) as wall:
        await said(wall)
        assert await heard(wall, await tick(at + 1, prior=at))
        await put(at + 3, snapshot(stream, health="bad"))
        text = await tick(at + 3, prior=at + 2)  # What was told at + 2 did not arrive.
        assert await wall.receive_from(timeout=5) == text
        await put(at + 4, snapshot(stream, health="bad"))
        await tick(at + 4, prior=at + 3)
        healed = await said(wall)
        assert (healed["kind"], healed["streams"][0]["health"]) == ("snapshot", "bad")
        assert await heard(wall, await tick(at + 5, prior=at + 4))
        assert await heard(wall, await tick(at + 6, prior=at + 5))


@pytest.mark.both_forms
async def test_two_nodes_updates_are_no_gap_in_each_others(
    viewer: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "HEAL_S", 0.0)
    at = time.time()
    players = snapshot(stream, state="waiting", health="none", node="n2", session_id=None)
    await put(at, snapshot(stream))
    await put(at, players, node="n2")
    async with opened("/ws/live/", viewer) as wall:
        first = await said(wall)
        assert [stream["node"] for stream in first["streams"]] == ["n1"]
        assert [stream["node"] for stream in first["others"]] == ["n2"]
        for seconds in range(3):
            for node in ("n1", "n2", "n3"):
                prior = None if (node, seconds) == ("n3", 0) else at + seconds
                assert await heard(wall, await tick(at + seconds + 1, node=node, prior=prior))


async def test_updates_of_an_older_node_version_are_relayed(
    viewer: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "HEAL_S", 0.0)
    at = time.time()
    await put(at, snapshot(stream))

    async def whole(*, gone: tuple[int, ...] = ()) -> str:
        """An update as that version made it: the layer's message has no more than the text, which names no node."""
        update = {"kind": "update", "at": at, "nodes": [], "streams": [snapshot(stream)], "gone": gone}
        text = pages.to_json(update)
        await get_channel_layer().group_send("live", {"type": "live.tick", "text": text})
        return text

    async with opened("/ws/live/", viewer) as wall:
        await said(wall)
        assert await heard(wall, await whole())
        assert await heard(wall, await whole(gone=(stream.pk,)))
        await put(at + 1)
        await whole()
        healed = await said(wall)
        assert (healed["kind"], healed["streams"]) == ("snapshot", []), "the text does not say whose stream it was"


NOW = 1_700_000_000.0


def append(stream: Stream, samples: list[Any]) -> None:
    for one in samples:
        async_to_sync(get_livestore().append_samples)({stream.pk: one})


@pytest.mark.both_forms
def test_live_streams_come_with_their_last_minute_and_no_more(viewer: Client, stream: Stream) -> None:
    append(stream, [sample(NOW - age, video_kbps=1000.0 + age, audio_kbps=128.4) for age in (90, 65, 64, 1, 0)])
    put_node(snapshot(stream))
    response = viewer.get("/live/recent/")
    assert response["Cache-Control"] == "no-store"
    minute = {"at": [NOW - 64, NOW - 1, NOW], "video_kbps": [1064, 1001, 1000]}
    minute |= {"audio_kbps": [128, 128, 128], "health": ["good", "good", "good"]}
    assert response.json() == {"items": {str(stream.pk): minute}}


def test_recent_samples_omit_waiting_streams_and_may_be_empty(viewer: Client, stream: Stream) -> None:
    other = make_stream("stream-2")
    append(other, [sample(NOW)])
    put_node(snapshot(stream), snapshot(other, state="waiting"))
    items = viewer.get("/live/recent/").json()["items"]
    assert items == {str(stream.pk): {"at": [], "video_kbps": [], "audio_kbps": [], "health": []}}


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

    run(go())


async def test_seldom_sent_wall_fields_all_arrive_within_their_interval() -> None:
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


async def test_a_good_stream_costs_few_bytes_a_second() -> None:
    """The bound is 60 kB/s for 300 streams: 200 bytes of each."""
    node = Node()
    moving = ("video_kbps", "audio_kbps", "fps", "drift", "open_gop_age", "wire_kbps", "out_kbps", "rtt_ms")
    node.put(*(made(stream) for stream in range(1, 101)))
    await node.tick(0.0)
    size = 0
    for second in range(1, SELDOM + 1):
        fields: dict[str, Any] = dict.fromkeys(moving, second * 7.77)
        node.put(*(made(stream, **fields) for stream in range(1, 101)))
        size += len((await node.tick(float(second)))["text"])
    assert size // SELDOM < 100 * 120


async def test_changed_issue_texts_on_the_wall_are_limited_per_tick() -> None:
    node = Node()
    told = []
    for second in range(12):
        words = f"{second} s"
        node.put(*(made(stream, issues=[issue(since=1.0, actual=words)]) for stream in range(1, 301)))
        update = json.loads((await node.tick(float(second)))["text"])
        told.append(sum(len(each.get("issues", [])) for each in update["streams"]))
    assert {each["actual"] for stream in node.shown.values() for each in stream["issues"]} == {"11 s"}
    assert told[0] == 300
    assert max(told[1:]) <= WORDS_A_TICK
    assert sum(told[1:7]) >= 300 + WORDS_A_TICK  # Everybody's turn comes.


async def test_an_issue_that_opens_clears_or_gets_worse_is_told_at_once() -> None:
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
    assert told == [[], [("warning", "1 s")], None, [("bad", "3 s")], []]


def test_every_snapshot_field_is_assigned_to_a_wall_update_class() -> None:
    """All but those that are named as seldom or left out: no list that nobody kept up to date forgets one."""
    every = set(StreamSnapshot.__annotations__)
    assert set(pages.AT_ONCE) | set(SELDOM_SHOWN) | {"issues"} | set(pages.LEFT_OUT) == every
    assert set(pages.ROUNDED) <= every


@pytest.mark.parametrize(
    ("name", "said", "rounded"),
    [
        ("fps", 29.949, 29.9),
        ("fps", None, None),
        ("fps", 29.951, 30.0),
        ("video_kbps", 2480.5, 2480),
        ("idle_ms", 14_400, 14_000),
        ("drift", -0.4, 0),
    ],
)
def test_figures_are_rounded_as_cards_show_them(name: str, said: float | None, rounded: float | None) -> None:
    fields: dict[str, Any] = {name: said}
    shown: dict[str, Any] = dict(card(made(1, **fields)))
    assert shown[name] == rounded
    assert "metadata" not in shown
