"""The WebSockets of the wall and of a stream's page, through the routes, the session and the origin check in use; with
which code a real process refuses one."""

import asyncio
import json
import sqlite3
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from socket import create_connection
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dashboard import consumers
from ingest import live_store, pages
from ingest.live_store import LiveView, MemoryLiveStore, RedisLiveStore, get_livestore
from ingest.models import StatusEvent, Stream
from ingest.pages import card
from rtmpweb.asgi import application
from tests.dashboard.conftest import client_of, make_session, make_stream, snapshot
from tests.dashboard.sockets import groups, opened, put, said, sample, socket, tick
from tests.production.parts import Daphne, Web
from tests.rtmpweb.test_runweb import UPGRADE
from tests.server.waiting import becomes
from tests.server_process import Installation

pytestmark = pytest.mark.django_db(transaction=True)


async def send_sample(stream: Stream, at: float) -> str:
    """Send a sample to the stream's page as a node does. Return its text."""
    text = pages.sample_text(at=at, stream=snapshot(stream), sample=sample(at))
    await get_channel_layer().group_send(f"stream.{stream.pk}", {"type": "stream.sample", "text": text})
    return text


async def send_event(stream: Stream, session: str, sequence: int) -> str:
    text = pages.event_text({"session_id": session, "sequence": sequence, "at": 1.5, "kind": "onstatus"})
    await get_channel_layer().group_send(f"stream.{stream.pk}", {"type": "stream.event", "text": text})
    return text


async def close_code(page: WebsocketCommunicator) -> int:
    message = await page.receive_output(timeout=20)
    assert message["type"] == "websocket.close"
    return int(message["code"])


async def refused(page: WebsocketCommunicator, code: int) -> WebsocketCommunicator:
    await page.connect(timeout=20)
    assert await close_code(page) == code
    return page


@pytest.mark.parametrize("path", ["/ws/live/", "/ws/streams/{pk}/"])
async def test_anonymous_is_told_to_log_in_and_hears_nothing_else(stream: Stream, path: str) -> None:
    await put(time.time(), snapshot(stream))
    page = await refused(socket(path.format(pk=stream.pk)), 4401)
    await tick(time.time(), snapshot(stream))
    await send_sample(stream, time.time())
    assert await page.receive_nothing(0.2)
    await page.disconnect()


async def test_an_unknown_stream_is_4404(viewer: Client) -> None:
    page = await refused(socket("/ws/streams/4711/", viewer), 4404)
    await page.disconnect()


@pytest.mark.both_forms
async def test_a_streams_page_gets_samples_and_events_first(viewer: Client, stream: Stream) -> None:
    at = time.time()
    session = await sync_to_async(make_session)(stream)
    for sequence in range(1, 61):
        await StatusEvent.objects.acreate(
            session=session, sequence=sequence, kind="onstatus", at=timezone.now(), code="NetStream.Publish.Start"
        )
    await put(at, snapshot(stream))
    for seconds in (2, 1, 0):
        await get_livestore().append_samples({stream.pk: sample(at - seconds)})
    async with opened(f"/ws/streams/{stream.pk}/", viewer) as page:
        first = await said(page)
        assert first["kind"] == "snapshot"
        assert first["stream"] == snapshot(stream)
        assert first["samples"].keys() == sample(0).keys()
        assert first["samples"]["at"] == [at - 2, at - 1, at]
        assert [event["sequence"] for event in first["events"]] == list(range(60, 10, -1))
        assert first["events"][0].keys() == {
            *("sequence", "at", "kind", "level", "code", "description", "detail", "session_id")
        }
        text = await send_sample(stream, at + 1)
        assert await page.receive_from(timeout=5) == text
        text = await send_event(stream, str(session.pk), 61)
        assert await page.receive_from(timeout=5) == text


@pytest.mark.both_forms
async def test_stream_websocket_skips_samples_and_events_already_sent(viewer: Client, stream: Stream) -> None:
    at = time.time()
    session = await sync_to_async(make_session)(stream)
    await StatusEvent.objects.acreate(session=session, sequence=1, kind="onstatus")
    await put(at, snapshot(stream))
    await get_livestore().append_samples({stream.pk: sample(at)})
    async with opened(f"/ws/streams/{stream.pk}/", viewer) as page:
        await said(page)
        await send_sample(stream, at)
        await send_event(stream, str(session.pk), 1)
        text = await send_event(stream, str(session.pk), 2)
        assert await page.receive_from(timeout=5) == text


