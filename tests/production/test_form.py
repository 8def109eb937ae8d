"""The production form as operators and users meet it: its parts are apart and show one picture."""

import asyncio
import io
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import av
import pytest
from playwright.sync_api import Browser, Page, WebSocket

from ingest.rtmp import events
from tests.browser import log_in_as
from tests.production.broadcast import FPS, Show, on_air
from tests.production.installation import Production
from tests.production.parts import MediaNode
from tests.production.waits import waited_each_s, waited_s, waited_since_s
from tests.rtmp_client import RtmpClient
from tests.rtmpweb import processes
from tests.server_process import program, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.production, pytest.mark.timeout(180)]

PASSWORD = "the password of a test"
END_S = 2.0
FREE_S = 10.0
"""The lease's life."""
TRY_S = 1.0
"""What one try to publish takes."""
STARTED_AT = """
    SELECT extract(epoch FROM started_at)::float8 FROM ingest_session
    WHERE name = 'orphan' AND kind = 'publish' AND id <> %s::uuid ORDER BY started_at DESC LIMIT 1
"""
TOLD_S = 15.0
UPDATES = 4


@pytest.fixture(scope="module")
def keys(production: Production) -> dict[str, dict[str, Any]]:
    production.manage("application", "set", "live")
    names = ("seen", "encoder", "kicked", "revoked", "twice", "orphan", "rolled-up", "pictured", "frozen")
    return production.create_keys(f"live/{name}" for name in names)


@pytest.fixture(scope="module")
def page(browser: Browser, production: Production) -> Page:
    """An administrator's, on the wall."""
    production.create_admin("mira", PASSWORD)
    opened = browser.new_context().new_page()
    log_in_as(opened, production.http, "mira", PASSWORD)
    return opened


def only(keys: dict[str, Any], name: str) -> dict[str, Any]:
    return {name: keys[f"live/{name}"]}


def ended(production: Production, session: str) -> Callable[[], str]:
    """The session's reason for its end; empty while it is open."""
    return lambda: str(production.session(session)["end_reason"])


def check_ended(production: Production, session: str, reason: str, wish: Callable[[], object]) -> None:
    """The session ends for the reason, soon after what `wish` does."""
    pid = next(iter(production.nodes.values())).pid
    waited_before_s = waited_s(pid)
    wish()
    wished_at = time.time()
    assert wait_for(ended(production, session), timeout_s=TOLD_S, what="the session is ended") == reason
    took_s = datetime.fromisoformat(production.session(session)["ended_at"]).timestamp() - wished_at
    assert took_s <= END_S + waited_s(pid) - waited_before_s, f"it took {took_s:.1f} s"


def taken(node: MediaNode, key: dict[str, Any]) -> Show | None:
    """The publisher with the key that the node accepts now, if it does."""
    try:
        with on_air(node.url, {"": key}) as (show,):
            return show
    except AssertionError as refused:
        assert "NetStream.Publish.BadName" in str(refused)  # noqa: PT017
        return None


def test_the_web_process_shows_what_a_node_streams(production: Production, keys: dict[str, Any]) -> None:
    """What the API says of now has gone from the node through Redis."""
    with on_air(production.rtmp, only(keys, "seen"), players=3) as (show,):
        now = production.wait_for_state("live/seen", "live")
        assert now["node"] == "node-a"
        wait_for(lambda: production.stream("live/seen")["players"] == 3, timeout_s=10, what="three players are counted")
        wait_for(lambda: show.played > 3 * FPS, timeout_s=10, what="all of them have played for some seconds")
    show.check(late_s=10.0)
    wait_for(ended(production, now["session_id"]), timeout_s=10, what="the end is in PostgreSQL")


