"""The sockets that a server listens on."""

import asyncio
import socket

import pytest

from ingest.server import ServerConfig
from ingest.server.sockets import Address, Listening


async def test_a_tls_connection_that_can_not_be_begun_is_the_only_one_lost(caplog: pytest.LogCaptureFixture) -> None:
    begun: asyncio.Queue[socket.socket] = asyncio.Queue()
    faults = [RuntimeError("broken on purpose")]

    def secure(connected: socket.socket, _peer: Address) -> None:
        if faults:
            raise faults.pop()
        begun.put_nowait(connected)

    config = ServerConfig(node="node-1", rtmp=None, rtmps=("127.0.0.1", 0))
    listening = Listening(config, asyncio.Protocol, secure, asyncio.Protocol)
    await listening.open()
    try:
        reader, writer = await asyncio.open_connection(*listening.tls[0])
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        with socket.create_connection(listening.tls[0]):
            (await asyncio.wait_for(begun.get(), 5)).close()
    finally:
        listening.close()
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.getMessage().endswith("given up")
