"""Several servers on one port, which share their limits; and the Unix socket by which nodes of one machine meet."""

import asyncio
import logging
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path

import pytest
import pytest_asyncio

from ingest.rtmp import events
from ingest.server import RtmpServer, ServerConfig
from ingest.server.sockets import Address
from ingest.siblings import Siblings
from tests.background import free_port
from tests.certificates import make_pair
from tests.rtmp_client import RtmpClient
from tests.server.app import ScriptedApp
from tests.server.conftest import Serve
from tests.server.media import AVC_HEADER, key_frame
from tests.server.waiting import becomes

MOST = 12
MOST_OF_ONE = 6
CLIENTS = 40
"""That all of them meet the same of two servers comes about once in 2 ** 39 runs."""


class Workers:
    """Two servers on one port."""

    def __init__(self, folder: Path, app: ScriptedApp) -> None:
        self.port = free_port()
        sockets = {number: folder / f"{number}.worker" for number in (1, 2)}
        self.servers = [
            RtmpServer(
                app,
                ServerConfig(
                    node=f"node-{number}",
                    rtmp=("127.0.0.1", self.port),
                    reuse_port=True,
                    max_connections=MOST,
                    max_connections_per_address=MOST_OF_ONE,
                ),
                Siblings(number, sockets),
            )
            for number in sockets
        ]

    @property
    def connections(self) -> list[int]:
        return [len(server.connections) for server in self.servers]

    def have_seen(self, clients: int) -> bool:
        """So many have come, and both know what has come of them."""
        refused = sum(server.connection_limits.refused for server in self.servers)
        return sum(self.connections) + refused == clients and self.known_to(0) == self.known_to(1)

    def known_to(self, number: int) -> int:
        """Connections that count for the server of this number, wherever they are."""
        limits = self.servers[number].connection_limits
        return limits._total + limits._total_elsewhere


@pytest_asyncio.fixture
async def workers(tmp_path: Path, app: ScriptedApp) -> AsyncIterator[Workers]:
    found = Workers(tmp_path, app)
    for server in found.servers:
        await server.start()
    yield found
    for server in found.servers:
        await server.stop(grace_s=2)


