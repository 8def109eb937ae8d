"""What the kernel is told of a client's connection."""

import socket

import pytest

from ingest.rtmp import events
from ingest.server import RtmpServer
from ingest.server.playing import Playing
from ingest.server.sockets import undelivered_bytes
from tests.ingest.server.conftest import Serve
from tests.ingest.server.media import AVC_HEADER, key_frame
from tests.ingest.server.waiting import within
from tests.rtmp_client import RtmpClient


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no TCP_USER_TIMEOUT")
async def test_the_kernel_finds_peers_that_are_gone(server: RtmpServer, port: int) -> None:
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
    port = server.addresses[0][1]
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as player:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam")
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await player.connect("live")
        await player.play("cam")
        await player.wait_for(events.VideoReceived)
        playing = next(session for session in server.sessions.values() if isinstance(session, Playing))
        found = playing.connection.transport.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * 1024 * 1024)
        player.pause_reading()
        for number in range(100):
            await publisher.send_video(stream_id, number + 1, key_frame(number, 60_000))
        await publisher.send_video(stream_id, 200, key_frame(0, 77))

        async def has_come() -> bool:
            subscriber = playing.subscriber
            return subscriber.pending_messages > 0 and subscriber._queue[-1].size < 1000

        assert await within(5, has_come, True)
        assert 0 < undelivered_bytes(found) < most
