"""The production form as operators and users meet it: its parts are apart and show one picture, log nothing while they
have nothing to do, and take few of PostgreSQL's connections.
"""

import asyncio
import io
import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import av
import httpx
import psycopg
import pytest
from playwright.sync_api import Page, WebSocket

from tests import loops
from tests.production.broadcast import FPS, Reception, Show, on_air
from tests.production.installation import Production
from tests.production.parts import MediaNode
from tests.programs import LOOPED, Keys, key_url, publishing
from tests.rtmp_client import RtmpClient
from tests.rtmpweb import processes
from tests.rtmpweb.processes import waited_s, waited_since_s
from tests.server_process import program, wait_for

pytestmark = [pytest.mark.production, pytest.mark.timeout(180)]

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


def taken(node: MediaNode, key: dict[str, Any]) -> Show | None:
    """The publisher with the key that the node accepts now, if it does."""
    try:
        with on_air(node.url, key) as show:
            return show
    except AssertionError as refused:
        assert "NetStream.Publish.BadName" in str(refused)  # noqa: PT017
        return None


def test_the_web_process_shows_a_nodes_pictures(page: Page, production: Production, keys: Keys, clip: Path) -> None:
    """An encoder publishes to the second node, which decodes them, the web process serves them; who looks at one has it
    renewed.
    """
    with program(*publishing(clip, key_url(keys["pictured"], production.nodes["node-b"].url), *LOOPED)):
        assert production.wait_for_state("live/pictured", "live")["node"] == "node-b"
        first = wait_for(lambda: production.stream("live/pictured")["thumbnail"], timeout_s=20, what="a picture")
        answer = page.request.get(f"{production.http}/streams/live/pictured/thumbnail.webp?v={first}")
        assert (answer.status, answer.headers["content-type"]) == (200, "image/webp")
        assert answer.headers["etag"] == f'"{first}"'
        picture: Any
        with av.open(io.BytesIO(answer.body())) as picture:
            shown = next(picture.decode(video=0))
            assert (shown.width, shown.height) == (320, 180)

        def is_newer() -> bool:
            return bool(production.stream("live/pictured")["thumbnail"] != first)

        wait_for(is_newer, timeout_s=15, what="another picture")


@pytest.mark.measures_time
def test_wall_page_receives_each_second_of_both_nodes(page: Page, production: Production, keys: Keys) -> None:
    """The wall's WebSocket ends at the web process; its texts are the nodes' and come over Redis."""
    heard: list[dict[str, Any]] = []

    def listen(socket: WebSocket) -> None:
        socket.on("framereceived", lambda text: heard.append(json.loads(text)))

    page.on("websocket", listen)
    page.goto(production.http + "/")
    with on_air(production.rtmp, keys["seen"]):
        page.wait_for_selector('[data-stream="live/seen"][data-state="live"]', timeout=10_000)
        before = len(heard)

        def enough() -> dict[str, list[float]] | None:
            """When each node's ticks were that the page has heard of since then, if they are enough."""
            page.wait_for_timeout(100)  # Playwright hears only while it is asked something.
            figures = [node for text in heard[before:] if text["kind"] == "update" for node in text["nodes"]]
            ticks = {name: [node["at"] for node in figures if node["node"] == name] for name in production.nodes}
            return ticks if all(len(each) >= UPDATES for each in ticks.values()) else None

        ticks = wait_for(enough, timeout_s=TOLD_S, what="the page has heard of some ticks of each node")
    for name, each in ticks.items():
        assert all(one < next_one for one, next_one in pairwise(each)), f"{name} told of a tick twice: {each}"
        late_s = each[-1] - each[0] - (len(each) - 1)
        # A busy machine may hold up any of them, and the next is on time again. Twice as many, or half, are more.
        assert -1.5 < late_s < 2.5, f"{name} does not tell each second: {each}"


