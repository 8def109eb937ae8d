"""What the kernel is told and tells of a connection, and when it is read and written."""

import asyncio
import os
import socket
import sys
import time
from typing import Any, cast

import pytest

from ingest.rtmp import events
from ingest.server import RtmpServer
from ingest.server.connection import Connection
from ingest.server.output import Flusher
from ingest.server.playing import Playing
from ingest.server.read_batching import PORTION, ReadBatching
from ingest.server.sockets import UNKNOWN, tcp_info, tune, undelivered_bytes
from tests.pure.live.payloads import session
from tests.pure.rtmp.test_handshake import PLAYER, SERVER, add_digest, add_signature, find_digest
from tests.rtmp_client import RtmpClient
from tests.server.app import ScriptedApp
from tests.server.clients import playing, publishing
from tests.server.conftest import Serve
from tests.server.media import AVC_HEADER, inter_frame, keep_sending, key_frame
from tests.server.waiting import becomes, within


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no TCP_USER_TIMEOUT")
async def test_connections_have_tcp_keepalive_and_user_timeout_set(server: RtmpServer, port: int) -> None:
    async with RtmpClient(port=port):
        (connection,) = server.connections
        found = connection.transport.get_extra_info("socket")
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        options = ("TCP_NODELAY", "TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
        values = [found.getsockopt(socket.IPPROTO_TCP, getattr(socket, option)) for option in options]
        assert values == [1, 30, 10, 3, 30_000]


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="this system has no TCP_NOTSENT_LOWAT")
@pytest.mark.parametrize(("unsent_bytes", "most"), [(128 * 1024, 400_000), (16 * 1024, 200_000)])
async def test_the_kernel_holds_little_for_a_player_that_reads_nothing(
    serve: Serve, unsent_bytes: int, most: int
) -> None:
    """What is over it waits where it can be dropped."""
    server = await serve(config={"unsent_bytes": unsent_bytes})
    async with (
        publishing(server, AVC_HEADER, name="cam") as (publisher, stream_id),
        playing(server, name="cam") as player,
    ):
        await player.wait_for(events.VideoReceived)
        player_session = next(session for session in server.sessions.values() if isinstance(session, Playing))
        found = player_session.connection.transport.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * 1024 * 1024)
        player.pause_reading()
        for number in range(100):
            await publisher.send_video(stream_id, number + 1, key_frame(number, 60_000))
        await publisher.send_video(stream_id, 200, key_frame(0, 77))

        async def has_come() -> bool:
            subscriber = player_session.subscriber
            return subscriber.pending_messages > 0 and subscriber._queue[-1].size < 1000

        assert await within(5, has_come, True)
        assert 0 < undelivered_bytes(found) < most


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="this system has no TCP_NOTSENT_LOWAT")
def test_the_kernel_keeps_its_own_limit_if_none_is_set() -> None:
    with socket.socket() as untouched, socket.socket() as tuned:
        tune(tuned, 0)
        limits = [each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) for each in (untouched, tuned)]
        assert limits[0] == limits[1]
        tune(tuned, 5000)
        assert tuned.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == 5000


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO is Linux's")
def test_tcp_info_of_a_loopback_connection_has_a_round_trip_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        server, _ = listener.accept()
        with server:
            client.sendall(b"x" * 1000)
            assert len(server.recv(2000)) == 1000
            found = tcp_info(client)
            assert found.rtt_ms is not None
            assert 0 < found.rtt_ms < 1000
            assert found.retransmits == 0


def test_nothing_is_known_of_a_closed_socket() -> None:
    closed = socket.socket()
    closed.close()
    assert tcp_info(closed) == UNKNOWN
    assert tcp_info(None) == UNKNOWN


AWAY_S = 0.06
"""How far away the client pretends to be."""


