"""What the kernel is told of a client's connection."""

import socket

import pytest

from ingest.server import RtmpServer
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
