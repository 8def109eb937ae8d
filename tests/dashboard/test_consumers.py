"""The WebSockets of the wall and of a stream's page, through the routes, the session and the origin check in use."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dashboard import consumers
from ingest import live_store
from ingest.live_store import LiveView, MemoryLiveStore, RedisLiveStore, get_livestore
from ingest.models import StatusEvent, Stream
from ingest.pages import card
from rtmpweb.asgi import application
from tests.dashboard.conftest import client_of, make_session, make_stream, make_user, snapshot
from tests.dashboard.sockets import close_code, groups, happen, opened, put, said, sample, second, socket, tick, until

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


# --- Who gets in ---


@pytest.mark.parametrize("path", ["/ws/live/", "/ws/streams/{pk}/"])
async def test_anonymous_is_told_to_log_in_and_hears_nothing_else(cam: Stream, path: str) -> None:
    await put(time.time(), snapshot(cam))
    page = socket(path.format(pk=cam.pk))
    await page.connect()
    assert await close_code(page) == 4401
    await tick(time.time(), snapshot(cam))
    await second(cam, time.time())
    assert await page.receive_nothing(0.2)
    await page.disconnect()


@pytest.mark.parametrize("path", ["/ws/live/", "/ws/streams/{pk}/"])
async def test_a_user_without_a_role_is_refused(cam: Stream, path: str) -> None:
    page = socket(path.format(pk=cam.pk), await sync_to_async(lambda: client_of(make_user()))())
    await page.connect()
    assert await close_code(page) == 4403
    await page.disconnect()


@pytest.mark.parametrize("role", ["viewer", "operator", "key manager", "analyst", "admin"])
async def test_every_role_may_watch(cam: Stream, role: str) -> None:
    client = await sync_to_async(lambda: client_of(make_user(role)))()
    async with opened("/ws/live/", client) as wall, opened(f"/ws/streams/{cam.pk}/", client) as page:
        assert (await said(wall))["kind"] == (await said(page))["kind"] == "snapshot"


async def test_another_sites_page_is_refused(browser: Client) -> None:
    page = socket("/ws/live/", browser, (b"origin", b"https://example.org"))
    connected, _ = await page.connect()
    assert not connected
    await page.disconnect()


async def test_an_unknown_stream_is_4404(browser: Client) -> None:
    page = socket("/ws/streams/4711/", browser)
    await page.connect()
    assert await close_code(page) == 4404
    await page.disconnect()


# --- A stream's page ---


@pytest.mark.both_forms
async def test_a_streams_page_gets_samples_and_events_first(browser: Client, cam: Stream) -> None:
    at = time.time()
    session = await sync_to_async(make_session)(cam)
    for sequence in range(1, 61):
        await StatusEvent.objects.acreate(
            session=session, sequence=sequence, kind="onstatus", at=timezone.now(), code="NetStream.Publish.Start"
        )
    await put(at, snapshot(cam))
    for seconds in (2, 1, 0):
        await get_livestore().append_samples({cam.pk: sample(at - seconds)})
    async with opened(f"/ws/streams/{cam.pk}/", browser) as page:
        first = await said(page)
        assert first["kind"] == "snapshot"
        assert first["stream"] == snapshot(cam)
        assert first["samples"].keys() == sample(0).keys()
        assert first["samples"]["at"] == [at - 2, at - 1, at]
        assert [event["sequence"] for event in first["events"]] == list(range(60, 10, -1))
        assert first["events"][0].keys() == {
            *("sequence", "at", "kind", "level", "code", "description", "detail", "session_id")
        }
        text = await second(cam, at + 1)
        assert await page.receive_from(timeout=5) == text
        text = await happen(cam, str(session.pk), 61)
        assert await page.receive_from(timeout=5) == text


@pytest.mark.both_forms
async def test_it_hears_nothing_twice(browser: Client, cam: Stream) -> None:
    at = time.time()
    session = await sync_to_async(make_session)(cam)
    await StatusEvent.objects.acreate(session=session, sequence=1, kind="onstatus")
    await put(at, snapshot(cam))
    await get_livestore().append_samples({cam.pk: sample(at)})
    async with opened(f"/ws/streams/{cam.pk}/", browser) as page:
        await said(page)
        await second(cam, at)
        await happen(cam, str(session.pk), 1)
        text = await happen(cam, str(session.pk), 2)
        assert await page.receive_from(timeout=5) == text


async def test_it_hears_of_its_stream_only(browser: Client, cam: Stream) -> None:
    other = await sync_to_async(make_stream)("cam-2")
    async with opened(f"/ws/streams/{cam.pk}/", browser) as page:
        assert (await said(page))["stream"] is None
        await second(other, time.time())
        await tick(time.time(), snapshot(cam))
        text = await second(cam, time.time())
        assert await page.receive_from(timeout=5) == text


# --- Rights that end, pages that are slow ---


async def _logged_out(user: User, browser: Client) -> None:
    await sync_to_async(browser.logout)()


async def _without_role(user: User, browser: Client) -> None:
    await user.groups.aclear()


async def _inactive(user: User, browser: Client) -> None:
    await User.objects.filter(pk=user.pk).aupdate(is_active=False)


async def _new_password(user: User, browser: Client) -> None:
    user.set_password("another")
    await user.asave()


@pytest.mark.parametrize("path", ["/ws/live/", "/ws/streams/{pk}/"])
@pytest.mark.parametrize(
    ("loss", "code"), [(_logged_out, 4401), (_without_role, 4403), (_inactive, 4401), (_new_password, 4401)]
)
async def test_who_loses_the_right_is_closed_within_the_recheck(
    user: User,
    browser: Client,
    cam: Stream,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    loss: Callable[[User, Client], Awaitable[None]],
    code: int,
) -> None:
    monkeypatch.setattr(consumers, "RECHECK_S", 0.0)
    async with opened(path.format(pk=cam.pk), browser) as page:
        await said(page)
        await loss(user, browser)
        await tick(time.time(), snapshot(cam))
        await second(cam, time.time())
        assert await close_code(page) == code
        await tick(time.time(), snapshot(cam))
        await second(cam, time.time())
        assert await page.receive_nothing(0.2)


@pytest.mark.both_forms
async def test_a_recheck_sends_the_whole_picture_again(
    browser: Client, cam: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened("/ws/live/", browser) as wall:
        assert (await said(wall))["streams"] == []
        await put(time.time(), snapshot(cam))
        monkeypatch.setattr(consumers, "RECHECK_S", 0.0)
        await tick(0)
        assert (await said(wall))["streams"] == [card(snapshot(cam))]


async def test_a_slow_browser_skips_the_backlog_and_gets_a_fresh_snapshot(
    browser: Client, cam: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "STALL_S", 3600)  # What is slow, and what comes after a gap, is said below.
    monkeypatch.setattr(consumers, "GAP_S", 3600)
    relayed = 0
    relay_one = consumers.Relay.relay

    async def counted(consumer: consumers.Relay, message: dict[str, Any]) -> None:
        nonlocal relayed
        await relay_one(consumer, message)
        relayed += 1

    monkeypatch.setattr(consumers.Relay, "relay", counted)
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
    await put(at, snapshot(cam))
    page = socket("/ws/live/", browser)
    inbox.put_nowait({"type": "websocket.connect"})
    running = asyncio.ensure_future(application(page.scope, inbox.get, send))
    await until(lambda: len(got) == 1)
    taken.clear()
    for seconds in range(1, 6):
        await tick(at + seconds, snapshot(cam, players=seconds))
    await put(at + 5, snapshot(cam, players=5))
    monkeypatch.setattr(consumers, "STALL_S", 0)
    taken.set()
    await until(lambda: relayed == 5)
    assert [text["streams"][0]["players"] for text in got[1:]] == [1]
    monkeypatch.setattr(consumers, "STALL_S", 3600)
    monkeypatch.setattr(consumers, "GAP_S", 0)
    await put(at + 6, snapshot(cam, players=6))
    await tick(at + 6, snapshot(cam, players=6))
    await until(lambda: len(got) == 3)
    assert (got[2]["kind"], got[2]["streams"][0]["players"]) == ("snapshot", 6)
    await tick(at + 7, snapshot(cam, players=7))
    await until(lambda: len(got) == 4)
    assert (got[3]["kind"], got[3]["streams"][0]["players"]) == ("update", 7)
    inbox.put_nowait({"type": "websocket.disconnect", "code": 1001})
    await asyncio.wait_for(running, 5)


class AwayStore(MemoryLiveStore):
    """A LiveStore in Redis on a port where nobody listens."""

    async def aread(self) -> LiveView:
        return await RedisLiveStore("redis://127.0.0.1:1/0").aread()


@pytest.mark.both_forms
async def test_without_the_live_store_a_page_is_told_to_come_later(
    browser: Client, caplog: pytest.LogCaptureFixture
) -> None:
    live_store._store = AwayStore()
    wall = socket("/ws/live/", browser)
    await wall.connect()
    assert await close_code(wall) == 4503
    assert "Traceback" not in caplog.text
    await wall.disconnect()


@pytest.mark.both_forms
async def test_a_page_outlives_the_live_store(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened("/ws/live/", browser) as wall:
        await said(wall)
        live_store._store = AwayStore()
        monkeypatch.setattr(consumers, "RECHECK_S", 0.0)
        text = await tick(time.time())
        assert await wall.receive_from(timeout=5) == text


async def test_a_session_has_so_many_pages_and_others_have_theirs(
    browser: Client, user: User, settings: Settings
) -> None:
    settings.HTTP_SOCKETS = 2
    async with opened("/ws/live/", browser) as wall, opened("/ws/attempts/", browser) as attempts:
        await said(wall)
        await said(attempts)
        another = socket("/ws/live/", browser)
        await another.connect()
        assert await close_code(another) == 4429
        await another.disconnect()
        async with opened("/ws/live/", await sync_to_async(client_of)(user)) as elsewhere:
            assert (await said(elsewhere))["kind"] == "snapshot"
    async with opened("/ws/live/", browser) as again:
        assert (await said(again))["kind"] == "snapshot"


async def test_many_pages_ask_the_database_by_few_threads(browser: Client, cam: Stream) -> None:
    """Each thread keeps a connection. The event loop's own would be more, and more with each processor."""

    def others() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name.startswith("asyncio_")}

    before = others()
    async with AsyncExitStack() as stack:
        opening = [opened(f"/ws/streams/{cam.pk}/" if number % 2 else "/ws/live/", browser) for number in range(8)]
        pages = await asyncio.gather(*(stack.enter_async_context(page) for page in opening))
        assert {(await said(page))["kind"] for page in pages} == {"snapshot"}
        assert others() <= before


async def test_a_page_that_went_leaves_nothing_behind(browser: Client, cam: Stream) -> None:
    async with opened("/ws/live/", browser) as wall, opened(f"/ws/streams/{cam.pk}/", browser) as page:
        await said(wall)
        await said(page)
        assert await groups() == {"live", f"stream.{cam.pk}"}
    assert not await groups()