@pytest.mark.parametrize("has_digest", [False, True], ids=["simple", "digest"])
@pytest.mark.parametrize("answers", [True, False], ids=["answers", "own bytes"])
async def test_handshake_measures_the_round_trip_only_if_c2_answers_s1(
    server: RtmpServer, port: int, has_digest: bool, answers: bool
) -> None:
    c1 = bytes(4) + (b"\x09\x00\x7c\x02" if has_digest else bytes(4)) + os.urandom(1528)
    c1 = add_digest(c1, PLAYER, 8) if has_digest else c1
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.monotonic()
    writer.write(b"\x03" + c1)
    s1 = (await reader.readexactly(3073))[1:1537]
    await asyncio.sleep(AWAY_S)
    _, at = find_digest(s1, SERVER)
    c2 = add_signature(bytes(1536), PLAYER, s1[at : at + 32]) if has_digest else s1
    writer.write(c2 if answers else bytes(1536))
    (connection,) = server.connections
    assert isinstance(connection, Connection)

    await becomes(lambda: connection.ready_since is not None)
    most_ms = (time.monotonic() - began) * 1000
    found = connection.round_trip_ms
    if answers:
        assert found is not None
        assert AWAY_S * 1000 - 2 < found < most_ms + 2  # uvloop's clock goes by milliseconds.
    else:
        assert found is None
    writer.close()


async def test_round_trip_time_is_shown_where_the_kernel_reports_none(
    app: ScriptedApp, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.server.publishing.tcp_info", lambda _socket: UNKNOWN)  # As on other systems.
    began = time.monotonic()
    async with publishing(port, AVC_HEADER, key_frame(1)):
        await app.wait_until(lambda: bool(app.samples))
    rtt_ms = app.samples[0].rtt_ms
    assert rtt_ms is not None
    assert 0 <= rtt_ms < (time.monotonic() - began) * 1000


@pytest.mark.parametrize("tells", [True, False])
async def test_pings_measure_the_round_trip_time_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tells: bool
) -> None:
    """Of who is silent; where the kernel tells nothing, of who sends media too."""
    monkeypatch.setattr("ingest.server.deadlines.HAS_ROUND_TRIPS", tells)
    began = time.monotonic()
    server = await serve(ping_after_s=0.15)
    async with publishing(server) as (client, stream_id):
        (connection,) = server.connections
        assert isinstance(connection, Connection)
        connection.round_trip_ms = None
        sending = asyncio.create_task(asyncio.sleep(0) if tells else keep_sending(client, stream_id))

        await becomes(lambda: connection.round_trip_ms is not None)
        assert connection.round_trip_ms is not None
        assert 0 <= connection.round_trip_ms < (time.monotonic() - began) * 1000
        sending.cancel()


class Player:
    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.flushed = asyncio.Event()
        self.flushes = 0
        self.errors: list[Exception] = []

    def flush(self) -> None:
        self.flushes += 1
        self.flushed.set()
        if self.fault:
            raise self.fault

    def broken(self, error: Exception) -> None:
        self.errors.append(error)


@pytest.mark.parametrize("flush_ms", [0, 5])
async def test_a_marked_player_is_flushed_once_and_not_at_once(flush_ms: int) -> None:
    flusher, player, other = Flusher(asyncio.get_running_loop(), flush_ms), Player(), Player()
    flusher.mark(player)
    flusher.mark(other)
    assert player.flushes == 0
    await asyncio.wait_for(other.flushed.wait(), 20)
    assert (player.flushes, other.flushes) == (1, 1)


async def test_flusher_waits_for_its_interval_before_flushing() -> None:
    loop = asyncio.get_running_loop()
    flusher, player = Flusher(loop, 50), Player()
    started = loop.time()
    flusher.mark(player)
    await asyncio.wait_for(player.flushed.wait(), 20)
    assert loop.time() - started >= 0.045


async def test_flush_fault_of_one_player_does_not_affect_another() -> None:
    fault = RuntimeError("broken on purpose")
    flusher, broken, player = Flusher(asyncio.get_running_loop(), 0), Player(fault), Player()
    flusher.mark(broken)
    flusher.mark(player)
    await asyncio.wait_for(player.flushed.wait(), 20)
    assert broken.errors == [fault]
    assert player.errors == []


async def test_nothing_is_flushed_after_close() -> None:
    loop = asyncio.get_running_loop()
    flusher, player = Flusher(loop, 0), Player()
    flusher.mark(player)
    flusher.close()
    passed = asyncio.Event()
    loop.call_soon(passed.set)
    await passed.wait()
    assert player.flushes == 0


READ_MS = 400
READ_S = READ_MS / 1000


