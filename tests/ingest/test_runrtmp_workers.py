"""`runrtmp --workers` as processes: one port, each a node, kept running; what is the same whichever of them is met."""

import asyncio
import itertools
import json
import os
import re
import signal
import socket
import sqlite3
import stat
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from ingest.rtmp import events
from ingest.services import data_folder
from ingest.services.nodes import own_process
from tests.background import Background, free_port
from tests.certificates import make_pair
from tests.ingest.clients import go_live, sending, watch_live
from tests.ingest.ticks import until
from tests.production.parts import RedisServer
from tests.rtmp_client import Refused, RtmpClient
from tests.rtmpweb import processes
from tests.server_process import Installation, wait_for

pytestmark = [pytest.mark.timeout(150), pytest.mark.matrix]

SETUP = """
from django.core.management import call_command
call_command("application", "set", "live", stdout=__import__("io").StringIO())
call_command("application", "set", "open", "--publish", "open", "--play", "public", stdout=__import__("io").StringIO())
call_command("streamkey", "create", "live/cam1", "--json")
"""
NODES = ("node-a-1", "node-a-2")
MOST_OF_ONE = 30
GUESSES = 4


class Supervisor(Background):
    """`manage.py runrtmp --workers 2`."""

    stop_timeout_s = 60.0

    def __init__(self, installation: Installation, **environment: str) -> None:
        self.port = free_port()
        self.folder = installation.folder
        own = {"RTMPWEB_NODE": "node-a", "RTMPWEB_RTMP": f"127.0.0.1:{self.port}", "RTMPWEB_WORKERS": "2"}
        super().__init__(
            "workers",
            [sys.executable, "manage.py", "runrtmp"],
            folder=installation.folder,
            environment={**installation.environment, **own, **environment},
            ready="Running: 2 workers",
        )

    def fails(self) -> str:
        """What it says as it ends at once."""
        self.launch()
        assert self.process is not None
        assert self.process.wait(60) == 1
        assert "Traceback" not in self.log
        return self.log

    def workers(self) -> dict[str, int]:
        """The process of each node."""
        found = {}
        for pid in processes.children(self.pid):
            number = re.search(r"--worker (\d+)", processes.command(pid))
            if number:
                found[f"node-a-{number[1]}"] = pid
        return found


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as made:
        yield made


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, redis: RedisServer) -> Installation:
    made = Installation(tmp_path_factory.mktemp("workers") / "var", REDIS_URL=redis.url)
    made.put_tables()
    return made


@pytest.fixture(scope="module")
def key(installation: Installation) -> str:
    found: str = json.loads(installation.manage("shell", "-v", "0", "-c", SETUP))["key"]
    return found


@pytest.fixture(scope="module")
def supervisor(installation: Installation, key: str) -> Iterator[Supervisor]:
    limits = {
        "RTMPWEB_MAX_CONNECTIONS_PER_ADDRESS": str(MOST_OF_ONE),
        "RTMPWEB_GUESSES": str(GUESSES),
        "RTMPWEB_REFUSAL_DELAY_S": "0",
        "RTMPWEB_DRAIN_S": "20",
    }
    with Supervisor(installation, **limits) as made:
        yield made
        assert "Traceback" not in made.log


def rows(installation: Installation, query: str, *values: Any) -> list[tuple[Any, ...]]:
    return installation.rows(query, *values)


LOST_ON = """
SELECT count(*) FROM ingest_session s JOIN ingest_node n ON n.id = s.node_id
WHERE n.name = ? AND s.end_reason = 'node_lost'
"""
NODES_OF = "SELECT n.name FROM ingest_session s JOIN ingest_node n ON n.id = s.node_id WHERE s.ended_at IS NULL"


async def met(installation: Installation, wanted: int) -> list[str]:
    """The nodes of the sessions that are live, once there are so many."""
    await until(lambda: len(rows(installation, NODES_OF)) == wanted)
    return sorted(name for (name,) in rows(installation, NODES_OF))


async def publish_on_both(stack: AsyncExitStack, installation: Installation, port: int) -> dict[str, RtmpClient]:
    """A publisher of each node, sending."""
    found: dict[str, RtmpClient] = {}
    for number in range(40):
        client = RtmpClient(port=port)
        stack.push_async_callback(client.close)
        await client.open()
        stream_id = await go_live(client, f"cam{number}", "open")
        (node,) = [name for name in await met(installation, len(found) + 1) if name not in found] or [""]
        if node:
            await stack.enter_async_context(sending(client, stream_id))
            found[node] = client
        else:
            await client.close()
            await met(installation, len(found))
        if len(found) == 2:
            return found
    raise AssertionError("all connections came to one worker")