@pytest.mark.measures_time
@pytest.mark.parametrize(("name", "reason"), [("kicked", "kicked"), ("revoked", "key_revoked")])
def test_a_kick_or_a_revoked_key_ends_the_session_within_two_seconds(
    production: Production, keys: Keys, name: str, reason: str
) -> None:
    path = f"live/{name}"
    with on_air(production.rtmp, keys[name], players=3) as show:
        now = production.wait_for_state(path, "live")
        assert now["node"] == "node-a"
        wait_for(lambda: production.stream(path)["players"] == 3, timeout_s=10, what="three players are counted")
        wait_for(lambda: show.played > 3 * FPS, timeout_s=10, what="all of them have played for some seconds")
        pid = production.nodes["node-a"].pid
        waited_before_s = waited_s(pid)
        if name == "kicked":
            assert production.request("/api/v1/streams/live/kicked/kick", method="POST")[0] == 202
        else:
            production.manage("streamkey", "revoke", "live/revoked")
        wished_at = time.time()
        ended = production.wait_for_end(path, now["session_id"])
        assert ended["end_reason"] == reason
        took_s = datetime.fromisoformat(ended["ended_at"]).timestamp() - wished_at
        assert took_s <= END_S + waited_s(pid) - waited_before_s, f"it took {took_s:.1f} s"
        wait_for(lambda: show.ended, timeout_s=TOLD_S, what="the publisher is disconnected")


def test_a_stream_is_live_on_one_node_at_a_time(production: Production, keys: Keys) -> None:
    first, second = production.nodes.values()
    with on_air(first.url, keys["twice"]) as show:
        assert taken(second, keys["twice"]) is None
        assert not show.ended
    wait_for(lambda: taken(second, keys["twice"]), timeout_s=10, what="the other node may have the stream now")


@pytest.mark.journey
@pytest.mark.slow("a lease lives for ten seconds")
@pytest.mark.measures_time
def test_a_killed_nodes_streams_are_free_within_ten_seconds(production: Production, keys: Keys) -> None:
    first, second = production.nodes.values()
    asked_at = 0.0

    def concerned() -> set[int]:
        """Who takes part in a decision: the node, the database, and this process, which asks."""
        return {second.pid, os.getpid()} | processes.descendants(production.postgres.pid)

    try:
        with on_air(first.url, keys["orphan"]):
            session = production.wait_for_state("live/orphan", "live")["session_id"]
            waited_before_s = {pid: waited_s(pid) for pid in concerned()}
            first.kill()
            free_at = time.time() + FREE_S

            def free() -> Show | None:
                nonlocal asked_at
                asked_at = time.time()
                show = taken(second, keys["orphan"])
                assert show or asked_at < free_at, "the stream is not free in time"
                return show

            show = wait_for(free, timeout_s=3 * FREE_S, what="the other node has the stream")
            waited = show.waited_s + waited_since_s(waited_before_s, concerned())
            ((started_at,),) = production.rows(STARTED_AT, session)
            late_s = started_at - max(free_at, asked_at)
            assert late_s <= TRY_S + waited, f"it took {late_s:.1f} s more than it may"
        assert production.wait_for_end("live/orphan", session)["end_reason"] == "node_lost"
    finally:
        first.start()
    production.wait_ready()


async def watched(url: str, name: str) -> tuple[int, int]:
    """What a player of that node is sent of the stream's second publisher, whose messages are numbered anew: how many
    of the first's it had before, and of the second's."""
    reception = Reception()
    async with RtmpClient(port=urlsplit(url).port or 0, timeout_s=90) as player:
        player.listener = reception.take
        await player.connect("live")
        await player.play(name)

        def has_both() -> bool:
            numbers = reception.numbers
            return any(later < earlier for earlier, later in pairwise(numbers)) and numbers[-1] > FPS

        await player.wait_until(has_both)
        place = next(at for at, (earlier, later) in enumerate(pairwise(reception.numbers), 1) if later < earlier)
        return place, len(reception.numbers) - place


