"""/ws/live/: the wall's snapshot, the updates of nodes, and how one that is lost is made good."""

import json
import time
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.contrib.auth.models import User
from django.test import Client

from dashboard import consumers
from dashboard.streams import actions as streams_actions
from ingest import pages
from ingest.live_store import get_livestore
from ingest.models import Stream
from ingest.pages import card
from ingest.services.audit import Actor
from tests.dashboard.conftest import client_of, make_session, make_stream, make_user, snapshot
from tests.dashboard.sockets import groups, opened, put, said, tick

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def user() -> User:
    return make_user("viewer", name="vera")


@pytest.fixture
def browser(user: User) -> Client:
    return client_of(user)


@pytest.fixture
def cam() -> Stream:
    return make_stream("cam-1")


@pytest.mark.both_forms
async def test_the_wall_gets_a_snapshot_then_what_changed_unaltered(browser: Client, cam: Stream) -> None:
    idle = await sync_to_async(make_stream)("idle")
    at = time.time()
    await put(at, snapshot(cam))
    async with opened("/ws/live/", browser) as wall:
        first = await said(wall)
        assert first["kind"] == "snapshot"
        assert first["at"] == pytest.approx(at, abs=0.001)
        assert [node["node"] for node in first["nodes"]] == ["n1"]
        assert first["streams"] == [card(snapshot(cam))]
        assert {item["id"]: item["name"] for item in first["known"]} == {cam.pk: "cam-1", idle.pk: "idle"}
        text = await tick(at + 1, snapshot(cam, fps=25.0))
        assert await wall.receive_from(timeout=5) == text


@pytest.mark.both_forms
async def test_an_update_before_the_snapshot_is_neither_lost_nor_a_step_back(browser: Client, cam: Stream) -> None:
    at = time.time()
    await put(at, snapshot(cam, fps=30.0))
    store = get_livestore()
    read = store.aread
    sent: list[str] = []

    async def late() -> Any:
        """Between the subscription and the snapshot: one update that it has, one that it has not."""
        assert "live" in await groups()
        await tick(at, snapshot(cam, fps=29.0))
        view = await read()
        sent.append(await tick(at + 1, snapshot(cam, fps=31.0)))
        return view

    store.aread = late  # type: ignore[method-assign]
    async with opened("/ws/live/", browser) as wall:
        assert (await said(wall))["streams"][0]["fps"] == 30.0
        assert await wall.receive_from(timeout=5) == sent[0]
        assert await wall.receive_nothing(0.2)


async def test_that_a_stream_has_gone_is_always_told(browser: Client, cam: Stream) -> None:
    at = time.time()
    await put(at, snapshot(cam))
    async with opened("/ws/live/", browser) as wall:
        await said(wall)
        await tick(at, gone=(cam.pk,))
        assert (await said(wall))["gone"] == [cam.pk]


async def test_one_nodes_clock_does_not_hide_another_nodes_updates(browser: Client, cam: Stream) -> None:
    at = time.time()
    await put(at, node="ahead")
    async with opened("/ws/live/", browser) as wall:
        await said(wall)
        text = await tick(at - 30, snapshot(cam), node="behind")
        assert await wall.receive_from(timeout=5) == text


async def test_what_a_publisher_claims_can_not_break_the_snapshot(browser: Client, cam: Stream) -> None:
    await put(time.time(), snapshot(cam, metadata={"duration": float("inf"), "title": "x"}))
    async with opened("/ws/live/", browser) as wall:
        text = await wall.receive_from(timeout=5)
        assert "Infinity" not in text
        assert "metadata" not in json.loads(text)["streams"][0]


async def test_what_a_browser_says_is_ignored(browser: Client) -> None:
    async with opened("/ws/live/", browser) as wall:
        await said(wall)
        await wall.send_to(text_data="[" * 1000)
        await wall.send_to(bytes_data=b"\0\xff")
        text = await tick(time.time())
        assert await wall.receive_from(timeout=5) == text