async def test_both_workers_are_reached_and_a_killed_worker_is_restarted(
    installation: Installation, supervisor: Supervisor
) -> None:
    async with AsyncExitStack() as stack:
        publishers = await publish_on_both(stack, installation, supervisor.port)
        assert set(publishers) == set(NODES)
        before = supervisor.workers()
        os.kill(before[NODES[0]], signal.SIGKILL)
        await publishers[NODES[0]].wait_closed(10)
        await until(lambda: rows(installation, LOST_ON, NODES[0]) == [(1,)])
        after = supervisor.workers()
        assert after[NODES[0]] != before[NODES[0]]
        assert after[NODES[1]] == before[NODES[1]]
        assert not publishers[NODES[1]].closed
        assert await met(installation, 1) == [NODES[1]]
        state = "SELECT name, state FROM ingest_node ORDER BY name"
        assert rows(installation, state) == [(name, "up") for name in NODES]
        sockets = [path for (path,) in rows(installation, "SELECT local FROM ingest_node")]
        assert len(set(sockets)) == 2
        assert all(stat.S_ISSOCK(os.stat(path).st_mode) for path in sockets)
    await met(installation, 0)


async def test_connection_limit_per_address_counts_over_both_workers(supervisor: Supervisor) -> None:
    """From one address, by connections of which each worker has about half. For the last place two may come at once."""
    loop = asyncio.get_running_loop()
    served = 0
    with ExitStack() as stack:
        for _ in range(2 * MOST_OF_ONE):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", supervisor.port))
            with suppress(ConnectionError):  # Of one that is refused.
                await loop.sock_sendall(client, b"\x03" + bytes(1536))
                served += bool(await asyncio.wait_for(loop.sock_recv(client, 1), 10))
    assert MOST_OF_ONE <= served <= MOST_OF_ONE + 1


async def test_drain_of_one_worker_leaves_the_other_in_service(
    installation: Installation, supervisor: Supervisor
) -> None:
    manage = asyncio.to_thread
    await manage(installation.manage, "node", "drain", NODES[0], "--grace", "0", "--wait")
    listed = await manage(installation.manage_json, "node", "list")
    assert {node["name"]: node["state"] for node in listed["items"]} == {NODES[0]: "draining", NODES[1]: "up"}
    async with AsyncExitStack() as stack:
        for number in range(12):
            client = await stack.enter_async_context(RtmpClient(port=supervisor.port))
            await go_live(client, f"drained{number}", "open")
        assert set(await met(installation, 12)) == {NODES[1]}
        await manage(installation.manage, "node", "resume", NODES[0])
        await until(lambda: rows(installation, "SELECT count(*) FROM ingest_node WHERE state = 'up'") == [(2,)])
    await met(installation, 0)


async def test_streams_go_through_the_socket_of_a_node(installation: Installation, supervisor: Supervisor) -> None:
    """By which nobody is banned, whatever is tried."""
    ((path,),) = rows(installation, "SELECT local FROM ingest_node WHERE name = ?", NODES[1])
    for number in range(GUESSES + 2):
        async with RtmpClient(path=Path(path)) as client:
            await client.connect("live")
            with pytest.raises(Refused, match="not known"):
                await client.publish(f"sk_{number:040d}")
    async with RtmpClient(path=Path(path)) as publisher, RtmpClient(path=Path(path)) as player:
        stream_id = await go_live(publisher, "local", "open")
        async with sending(publisher, stream_id):
            await watch_live(player, "local", "open")
            await player.wait_count(events.VideoReceived, 20)
            assert await met(installation, 2) == [NODES[1]] * 2
    await met(installation, 0)
    known = rows(installation, "SELECT DISTINCT address FROM ingest_session WHERE name = 'local'")
    assert known == [("local",)]


async def test_wrong_keys_ban_an_address_on_both(installation: Installation, supervisor: Supervisor) -> None:
    answers = []
    for number in range(GUESSES + 8):
        async with RtmpClient(port=supervisor.port) as client:
            await client.connect("live")
            with pytest.raises(Refused) as refused:
                await client.publish(f"sk_{number:040d}")
            answers.append(str(refused.value))
    unknown = [("ban" in answer.lower()) for answer in answers]
    assert unknown == [False] * GUESSES + [True] * 8, answers
    await until(lambda: rows(installation, "SELECT guesses FROM ingest_ban") == [(GUESSES,)])
    await asyncio.to_thread(installation.manage, "ban", "lift", "127.0.0.1")
    async with AsyncExitStack() as stack:
        await until_let_in(supervisor.port)
        assert set(await publish_on_both(stack, installation, supervisor.port)) == set(NODES)
    await met(installation, 0)


