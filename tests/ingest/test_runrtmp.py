"""A media node as a process: what its signals do to a live publisher and player, and what is left on record."""

import asyncio
import json
import signal
import socket
import sqlite3
import ssl
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from cryptography import x509

from ingest.rtmp import events
from tests.background import Background, free_port
from tests.certificates import Pair, make_pair
from tests.ingest.clients import go_live, sending, watch_live
from tests.rtmp_client import Refused, RtmpClient
from tests.server.media import keep_sending
from tests.server_process import Installation

pytestmark = pytest.mark.timeout(120)

SETUP = """
from django.core.management import call_command
call_command("application", "set", "live", stdout=__import__("io").StringIO())
call_command("streamkey", "create", "live/cam1", "--json")
"""


class Node(Background):
    """`manage.py runrtmp` with RTMPS, on free ports."""

    def __init__(self, installation: Installation, pair: Pair, **environment: str) -> None:
        self.plain, self.tls = free_port(), free_port()
        own = {
            "RTMPWEB_NODE": "node-a",
            "RTMPWEB_RTMP": f"127.0.0.1:{self.plain}",
            "RTMPWEB_RTMPS": f"127.0.0.1:{self.tls}",
            "RTMPWEB_TLS_CERT": str(pair.chain),
            "RTMPWEB_TLS_KEY": str(pair.key),
        }
        super().__init__(
            "node-a",
            [sys.executable, "manage.py", "runrtmp"],
            folder=installation.folder,
            environment={**installation.environment, **own, **environment},
            ready="Listening on rtmps://",
        )

    async def says(self, text: str, times: int = 1) -> None:
        async with asyncio.timeout(20):
            while self.log.count(text) < times:  # noqa: ASYNC110 - another process writes it.
                await asyncio.sleep(0.05)

    def fails(self) -> str:
        """What it says as it ends at once."""
        self.launch()
        assert self.process is not None
        assert self.process.wait(30) == 1
        assert "Traceback" not in self.log
        return self.log

    async def ends(self, timeout_s: float = 15) -> int:
        assert self.process is not None
        return await asyncio.to_thread(self.process.wait, timeout_s)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    made = Installation(tmp_path_factory.mktemp("runrtmp"))
    made.put_tables()
    return made


@pytest.fixture(scope="module")
def key(installation: Installation) -> str:
    found: str = json.loads(installation.manage("shell", "-v", "0", "-c", SETUP))["key"]
    return found


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return make_pair(tmp_path)


@pytest.fixture
def node(installation: Installation, key: str, pair: Pair) -> Iterator[Node]:
    with Node(installation, pair, RTMPWEB_DRAIN_S="20", RTMPWEB_RECONNECT_URL="rtmps://two.example.net") as made:
        yield made