async def gone(client: socket.socket) -> bool:
    """Whether the server has closed it, rather than waiting for the handshake."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(0.2):
            return await loop.sock_recv(client, 1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


async def test_workers_share_a_port_and_one_connection_limit(workers: Workers) -> None:
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        clients: list[socket.socket] = []
        for _ in range(CLIENTS):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", workers.port))
            clients.append(client)
            await becomes(lambda: workers.have_seen(len(clients)))
        refused = await asyncio.gather(*map(gone, clients))
        assert refused.count(False) == MOST_OF_ONE
        assert sum(workers.connections) == MOST_OF_ONE
        for client, was_refused in zip(clients, refused, strict=True):
            if not was_refused:
                client.close()
        await becomes(lambda: workers.known_to(0) == workers.known_to(1) == 0)
        met: set[tuple[int, ...]] = set()
        while len(met) < 2:  # With places that are free again, both are met.
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", workers.port))
            await becomes(lambda: sum(workers.connections) == 1)
            met.add(tuple(workers.connections))
            client.close()
            await becomes(lambda: sum(workers.connections) == 0)


async def test_connections_of_a_stopped_worker_no_longer_count(workers: Workers) -> None:
    first, second = workers.servers
    for _ in range(3):
        first.connection_limits.take("192.0.2.1")
    await becomes(lambda: workers.known_to(1) == 3)
    await first.stop(grace_s=0.1)
    await becomes(lambda: workers.known_to(1) == 0)
    assert all(second.connection_limits.take("192.0.2.1") for _ in range(MOST_OF_ONE))
    assert not second.connection_limits.take("192.0.2.1")


async def test_later_worker_counts_the_connections_of_the_first(tmp_path: Path, app: ScriptedApp) -> None:
    workers = Workers(tmp_path, app)
    first, second = workers.servers
    await first.start()
    try:
        for number in range(MOST):
            assert first.connection_limits.take(f"192.0.2.{number}")
        await second.start()
        await becomes(lambda: workers.known_to(1) == MOST)
        assert not second.connection_limits.take("198.51.100.1")
    finally:
        for server in workers.servers:
            await server.stop(grace_s=0.1)


def is_closed(at: Address) -> bool:
    with suppress(ConnectionRefusedError), socket.create_connection(at):
        return False
    return True


async def test_connections_pending_at_a_draining_worker_are_served(
    serve: Serve, app: ScriptedApp, tmp_path: Path
) -> None:
    """It was dealt out to this one: nobody else would take it, and a reset is taken for good by some programs."""
    pair = make_pair(tmp_path)
    secure = {"rtmps": ("127.0.0.1", 0), "certificate": pair.chain, "certificate_key": pair.key}
    server = await serve(config={"reuse_port": True, "media": ("127.0.0.1", 0), **secure})
    where = {scheme: bound[0] for scheme, bound in server.bound.items()}
    with ExitStack() as stack:
        waiting = {scheme: stack.enter_context(socket.create_connection(at)) for scheme, at in where.items()}
        server.drain(5)  # Before the loop has seen them.
        await becomes(lambda: all(map(is_closed, where.values())))
        for client in waiting.values():
            client.settimeout(5)

        def handshake() -> bytes:
            waiting["rtmp"].sendall(b"\x03" + bytes(1536))
            return waiting["rtmp"].recv(1)

        def tls() -> bytes:
            with pair.client().wrap_socket(waiting["rtmps"], server_hostname="localhost") as wrapped:
                wrapped.sendall(b"\x03" + bytes(1536))
                return wrapped.recv(1)

        def viewer() -> bytes:
            waiting["http"].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return waiting["http"].recv(4)

        assert await asyncio.to_thread(handshake) == b"\x03"
        assert await asyncio.to_thread(tls) == b"\x03"
        assert await asyncio.to_thread(viewer) == b"HTTP"


# --- The Unix socket ---


async def test_unix_socket_serves_streams_outside_the_connection_limits(
    tmp_path: Path, app: ScriptedApp, serve: Serve, quiet: None
) -> None:
    path = tmp_path / "node.rtmp"
    server = await serve(config={"local": path, "max_connections_per_address": 1, "max_connections": 1})
    await becomes(lambda: app.nodes)
    assert app.node.scope["local"] == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    async with RtmpClient(port=server.addresses[0][1]) as publisher, RtmpClient(path=path) as player:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        async with RtmpClient(path=path) as another:  # Over the limit of one, if they counted.
            for client in (player, another):
                await client.connect("live")
                await client.play("cam1")
            for at in range(3):
                await publisher.send_video(stream_id, 40 * at, key_frame(at))
            for client in (player, another):
                await client.wait_count(events.VideoReceived, 3)
            peers = {instance.scope["client"][0] for instance in app.instances if instance.scope["type"] == "rtmp"}
            assert peers == {"127.0.0.1", "local"}
    await becomes(lambda: not server.connections)
    assert server.connection_limits._total == 0
    server.drain(0.1)
    assert not path.exists()
    server.resume()
    await becomes(path.exists)
    await server.stop(0.1)
    assert not path.exists()


async def test_a_socket_that_a_dead_process_left_is_replaced(tmp_path: Path, serve: Serve) -> None:
    path = tmp_path / "node.rtmp"
    with socket.socket(socket.AF_UNIX) as former:
        former.bind(str(path))
        former.listen()
    await serve(config={"local": path})
    async with RtmpClient(path=path) as client:
        await client.connect("live")


async def test_without_its_socket_a_node_serves_by_its_ports(
    tmp_path: Path, app: ScriptedApp, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        server = await serve(config={"local": tmp_path / "nowhere" / "node.rtmp"})
    await becomes(lambda: app.nodes)
    assert app.node.scope["local"] == ""
    assert "can't be listened on" in caplog.text
    async with RtmpClient(port=server.addresses[0][1]) as client:
        await client.connect("live")