async def until_let_in(port: int) -> None:
    """On either worker: each reads bans once a second."""
    in_a_row = 0
    for number in itertools.count():
        if in_a_row == 12:
            return
        async with RtmpClient(port=port) as client:
            try:
                await go_live(client, f"again{number}", "open")
                in_a_row += 1
            except Refused:
                in_a_row = 0
                await asyncio.sleep(0.1)


async def test_a_stop_drains_both_and_a_further_signal_ends_the_drain(
    installation: Installation, supervisor: Supervisor
) -> None:
    async with AsyncExitStack() as stack:
        publishers = await publish_on_both(stack, installation, supervisor.port)
        supervisor.send_stop()
        await until(lambda: supervisor.log.count("Draining for 20 s") == 2)
        for worker in supervisor.workers().values():
            os.kill(worker, signal.SIGTERM)  # As systemd may do with all processes of a service.
        for publisher in [*publishers.values()] * 2:
            await publisher.create_stream()  # It answers, once the signal was heard.
        assert not any(publisher.closed for publisher in publishers.values())
        supervisor.send_stop()
        for publisher in publishers.values():
            await publisher.wait_closed(20)
        assert supervisor.process is not None
        assert await asyncio.to_thread(supervisor.process.wait, 30) == 0
    assert rows(installation, "SELECT DISTINCT state FROM ingest_node") == [("down",)]
    ends = "SELECT count(*) FROM ingest_session WHERE end_reason = 'node_shutdown'"
    assert rows(installation, ends) == [(2,)]
    assert not processes.of_folder(installation.folder)
    folder = data_folder.socket_folder(installation.folder)
    assert not folder.exists() or not list(folder.iterdir())


def test_workers_die_with_the_process_that_keeps_them(installation: Installation, key: str, tmp_path: Path) -> None:
    """And the next ones have their names and the port at once. Before, all are told to read their certificate anew."""
    pair = make_pair(tmp_path)
    tls = {"RTMPWEB_RTMPS": "127.0.0.1:0", "RTMPWEB_TLS_CERT": str(pair.chain), "RTMPWEB_TLS_KEY": str(pair.key)}
    first = Supervisor(installation, **tls)
    first.start()
    assert first.process is not None
    first.process.send_signal(signal.SIGHUP)
    wait_for(lambda: first.log.count("RTMPS serves") == 4, timeout_s=10, what="both have read it twice")
    assert len(set(re.findall(r"Listening on rtmps://\S+", first.log))) == 1
    os.kill(first.pid, signal.SIGKILL)
    wait_for(lambda: not processes.of_folder(installation.folder), timeout_s=10, what="nothing is left")
    first.kill()
    first.start_timeout_s = 20
    first.start()
    assert first.stop() == 0


def test_a_port_that_is_taken_is_named_once(installation: Installation, key: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = Supervisor(installation, RTMPWEB_MEDIA=f"127.0.0.1:{port}").fails()
    assert said.count(f"CommandError: Can't listen on 127.0.0.1:{port} (RTMPWEB_MEDIA): Address already in use.") == 1
    assert "[node-a" not in said


def test_other_workers_on_the_port_are_in_its_way(installation: Installation, key: str, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert "Address already in use" in Supervisor(installation, RTMPWEB_RTMP=f"127.0.0.1:{port}").fails()


def test_workers_without_redis_are_refused_naming_the_setting(installation: Installation) -> None:
    assert "set REDIS_URL" in Supervisor(installation, REDIS_URL="").fails()


def test_a_worker_that_can_not_start_ends_all(installation: Installation, key: str) -> None:
    """Its name is that of a process that runs: this one."""
    with closing(sqlite3.connect(installation.database)) as database, database:
        database.execute("UPDATE ingest_node SET process = ? WHERE name = ?", [str(own_process()), NODES[1]])
    try:
        said = Supervisor(installation).fails()
    finally:
        with closing(sqlite3.connect(installation.database)) as database, database:
            database.execute("UPDATE ingest_node SET process = '' WHERE name = ?", [NODES[1]])
    assert f"[{NODES[1]}] CommandError: The node {NODES[1]} runs already" in said
    assert f"CommandError: Not all workers could start: {NODES[1]}." in said
    assert not processes.of_folder(installation.folder)