async def test_stream_websocket_receives_only_its_own_stream(viewer: Client, stream: Stream) -> None:
    other = await sync_to_async(make_stream)("stream-2")
    async with opened(f"/ws/streams/{stream.pk}/", viewer) as page:
        assert (await said(page))["stream"] is None
        await send_sample(other, time.time())
        await tick(time.time(), snapshot(stream))
        text = await send_sample(stream, time.time())
        assert await page.receive_from(timeout=5) == text


def _new_password(user: User) -> None:
    user.set_password("another")
    user.save()


@pytest.mark.parametrize("path", ["/ws/live/", "/ws/streams/{pk}/"])
@pytest.mark.parametrize(
    ("loss", "code"),
    [
        ("log out", 4401),
        (lambda user: user.groups.clear(), 4403),
        (lambda user: User.objects.filter(pk=user.pk).update(is_active=False), 4401),
        (_new_password, 4401),
    ],
)
async def test_websocket_is_closed_at_the_recheck_after_permission_is_lost(
    viewer: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch, path: str, loss: Any, code: int
) -> None:
    def lose() -> None:
        if loss == "log out":
            viewer.logout()
        else:
            loss(User.objects.get())

    monkeypatch.setattr(consumers, "RECHECK_S", 0.0)
    async with opened(path.format(pk=stream.pk), viewer) as page:
        await said(page)
        await sync_to_async(lose)()
        await tick(time.time(), snapshot(stream))
        await send_sample(stream, time.time())
        assert await close_code(page) == code
        await tick(time.time(), snapshot(stream))
        await send_sample(stream, time.time())
        assert await page.receive_nothing(0.2)