@pytest.mark.measures_time
def test_players_of_a_stalled_node_get_their_stream_from_its_new_node(production: Production, keys: Keys) -> None:
    first, second = production.nodes.values()
    with ThreadPoolExecutor(1) as pool, on_air(first.url, keys["frozen"], players=0):
        production.wait_for_state("live/frozen", "live")
        watching = pool.submit(asyncio.run, watched(first.url, "frozen"))
        wait_for(lambda: production.stream("live/frozen")["players"] == 1, timeout_s=10, what="the player is there")
        first.pause()
        try:
            wait_for(lambda: taken(second, keys["frozen"]), timeout_s=3 * FREE_S, what="the stream moves")
            with on_air(second.url, keys["frozen"]) as show:
                first.resume()
                before, after = watching.result(3 * TOLD_S)
                assert before
                assert after
                assert not show.ended
        finally:
            first.resume()
    production.wait_ready()


OUTBOX_RUNS = """
    SELECT total_run_count FROM django_celery_beat_periodictask WHERE task = 'dashboard.tasks.take_outbox'
"""
"""It goes each three seconds."""


def test_periodic_outbox_task_is_not_logged(production: Production) -> None:
    def runs() -> int:
        return int(production.rows(OUTBOX_RUNS)[0][0])

    parts = (production.beat, production.worker)
    before = runs()
    known = {part.name: len(part.log) for part in parts}
    wait_for(lambda: runs() >= before + 3, timeout_s=40, what="it has gone three times")
    for part in parts:
        new = part.log[known[part.name] :].splitlines()
        assert len(new) <= 3, "three each time, if all is told"
        assert not any("take_outbox" in line for line in new)


REQUESTS = 150
AT_ONCE = 16
"""RTMPWEB_HTTP_REQUESTS."""
OTHERS = 8
"""By which the connections of all other threads and processes may differ meanwhile."""

CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"


async def ask_all(url: str) -> list[int]:
    """The statuses for people whose sessions nobody knows, all at once."""
    limits = httpx.Limits(max_connections=REQUESTS)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:
        cookies = [{"Cookie": f"sessionid={number:032}"} for number in range(REQUESTS)]
        answers = await asyncio.gather(*(client.get("/", headers=cookie) for cookie in cookies))
    return [answer.status_code for answer in answers]


@contextmanager
def counted(production: Production) -> Iterator[list[int]]:
    """How many connections there are, again and again while the block runs."""
    found: list[int] = []
    over = threading.Event()
    with psycopg.connect(production.postgres.url, autocommit=True) as connection:

        def count() -> None:
            while not over.wait(0.01):
                found.append(connection.execute(CONNECTIONS).fetchall()[0][0])

        thread = threading.Thread(target=count)
        thread.start()
        try:
            wait_for(lambda: found, timeout_s=5, what="they are counted")
            yield found
        finally:
            over.set()
            thread.join()


def test_a_flood_of_requests_takes_few_connections(production: Production) -> None:
    with counted(production) as found:
        before = found[-1]
        statuses = loops.run(ask_all(production.http))
        most = max(found)
        assert set(statuses) == {302}
        assert most <= before + AT_ONCE + OTHERS
        wait_for(lambda: found[-1] <= before + OTHERS, timeout_s=5, what="requests have left none behind")


def test_health_knows_that_there_is_no_connection_left(production: Production) -> None:
    def database() -> str:
        found: str = production.request("/healthz", token="")[1]["database"]
        return found

    assert database() == "ok"
    with ExitStack() as held:

        def is_told() -> bool:
            """Whatever the others give back is taken."""
            with suppress(psycopg.OperationalError):
                while True:
                    held.enter_context(psycopg.connect(production.postgres.url))
            return database() == "unreachable"

        wait_for(is_told, timeout_s=15, what="health says so")
        status, told = production.request("/api/v1/streams", token="anything")
        assert status == 503
        assert "takes no more connections" in told["detail"]
    wait_for(lambda: database() == "ok", timeout_s=15, what="there are some again")
    production.wait_ready()
