"""Clients that speak no TLS on the port that has it, or none that can be used, or TLS on the other port."""

import asyncio
import logging
import socket
import ssl

import pytest

from ingest.server import RtmpServer
from tests.certificates import Pair
from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.conftest import Serve
from tests.ingest.server.deadlines import set_deadlines
from tests.ingest.server.rtmps.wire import assert_quiet, only_event, raw, read_to_end, tls_port
from tests.rtmp_client import RtmpClient


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x03" + bytes(1536), "RTMP without it goes to the other port"),
        (b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "something else than TLS"),
        (b"\xff" * 4000, "something else than TLS"),
        (bytes.fromhex("16030100c8010000c40303") + bytes(300), "No TLS handshake"),
    ],
    ids=["rtmp", "http", "ones", "broken tls"],
)
async def test_another_protocol_on_the_tls_port(
    app: ScriptedApplication, tls_server: RtmpServer, data: bytes, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw(tls_port(tls_server)) as (reader, writer):
        writer.write(data)
        await read_to_end(reader)
        event = await only_event(app)
    assert event["reason"] == "protocol_error"
    assert said in event["description"]
    assert app.connections[-1].scope["client"][0] == "127.0.0.1"
    assert app.connections[-1].scope["scheme"] == "rtmps"
    assert_quiet(caplog)


async def test_a_client_that_does_not_trust_the_certificate(
    app: ScriptedApplication, tls_server: RtmpServer, caplog: pytest.LogCaptureFixture
) -> None:
    def call() -> None:
        with socket.create_connection(("127.0.0.1", tls_port(tls_server)), timeout=5) as connected:
            ssl.create_default_context().wrap_socket(connected, server_hostname="localhost")

    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.to_thread(call)
    event = await only_event(app)
    assert (event["reason"], "trust the certificate" in event["description"]) == ("protocol_error", True)
    assert_quiet(caplog)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
async def test_an_old_tls_is_refused(app: ScriptedApplication, tls_server: RtmpServer, pair: Pair) -> None:
    old = pair.client()
    old.minimum_version = ssl.TLSVersion.TLSv1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("DEFAULT@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        async with raw(tls_port(tls_server), ssl=old, server_hostname="localhost"):
            pass
    assert "older than 1.2" in (await only_event(app))["description"]


async def test_a_port_scanner(
    app: ScriptedApplication, tls_server: RtmpServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw(tls_port(tls_server)):
        pass
    event = await only_event(app)
    assert (event["reason"], event["description"]) == ("tcp_reset", "Closed during the TLS handshake.")
    assert_quiet(caplog)


async def test_half_open_tls_handshakes_are_counted_and_end(
    app: ScriptedApplication, serve: Serve, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    tls = {"rtmps": ("127.0.0.1", 0), "certificate": pair.chain, "certificate_key": pair.key}
    server = await serve(config=tls | {"max_connections_per_address": 2}, handshake_s=60)
    async with raw(tls_port(server)) as (first, _), raw(tls_port(server)) as (second, writer):
        writer.write(bytes.fromhex("16030100c8010000c40303"))  # The begin of a ClientHello.
        async with raw(tls_port(server)) as (third, _):
            assert await read_to_end(third) == b""
            assert not app.connections
        set_deadlines(server, handshake_s=0.2)
        for reader in (first, second):
            await read_to_end(reader)
    await app.wait_until(lambda: sum(len(instance.events) for instance in app.connections) == 2)
    assert [instance.of("rtmp.disconnect")[0]["reason"] for instance in app.connections] == ["idle_timeout"] * 2
    await app.wait_until(lambda: not server.connections)
    set_deadlines(server, handshake_s=60)
    async with RtmpClient(port=tls_port(server), tls=pair.client()) as client:
        await client.connect("live")
    assert [record.levelname for record in caplog.records if record.levelno >= logging.WARNING] == ["WARNING"]


async def test_tls_on_the_plain_port(
    app: ScriptedApplication, tls_server: RtmpServer, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        async with raw(tls_server.addresses[0][1], ssl=pair.client()):
            pass
    event = await only_event(app)
    assert (event["reason"], "TLS" in event["description"]) == ("protocol_error", True)
    assert_quiet(caplog)