@pytest.mark.both_forms
async def test_a_recheck_sends_the_whole_again(viewer: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened("/ws/live/", viewer) as wall:
        assert (await said(wall))["streams"] == []
        await put(time.time(), snapshot(stream))
        monkeypatch.setattr(consumers, "RECHECK_S", 0.0)
        await tick(0)
        assert (await said(wall))["streams"] == [card(snapshot(stream))]


async def test_a_slow_browser_skips_the_backlog_and_gets_a_fresh_snapshot(
    viewer: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "STALL_S", 3600)  # What is slow, and what comes after a gap, is said below.
    monkeypatch.setattr(consumers, "GAP_S", 3600)
    relayed = 0
    relay_one = consumers.Relay.relay

    async def counted(consumer: consumers.Relay, message: dict[str, Any]) -> None:
        nonlocal relayed
        await relay_one(consumer, message)
        relayed += 1

    monkeypatch.setattr(consumers.LiveConsumer, "live_tick", counted)
    taken = asyncio.Event()
    taken.set()
    got: list[Any] = []
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def send(message: dict[str, Any]) -> None:
        """A server that waits for the browser to take each text."""
        await taken.wait()
        if message["type"] == "websocket.send":
            got.append(json.loads(message["text"]))

    at = time.time()
    await put(at, snapshot(stream))
    page = socket("/ws/live/", viewer)
    inbox.put_nowait({"type": "websocket.connect"})
    running = asyncio.ensure_future(application(page.scope, inbox.get, send))
    await becomes(lambda: len(got) == 1, 20)
    taken.clear()
    for seconds in range(1, 6):
        await tick(at + seconds, snapshot(stream, players=seconds))
    await put(at + 5, snapshot(stream, players=5))
    monkeypatch.setattr(consumers, "STALL_S", 0)
    taken.set()
    await becomes(lambda: relayed == 5, 20)
    assert [text["streams"][0]["players"] for text in got[1:]] == [1]
    monkeypatch.setattr(consumers, "STALL_S", 3600)
    monkeypatch.setattr(consumers, "GAP_S", 0)
    await put(at + 6, snapshot(stream, players=6))
    await tick(at + 6, snapshot(stream, players=6))
    await becomes(lambda: len(got) == 3, 20)
    assert (got[2]["kind"], got[2]["streams"][0]["players"]) == ("snapshot", 6)
    await tick(at + 7, snapshot(stream, players=7))
    await becomes(lambda: len(got) == 4, 20)
    assert (got[3]["kind"], got[3]["streams"][0]["players"]) == ("update", 7)
    inbox.put_nowait({"type": "websocket.disconnect", "code": 1001})
    await asyncio.wait_for(running, 5)


class AwayStore(MemoryLiveStore):
    """A LiveStore in Redis on a port where nobody listens."""

    async def aread(self) -> LiveView:
        return await RedisLiveStore("redis://127.0.0.1:1/0").aread()


@pytest.mark.stores
async def test_websocket_without_the_live_store_is_closed_with_4503(
    viewer: Client, caplog: pytest.LogCaptureFixture
) -> None:
    live_store._store = AwayStore()
    wall = await refused(socket("/ws/live/", viewer), 4503)
    assert "Traceback" not in caplog.text
    await wall.disconnect()


@pytest.mark.stores
async def test_a_page_outlives_the_live_store(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened("/ws/live/", viewer) as wall:
        await said(wall)
        live_store._store = AwayStore()
        monkeypatch.setattr(consumers, "RECHECK_S", 0.0)
        text = await tick(time.time())
        assert await wall.receive_from(timeout=5) == text


async def test_websockets_are_limited_per_login_session(viewer: Client, settings: Settings) -> None:
    settings.HTTP_SOCKETS = 2
    async with opened("/ws/live/", viewer) as wall, opened("/ws/attempts/", viewer) as attempts:
        await said(wall)
        await said(attempts)
        another = await refused(socket("/ws/live/", viewer), 4429)
        await another.disconnect()
        async with opened("/ws/live/", await sync_to_async(lambda: client_of(User.objects.get()))()) as elsewhere:
            assert (await said(elsewhere))["kind"] == "snapshot"
    async with opened("/ws/live/", viewer) as again:
        assert (await said(again))["kind"] == "snapshot"


async def test_many_pages_ask_the_database_by_few_threads(viewer: Client, stream: Stream) -> None:
    """Each thread keeps a connection. The event loop's own would be more, and more with each processor."""

    def others() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name.startswith("asyncio_")}

    before = others()
    async with AsyncExitStack() as stack:
        opening = [opened(f"/ws/streams/{stream.pk}/" if number % 2 else "/ws/live/", viewer) for number in range(8)]
        pages = await asyncio.gather(*(stack.enter_async_context(page) for page in opening))
        assert {(await said(page))["kind"] for page in pages} == {"snapshot"}
        assert others() <= before


async def test_a_page_that_went_leaves_nothing_behind(viewer: Client, stream: Stream) -> None:
    async with opened("/ws/live/", viewer) as wall, opened(f"/ws/streams/{stream.pk}/", viewer) as page:
        await said(wall)
        await said(page)
        assert await groups() == {"live", f"stream.{stream.pk}"}
    assert not await groups()


@pytest.fixture(scope="module", params=[Web, Daphne])
def web(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Web]:
    """Its database answers, but has lost the table of log-in sessions since it started: to who has one, an error."""
    installation = Installation(tmp_path_factory.mktemp("web"))
    installation.put_tables()
    process: Web = request.param(installation.folder, installation.environment)
    process.start()
    with closing(sqlite3.connect(installation.database)) as connection, connection:
        connection.execute("DROP TABLE django_session")
    yield process
    process.stop()


def code_of_close(port: int, session: str) -> int:
    """Of the first frame that follows the answer to the handshake (RFC 6455, 5.5.1)."""
    with create_connection(("127.0.0.1", port), 10) as page, page.makefile("rb") as read:
        page.sendall(UPGRADE.format(port=port, session=session).encode())
        assert read.readline().startswith(b"HTTP/1.1 101 ")
        while read.readline().strip():
            pass
        opcode, length = read.read(2)
        assert opcode == 0x88
        code: int
        (code,) = struct.unpack_from(">H", read.read(length))
        return code


@pytest.mark.parametrize(("session", "code"), [("", 4401), ("0" * 32, 4503)], ids=["nobody", "the database is away"])
def test_websocket_close_code_gives_the_reason_for_refusal(web: Web, session: str, code: int) -> None:
    assert code_of_close(web.port, session) == code