async def frames_read(server: RtmpServer, wanted: int) -> float:
    """Waits until the server has counted so many frames; gives the loop's time."""
    meter = session(server.registry.streams["live/cam1"]).meter
    async with asyncio.timeout(5):
        while meter.video_line.frames < wanted:  # noqa: ASYNC110 - nothing announces it.
            await asyncio.sleep(0.001)
    return asyncio.get_running_loop().time()


async def test_unplayed_stream_is_read_in_batches_after_the_read_interval(serve: Serve) -> None:
    server = await serve(config={"read_ms": READ_MS})
    async with publishing(server) as (publisher, stream_id):
        begun = asyncio.get_running_loop().time()
        await publisher.send_video(stream_id, 0, key_frame(0))
        await frames_read(server, 1)
        for number in range(1, 4):
            await publisher.send_video(stream_id, 40 * number, inter_frame(number))
        assert await frames_read(server, 2) - begun > READ_S - 0.01
        await frames_read(server, 4)


async def test_read_that_fills_the_buffer_is_followed_by_the_next_at_once(serve: Serve) -> None:
    server = await serve(config={"read_ms": 60_000, "read_buffer_bytes": 4096})
    async with publishing(server, key_frame(0, 200_000)):
        await frames_read(server, 1)


async def test_played_stream_is_read_at_once_without_batching(
    app: ScriptedApp, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(config={"read_ms": READ_MS})
    port = server.addresses[0][1]
    async with publishing(port, AVC_HEADER, key_frame(0)) as (publisher, stream_id), RtmpClient(port=port) as player:
        await frames_read(server, 1)
        await player.connect("live")
        await player.play("cam1")
        await publisher.send_video(stream_id, 40, inter_frame(1))
        await player.wait_count(events.VideoReceived, 3)
        (connection,) = (each for each in server.connections if each.peer == app.connections[0].scope["client"])
        joined: list[object] = []
        join = server.read_batching.join

        def count(one: Any) -> None:
            joined.append(one)
            join(one)

        monkeypatch.setattr(server.read_batching, "join", count)
        for number in range(2, 12):
            await publisher.send_video(stream_id, 40 * number, inter_frame(number))
            await player.wait_count(events.VideoReceived, 2 + number)
        assert connection not in joined


async def test_publisher_waiting_for_its_batched_read_can_be_kicked(app: ScriptedApp, serve: Serve) -> None:
    server = await serve(config={"read_ms": 60_000})
    async with publishing(server, key_frame(0)) as (publisher, _):
        await frames_read(server, 1)
        await app.instances[-1].send({"type": "rtmp.close", "reason": "kicked"})
        await publisher.wait_closed()
        await app.event("rtmp.unpublish")


class Sender:
    """A connection in a batch, which something has come for; `fault` is what handling it meets."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.errors: list[Exception] = []
        self.read = asyncio.Event()
        self.far, self.near = socket.socketpair()
        self.near.setblocking(False)
        self.read_fd: int | None = self.near.fileno()
        self.transport: asyncio.Transport = Transport()
        self.far.send(b"media")

    def received(self, nbytes: int, now: float) -> None:
        if self.fault:
            raise self.fault
        self.read.set()

    def read_once(self) -> None:
        pytest.fail("its socket can be read")

    def read_on(self) -> None:
        pytest.fail("nothing ends its place in the batch")

    def broken(self, error: Exception) -> None:
        self.errors.append(error)


class Transport(asyncio.Transport):
    def is_closing(self) -> bool:
        return False


async def test_batched_read_fault_of_one_connection_does_not_affect_others() -> None:
    fault = RuntimeError("broken on purpose")
    batching = ReadBatching(asyncio.get_running_loop(), 20, memoryview(bytearray(4096)))
    senders = [Sender(fault), *(Sender() for _ in range(2 * PORTION))]
    for sender in senders:
        batching.join(cast("Any", sender))
    for sender in senders[1:]:
        await asyncio.wait_for(sender.read.wait(), 20)
    later = Sender()
    batching.join(cast("Any", later))
    await asyncio.wait_for(later.read.wait(), 20)
    assert senders[0].errors == [fault]
    assert not any(sender.errors for sender in senders[1:])
    batching.close()
    for sender in (*senders, later):
        sender.far.close()
        sender.near.close()