def rows(installation: Installation, query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(installation.folder / "rtmpweb.sqlite3") as database:
        return database.execute(query).fetchall()


async def test_a_drain_by_sigterm_ends_early_when_nothing_is_live(
    installation: Installation, key: str, node: Node, pair: Pair, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        publisher = await stack.enter_async_context(RtmpClient(port=node.tls, tls=pair.client()))
        player = await stack.enter_async_context(RtmpClient(port=node.plain))
        stream_id = await go_live(publisher, key, capsEx=1.0)
        await stack.enter_async_context(sending(publisher, stream_id))
        await watch_live(player)

        new = make_pair(tmp_path)
        node.signal(signal.SIGHUP)
        await node.says("RTMPS serves", times=2)
        shown = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", node.tls))
        assert x509.load_pem_x509_certificate(shown.encode()).serial_number == new.serial

        node.signal(signal.SIGTERM)
        request = await publisher.wait_for(events.StatusReceived, lambda event: "ReconnectRequest" in event.code)
        assert request.info["tcUrl"] == "rtmps://two.example.net/live"
        seen = len(player.of(events.VideoReceived))
        await player.wait_count(events.VideoReceived, seen + 10)
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await RtmpClient(port=node.plain).open()
        await player.close()
        await publisher.delete_stream(stream_id)
        assert await node.ends() == 0
    assert "Draining for 20 s at most" in node.log
    assert "Traceback" not in node.log
    assert rows(installation, "SELECT state FROM ingest_node") == [("down",)]
    ends = rows(installation, "SELECT kind, end_reason FROM ingest_session WHERE ended_at IS NOT NULL ORDER BY kind")
    assert ends == [("play", "tcp_reset"), ("publish", "client_unpublish")]


async def test_a_second_signal_ends_the_drain_with_all_on_record(
    installation: Installation, key: str, node: Node, pair: Pair
) -> None:
    before = {pk for (pk,) in rows(installation, "SELECT id FROM ingest_session")}
    async with RtmpClient(port=node.tls, tls=pair.client()) as publisher, RtmpClient(port=node.plain) as player:
        async with sending(publisher, await go_live(publisher, key)):
            await watch_live(player)
            await player.wait_count(events.VideoReceived, 20)
            node.signal(signal.SIGTERM)
            await node.says("Draining")
            node.signal(signal.SIGTERM)
            await publisher.wait_closed(10)
            await player.wait_closed(10)
        assert await node.ends() == 0
    assert publisher.of(events.StatusReceived)[-1].code == "NetConnection.Connect.AppShutdown"
    assert player.of(events.StatusReceived)[-1].code == "NetStream.Play.UnpublishNotify"
    assert "Traceback" not in node.log
    ended = {
        pk: (kind, reason, frames)
        for pk, kind, reason, frames in rows(
            installation, "SELECT id, kind, end_reason, video_frames FROM ingest_session WHERE ended_at IS NOT NULL"
        )
        if pk not in before
    }
    assert sorted((kind, reason) for kind, reason, _ in ended.values()) == [
        ("play", "node_shutdown"),
        ("publish", "node_shutdown"),
    ]
    assert rows(installation, "SELECT state, stopped_at IS NOT NULL FROM ingest_node") == [("down", 1)]
    assert rows(installation, "SELECT count(*) FROM ingest_lease WHERE session_id IS NOT NULL") == [(0,)]
    (frames,) = {frames for kind, _, frames in ended.values() if kind == "publish"}
    samples = duckdb.read_parquet(f"{installation.folder}/lake/samples/**/*.parquet", union_by_name=True)
    publish = next(pk for pk, (kind, _, _) in ended.items() if kind == "publish")
    own = samples.filter(f"replace(session, '-', '') = '{publish.replace('-', '')}'")
    assert sum(sent for (sent,) in own.project("video_frames").fetchall()) == frames, "each frame is in the telemetry"


async def test_signal_during_the_stop_ends_the_process_at_once(
    installation: Installation, node: Node, pair: Pair
) -> None:
    """As long as another program keeps what it has to say from the database, the stop would go on."""
    path = installation.folder / "rtmpweb.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None, timeout=20)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with RtmpClient(port=node.plain) as client:
            with pytest.raises(Refused):
                await client.connect("nowhere")
            node.signal(signal.SIGTERM)  # Nothing is live: no drain.
            await node.says("Stopping.")
            node.signal(signal.SIGTERM)
            assert await node.ends() == 1
    assert "Stopped at once." in node.log


async def test_a_second_process_of_a_name_does_not_start(
    installation: Installation, key: str, node: Node, pair: Pair
) -> None:
    """And the first one's publisher is live as before."""
    open_ones = "SELECT count(*) FROM ingest_session WHERE ended_at IS NULL"
    async with RtmpClient(port=node.plain) as publisher:
        stream_id = await go_live(publisher, key)
        sending = asyncio.create_task(keep_sending(publisher, stream_id))
        before = rows(installation, open_ones)
        said = await asyncio.to_thread(Node(installation, pair).fails)
        assert f"CommandError: The node node-a runs already as process {node.pid} of " in said
        assert "RTMPWEB_NODE" in said
        assert "Listening" not in said
        assert rows(installation, open_ones) == before
        assert not sending.done()
        assert not publisher.closed
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"RTMPWEB_RTMP": "off", "RTMPWEB_RTMPS": "off"}, "nothing to listen on"),
        ({"RTMPWEB_TLS_KEY": ""}, "RTMPWEB_TLS_CERT and RTMPWEB_TLS_KEY"),
        ({"RTMPWEB_TLS_CERT": "/nowhere.pem"}, "/nowhere.pem can't be read"),
    ],
)
def test_invalid_listener_or_tls_setting_fails_the_start_with_a_reason(
    installation: Installation, pair: Pair, environment: dict[str, str], said: str
) -> None:
    assert said in Node(installation, pair, **environment).fails()


def test_a_port_that_is_taken_is_named_with_its_setting(installation: Installation, pair: Pair, key: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = Node(installation, pair, RTMPWEB_MEDIA=f"127.0.0.1:{port}").fails()
    assert f"CommandError: Can't listen on 127.0.0.1:{port} (RTMPWEB_MEDIA): Address already in use." in said