@pytest.mark.both_forms
async def test_what_an_operator_does_reaches_the_wall(user: User, browser: Client, cam: Stream) -> None:
    session = await sync_to_async(make_session)(cam)
    opened_at = time.time() - 60
    trouble = {"check": "drift", "level": "warning", "since": opened_at, "title": "Drift", "actual": "740 ms"}
    await put(time.time(), snapshot(cam, session_id=str(session.pk), issues=[trouble]))
    actor = Actor("vera", user)
    await sync_to_async(streams_actions.mute)(cam, actor, check="drift")
    async with opened("/ws/live/", browser) as wall:
        muted = [{"check": "drift", "until": None}]
        assert (await said(wall))["marks"] == {str(cam.pk): {"muted": muted, "acknowledged": []}}
        await sync_to_async(streams_actions.acknowledge_issue)(cam, actor, check="drift")
        known = [{"check": "drift", "since": opened_at, "level": "warning"}]
        update = await said(wall)
        assert update["marks"] == {str(cam.pk): {"muted": muted, "acknowledged": known}}
        assert (update["kind"], update["nodes"], update["streams"], update["gone"]) == ("update", [], [], [])
        await sync_to_async(streams_actions.unmute)(cam, actor)
        while (found := (await said(wall))["marks"][str(cam.pk)])["muted"]:
            pass
        assert found["acknowledged"] == known


# --- What gets lost ---


@pytest.mark.both_forms
async def test_a_page_that_missed_an_update_gets_the_whole_picture(
    browser: Client, cam: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "HEAL_S", 0.0)
    at = time.time()
    await put(at, snapshot(cam))
    async with opened("/ws/live/", browser) as wall:
        await said(wall)
        text = await tick(at + 1, prior=at)
        assert await wall.receive_from(timeout=5) == text
        await put(at + 3, snapshot(cam, health="bad"))
        text = await tick(at + 3, prior=at + 2)  # What was told at + 2 did not arrive.
        assert await wall.receive_from(timeout=5) == text
        await put(at + 4, snapshot(cam, health="bad"))
        await tick(at + 4, prior=at + 3)
        healed = await said(wall)
        assert (healed["kind"], healed["streams"][0]["health"]) == ("snapshot", "bad")
        text = await tick(at + 5, prior=at + 4)
        assert await wall.receive_from(timeout=5) == text
        text = await tick(at + 6, prior=at + 5)
        assert await wall.receive_from(timeout=5) == text


@pytest.mark.both_forms
async def test_two_nodes_updates_are_no_gap_in_each_others(
    browser: Client, cam: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "HEAL_S", 0.0)
    at = time.time()
    players = snapshot(cam, state="waiting", health="none", node="n2", session_id=None)
    await put(at, snapshot(cam))
    await put(at, players, node="n2")
    async with opened("/ws/live/", browser) as wall:
        first = await said(wall)
        assert [stream["node"] for stream in first["streams"]] == ["n1"]
        assert [stream["node"] for stream in first["others"]] == ["n2"]
        for seconds in range(3):
            for node in ("n1", "n2", "n3"):
                prior = None if (node, seconds) == ("n3", 0) else at + seconds
                text = await tick(at + seconds + 1, node=node, prior=prior)
                assert await wall.receive_from(timeout=5) == text


# --- During an upgrade ---


async def test_a_node_of_the_version_before_is_heard(
    browser: Client, cam: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "HEAL_S", 0.0)
    at = time.time()
    await put(at, snapshot(cam))

    async def whole(*, gone: tuple[int, ...] = ()) -> str:
        """An update as that version made it: the layer's message has no more than the text, which names no node."""
        update = {"kind": "update", "at": at, "nodes": [], "streams": [snapshot(cam)], "gone": gone}
        text = pages.to_json(update)
        await get_channel_layer().group_send("live", {"type": "live.tick", "text": text})
        return text

    async with opened("/ws/live/", browser) as wall:
        await said(wall)
        text = await whole()
        assert await wall.receive_from(timeout=5) == text
        text = await whole(gone=(cam.pk,))
        assert await wall.receive_from(timeout=5) == text
        await put(at + 1)
        await whole()
        healed = await said(wall)
        assert (healed["kind"], healed["streams"]) == ("snapshot", []), "the text does not say whose stream it was"