def test_an_encoder_publishes_to_the_second_node(production: Production, keys: dict[str, Any], clip: Path) -> None:
    url = f"{production.nodes['node-b'].url}/live/{keys['live/encoder']['key']}"
    options = ["-v", "error", "-re", "-stream_loop", "-1", "-i", str(clip), "-c", "copy", "-f", "flv", url]
    with program(require_tool("ffmpeg"), *options):
        assert production.wait_for_state("live/encoder", "live")["node"] == "node-b"


def test_the_web_process_shows_a_nodes_pictures(
    page: Page, production: Production, keys: dict[str, Any], clip: Path
) -> None:
    """A node decodes them, the web process serves them; who looks at one has it renewed."""
    url = f"{production.nodes['node-b'].url}/live/{keys['live/pictured']['key']}"
    options = ["-v", "error", "-re", "-stream_loop", "-1", "-i", str(clip), "-c", "copy", "-f", "flv", url]
    with program(require_tool("ffmpeg"), *options):
        first = wait_for(lambda: production.stream("live/pictured")["thumbnail"], timeout_s=20, what="a picture")
        answer = page.request.get(f"{production.http}/streams/live/pictured/thumbnail.webp?v={first}")
        assert (answer.status, answer.headers["content-type"]) == (200, "image/webp")
        assert answer.headers["etag"] == f'"{first}"'
        picture: Any
        with av.open(io.BytesIO(answer.body())) as picture:
            shown = next(picture.decode(video=0))
            assert (shown.width, shown.height) == (320, 180)
        newer = wait_for(
            lambda: production.stream("live/pictured")["thumbnail"] != first, timeout_s=15, what="another picture"
        )
        assert newer


@pytest.mark.measures_time
def test_pages_are_told_of_each_second_of_both_nodes(page: Page, production: Production, keys: dict[str, Any]) -> None:
    """The wall's WebSocket ends at the web process; its texts are the nodes' and come over Redis."""
    heard: list[dict[str, Any]] = []

    def listen(socket: WebSocket) -> None:
        socket.on("framereceived", lambda text: heard.append(json.loads(text)))

    page.on("websocket", listen)
    page.goto(production.http + "/")
    with on_air(production.rtmp, only(keys, "seen")):
        page.wait_for_selector('[data-stream="live/seen"][data-state="live"]', timeout=10_000)
        before = len(heard)

        def told() -> dict[str, list[float]]:
            """When each node's ticks were that the page has heard of since then."""
            page.wait_for_timeout(100)  # Playwright hears only while it is asked something.
            figures = [node for text in heard[before:] if text["kind"] == "update" for node in text["nodes"]]
            return {name: [node["at"] for node in figures if node["node"] == name] for name in production.nodes}

        def enough() -> dict[str, list[float]] | None:
            ticks = told()
            return ticks if all(len(each) >= UPDATES for each in ticks.values()) else None

        ticks = wait_for(enough, timeout_s=TOLD_S, what="the page has heard of some ticks of each node")
    for name, each in ticks.items():
        assert all(one < next_one for one, next_one in pairwise(each)), f"{name} told of a tick twice: {each}"
        late_s = each[-1] - each[0] - (len(each) - 1)
        # A busy machine may hold up any of them, and the next is on time again. Twice as many, or half, are more.
        assert -1.5 < late_s < 2.5, f"{name} does not tell each second: {each}"


@pytest.mark.measures_time
def test_a_kick_reaches_the_node_within_two_seconds(production: Production, keys: dict[str, Any]) -> None:
    with on_air(production.rtmp, only(keys, "kicked")) as (show,):
        session = production.wait_for_state("live/kicked", "live")["session_id"]

        def kick() -> None:
            assert production.request("/api/v1/streams/live/kicked/kick", method="POST")[0] == 202

        check_ended(production, session, "kicked", kick)
        wait_for(lambda: show.ended, timeout_s=TOLD_S, what="the publisher is disconnected")


