"""The handshake as a connection's first measured round trip."""

import asyncio
import os
import time

import pytest

from ingest.rtmp import ClientConnection
from ingest.rtmp.handshake import Scheme
from ingest.server import RtmpServer
from ingest.server.connection import Connection
from ingest.server.sockets import UNKNOWN
from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.conftest import Serve
from tests.ingest.server.media import AVC_HEADER, keep_sending, key_frame
from tests.ingest.server.waiting import within
from tests.rtmp_client import RtmpClient

AWAY_S = 0.06
"""How far away the client pretends to be."""


@pytest.mark.parametrize("digest", [None, Scheme.DIGEST_FIRST], ids=["simple", "digest"])
@pytest.mark.parametrize("answers", [True, False], ids=["answers", "own bytes"])
async def test_the_handshake_is_a_round_trip_if_c2_answers_s1(
    server: RtmpServer, port: int, digest: Scheme | None, answers: bool
) -> None:
    client = ClientConnection(nonce=os.urandom(1528), digest=digest)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.monotonic()
    writer.write(client.data_to_send())
    client.receive_data(await reader.readexactly(3073))
    await asyncio.sleep(AWAY_S)
    c2 = client.data_to_send()
    writer.write(c2 if answers else bytes(len(c2)))
    (connection,) = server.connections
    assert isinstance(connection, Connection)

    async def is_ready() -> bool:
        return connection.ready_since is not None

    assert await within(5, is_ready, True)
    most_ms = (time.monotonic() - began) * 1000
    found = connection.round_trip_ms
    if answers:
        assert found is not None
        assert AWAY_S * 1000 - 2 < found < most_ms + 2  # uvloop's clock goes by milliseconds.
    else:
        assert found is None
    writer.close()


async def test_it_is_shown_where_the_kernel_tells_none(
    app: ScriptedApplication, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.server.publishing.tcp_info", lambda _socket: UNKNOWN)  # As on other systems.
    began = time.monotonic()
    async with RtmpClient(port=port) as client:
        await client.connect("live")
        stream_id = await client.publish("cam1")
        await client.send_video(stream_id, 0, AVC_HEADER)
        await client.send_video(stream_id, 0, key_frame(1))
        await app.wait_until(lambda: any(tick["samples"] for tick in app.node.of("node.tick")))
    (sample, *_) = next(tick["samples"] for tick in app.node.of("node.tick") if tick["samples"])
    assert sample.rtt_ms is not None
    assert 0 <= sample.rtt_ms < (time.monotonic() - began) * 1000


@pytest.mark.parametrize("tells", [True, False])
async def test_pings_measure_it_again(
    serve: Serve, app: ScriptedApplication, monkeypatch: pytest.MonkeyPatch, tells: bool
) -> None:
    """Of who is silent; where the kernel tells nothing, of who sends media too."""
    monkeypatch.setattr("ingest.server.deadlines.TELLS_ROUND_TRIPS", tells)
    began = time.monotonic()
    server = await serve(ping_after_s=0.15)
    async with RtmpClient(port=server.addresses[0][1]) as client:
        await client.connect("live")
        stream_id = await client.publish("cam1")
        (connection,) = server.connections
        assert isinstance(connection, Connection)
        connection.round_trip_ms = None
        sending = asyncio.create_task(asyncio.sleep(0) if tells else keep_sending(client, stream_id))

        async def is_measured() -> bool:
            return connection.round_trip_ms is not None

        assert await within(5, is_measured, True)
        assert connection.round_trip_ms is not None
        assert 0 <= connection.round_trip_ms < (time.monotonic() - began) * 1000
        sending.cancel()
