"""The wall: the snapshot and the updates of /ws/live/, how one that is lost is made good, and the last minute that
sparklines begin with."""

import json
import time
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from channels.layers import get_channel_layer
from channels.testing import WebsocketCommunicator
from django.test import Client

from dashboard import muting, notes
from dashboard.consumers import relay
from ingest.consumers import pages
from ingest.consumers.wallfeed import card
from ingest.livestore import get_livestore
from ingest.models import Stream
from ingest.services.audit import Actor
from tests.dashboard.conftest import make_session, make_stream, put_node, snapshot
from tests.dashboard.sockets import groups, opened, put, said, sample, tick

pytestmark = pytest.mark.django_db(transaction=True)


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


async def test_that_a_stream_has_gone_is_always_told(viewer: Client, stream: Stream) -> None:
    at = time.time()
    await put(at, snapshot(stream))
    async with opened("/ws/live/", viewer) as wall:
        await said(wall)
        await tick(at, gone=(stream.pk,))
        assert (await said(wall))["gone"] == [stream.pk]


async def test_one_nodes_clock_does_not_hide_another_nodes_updates(viewer: Client, stream: Stream) -> None:
    at = time.time()
    await put(at, node="ahead")
    async with opened("/ws/live/", viewer) as wall:
        await said(wall)
        assert await heard(wall, await tick(at - 30, snapshot(stream), node="behind"))


async def test_what_a_publisher_claims_can_not_break_the_snapshot(viewer: Client, stream: Stream) -> None:
    await put(time.time(), snapshot(stream, metadata={"duration": float("inf"), "title": "x"}))
    async with opened("/ws/live/", viewer) as wall:
        text = await wall.receive_from(timeout=5)
        assert "Infinity" not in text
        assert "metadata" not in json.loads(text)["streams"][0]


async def test_what_a_browser_says_is_ignored(viewer: Client) -> None:
    async with opened("/ws/live/", viewer) as wall:
        await said(wall)
        await wall.send_to(text_data="[" * 1000)
        await wall.send_to(bytes_data=b"\0\xff")
        assert await heard(wall, await tick(time.time()))


@pytest.mark.both_forms
async def test_what_an_operator_does_reaches_the_wall(viewer: Client, stream: Stream) -> None:
    session = await sync_to_async(make_session)(stream)
    opened_at = time.time() - 60
    trouble = {"check": "drift", "level": "warning", "since": opened_at, "title": "Drift", "actual": "740 ms"}
    await put(time.time(), snapshot(stream, session_id=str(session.pk), issues=[trouble]))
    actor = Actor("vera")
    await sync_to_async(muting.mute)(stream, actor, check="drift")
    async with opened("/ws/live/", viewer) as wall:
        muted = [{"check": "drift", "until": None}]
        assert (await said(wall))["marks"] == {str(stream.pk): {"muted": muted, "acknowledged": []}}
        await sync_to_async(notes.acknowledge)(stream, actor, check="drift")
        known = [{"check": "drift", "since": opened_at, "level": "warning"}]
        update = await said(wall)
        assert update["marks"] == {str(stream.pk): {"muted": muted, "acknowledged": known}}
        assert (update["kind"], update["nodes"], update["streams"], update["gone"]) == ("update", [], [], [])
        await sync_to_async(muting.lift)(stream, actor)
        while (found := (await said(wall))["marks"][str(stream.pk)])["muted"]:
            pass
        assert found["acknowledged"] == known


@pytest.mark.both_forms
async def test_a_page_that_missed_an_update_gets_the_whole_picture(
    viewer: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "HEAL_S", 0.0)
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
    monkeypatch.setattr(relay, "HEAL_S", 0.0)
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


async def test_a_node_of_the_version_before_is_heard(
    viewer: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "HEAL_S", 0.0)
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


def test_a_stream_that_waits_or_has_no_sample_yet_is_no_fault(viewer: Client, stream: Stream) -> None:
    other = make_stream("stream-2")
    append(other, [sample(NOW)])
    put_node(snapshot(stream), snapshot(other, state="waiting"))
    items = viewer.get("/live/recent/").json()["items"]
    assert items == {str(stream.pk): {"at": [], "video_kbps": [], "audio_kbps": [], "health": []}}