@pytest.mark.measures_time
def test_a_revoked_key_ends_its_session_within_two_seconds(production: Production, keys: dict[str, Any]) -> None:
    with on_air(production.rtmp, only(keys, "revoked")) as (show,):
        session = production.wait_for_state("live/revoked", "live")["session_id"]
        revoke = partial(production.manage, "streamkey", "revoke", "live/revoked")
        check_ended(production, session, "key_revoked", revoke)
        wait_for(lambda: show.ended, timeout_s=TOLD_S, what="the publisher is disconnected")


def test_a_stream_is_live_on_one_node_at_a_time(production: Production, keys: dict[str, Any]) -> None:
    first, second = production.nodes.values()
    with on_air(first.url, only(keys, "twice")) as (show,):
        with (
            pytest.raises(AssertionError, match=r"NetStream\.Publish\.BadName"),
            on_air(second.url, only(keys, "twice")),
        ):
            pass
        assert not show.ended
    wait_for(lambda: taken(second, keys["live/twice"]), timeout_s=10, what="the other node may have the stream now")


@pytest.mark.slow("a lease lives for ten seconds")
@pytest.mark.measures_time
def test_a_killed_nodes_streams_are_free_within_ten_seconds(production: Production, keys: dict[str, Any]) -> None:
    first, second = production.nodes.values()
    asked_at = 0.0

    def concerned() -> set[int]:
        """Who takes part in a decision: the node, the database, and this process, which asks."""
        return {second.pid, os.getpid()} | processes.descendants(production.postgres.pid)

    try:
        with on_air(first.url, only(keys, "orphan")):
            session = production.wait_for_state("live/orphan", "live")["session_id"]
            waited_before_s = waited_each_s(concerned())
            first.kill()
            free_at = time.time() + FREE_S

            def free() -> Show | None:
                nonlocal asked_at
                asked_at = time.time()
                show = taken(second, keys["live/orphan"])
                assert show or asked_at < free_at, "the stream is not free in time"
                return show

            show = wait_for(free, timeout_s=3 * FREE_S, what="the other node has the stream")
            waited = show.waited_s + waited_since_s(waited_before_s, concerned())
            ((started_at,),) = production.rows(STARTED_AT, session)
            late_s = started_at - max(free_at, asked_at)
            assert late_s <= TRY_S + waited, f"it took {late_s:.1f} s more than it may"
        assert wait_for(ended(production, session), timeout_s=10, what="the old session is ended") == "node_lost"
    finally:
        first.start()
    production.wait_ready()


async def sent_away(url: str, name: str) -> str:
    """What a player of that node is told as its stream is on another."""
    address = urlsplit(url)
    async with RtmpClient(address.hostname or "", port=address.port or 0, timeout_s=90) as player:
        await player.connect("live")
        await player.play(name)
        told = await player.wait_for(events.StatusReceived, lambda status: status.level == "error")
        return f"{told.code}: {told.description}"


@pytest.mark.slow("a lease lives for ten seconds")
@pytest.mark.measures_time
def test_a_node_that_stood_still_sends_its_players_after_their_stream(
    production: Production, keys: dict[str, Any]
) -> None:
    first, second = production.nodes.values()
    with ThreadPoolExecutor(1) as pool, on_air(first.url, only(keys, "frozen"), players=0):
        production.wait_for_state("live/frozen", "live")
        told = pool.submit(asyncio.run, sent_away(first.url, "frozen"))
        wait_for(lambda: production.stream("live/frozen")["players"] == 1, timeout_s=10, what="the player is there")
        first.pause()
        try:
            wait_for(lambda: taken(second, keys["live/frozen"]), timeout_s=3 * FREE_S, what="the stream moves")
            with on_air(second.url, only(keys, "frozen")) as (show,):
                first.resume()
                where = f"Play it from {second.url} (node-b)."
                answer = told.result(3 * TOLD_S)
                assert answer.startswith("NetStream.Play.StreamNotFound: ")
                assert answer.endswith(where)
                assert not show.ended
        finally:
            first.resume()
    production.wait_ready()
