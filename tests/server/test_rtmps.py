"""RTMPS: sessions as without TLS, certificates, and clients that speak no TLS or none that can be used."""

import asyncio
import logging
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cryptography import x509

from ingest.rtmp import ClientConnection, events
from ingest.server import RtmpServer
from ingest.server.playing import Playing
from ingest.server.tls import CertificateError, ServedCertificate, expiry, load
from tests.certificates import Pair, make_pair
from tests.server.app import ScriptedApp
from tests.server.clients import connected, playing, publishing
from tests.server.conftest import Serve
from tests.server.media import AVC_HEADER, key_frame
from tests.server.plays.test_slow import check_a_stuck_player_is_closed
from tests.server.test_faults import only_event, raw, read_to_end
from tests.server.waiting import becomes, set_deadlines, within
from tests.tools import require_tool

ServeTls = Callable[..., Awaitable[RtmpServer]]


def tls_port(server: RtmpServer) -> int:
    return server.bound["rtmps"][0][1]


def tls(pair: Pair, **settings: Any) -> dict[str, Any]:
    return {"rtmps": ("127.0.0.1", 0), "certificate": pair.chain, "certificate_key": pair.key, **settings}


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return make_pair(tmp_path)


@pytest_asyncio.fixture
async def serve_tls(serve: Serve, pair: Pair) -> ServeTls:
    async def start(**deadlines: float) -> RtmpServer:
        return await serve(config=tls(pair, certificate_poll_s=0.02), **deadlines)

    return start


@pytest_asyncio.fixture
async def tls_server(serve_tls: ServeTls) -> RtmpServer:
    return await serve_tls()


async def test_publish_and_play_through_tls_and_without(
    app: ScriptedApp, tls_server: RtmpServer, pair: Pair, quiet: None
) -> None:
    secure, plain = tls_port(tls_server), tls_server.addresses[0][1]
    async with (
        publishing(secure, tls=pair.client()) as (publisher, stream_id),
        playing(secure, tls=pair.client()) as player,
        playing(plain) as other,
    ):
        frames = [AVC_HEADER, *(key_frame(number, 30_000) for number in range(50))]
        for number, frame in enumerate(frames):
            await publisher.send_video(stream_id, number * 40, frame)
        for client in (player, other):
            await client.wait_count(events.VideoReceived, len(frames))
            assert [event.payload for event in client.of(events.VideoReceived)] == frames
        await app.wait_until(lambda: bool(app.samples))
        assert app.samples[0].rtt_ms is not None
        await publisher.delete_stream(stream_id)
        await app.event("rtmp.unpublish", connection=0)
    assert [instance.scope["scheme"] for instance in app.connections] == ["rtmps", "rtmps", "rtmp"]
    assert app.connections[0].scope["server"] == ("127.0.0.1", secure)
    assert app.node.scope["tls_addresses"] == tls_server.bound["rtmps"]
    await app.wait_until(lambda: all(instance.of("rtmp.disconnect") for instance in app.connections))


async def test_a_stop_ends_tls_sessions_in_order(
    app: ScriptedApp, tls_server: RtmpServer, pair: Pair, quiet: None
) -> None:
    async with (
        publishing(tls_port(tls_server), tls=pair.client()) as (publisher, _),
        publishing(tls_port(tls_server), name="cam2", tls=pair.client()) as (unread, _),
        raw(tls_port(tls_server)),
    ):
        unread.pause_reading()  # As OBS does: it never answers the close of TLS.
        await asyncio.wait_for(tls_server.stop(grace_s=3), 6)
        await publisher.wait_closed()
        assert publisher.of(events.StatusReceived)[-1].code == "NetConnection.Connect.AppShutdown"
        unread.resume_reading()
    ends = [event["reason"] for instance in app.connections for event in instance.of("rtmp.disconnect")]
    assert ends == ["node_shutdown"] * 3
    assert not tls_server.connections


async def test_a_refusal_reaches_the_client(app: ScriptedApp, tls_server: RtmpServer, pair: Pair) -> None:
    app.refuse("publish", "NetStream.Publish.Denied", "The stream key is not known.")
    async with connected(tls_port(tls_server), tls=pair.client()) as client:
        with pytest.raises(Exception, match="not known"):
            await client.publish("cam1")
        await client.wait_closed()
    assert (await app.event("rtmp.disconnect"))["reason"] == "rejected"


async def test_a_tls_peer_that_takes_nothing_is_closed(app: ScriptedApp, serve_tls: ServeTls, pair: Pair) -> None:
    server = await serve_tls(write_s=0.3)
    await check_a_stuck_player_is_closed(app, tls_port(server), tls=pair.client())


@pytest.mark.matrix
async def test_a_tls_peer_that_is_slow_is_not_closed(app: ScriptedApp, serve_tls: ServeTls, pair: Pair) -> None:
    """In `write_s` it takes less than what TLS hands to its TCP transport at once, where no one sees it shrink."""
    server = await serve_tls(write_s=60)
    stop = threading.Event()
    async with publishing(tls_port(server), AVC_HEADER, tls=pair.client()) as (publisher, stream_id):
        player = asyncio.create_task(asyncio.to_thread(play_slowly, tls_port(server), pair.client(), stop))
        try:
            await app.wait_until(lambda: len(server.sessions) == 2)
            playing = next(session for session in server.sessions.values() if isinstance(session, Playing))
            while playing.connection.outlet.is_open:
                await publisher.send_video(stream_id, 0, key_frame(0, 60_000))
                await asyncio.sleep(0)
            loop = asyncio.get_running_loop()
            began = loop.time()
            while loop.time() - began < 4 and not player.done():
                await publisher.send_video(stream_id, 0, key_frame(0, 60_000))
                await asyncio.sleep(0.01)
            set_deadlines(server, write_s=3)
            for _ in range(50):  # One of which no one saw it take anything would be ended now.
                await publisher.send_video(stream_id, 0, key_frame(0, 60_000))
                await asyncio.sleep(0.01)
            assert not player.done()
            assert len(server.sessions) == 2
        finally:
            stop.set()
            await player
    stopped = await app.event("rtmp.stop", connection=1)
    assert stopped["totals"]["dropped_frames"] > 0


def play_slowly(port: int, context: ssl.SSLContext, stop: threading.Event) -> None:
    """A player on a thread that takes about 10 kB a second of a connection with small buffers."""
    connected = socket.socket()
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connected.settimeout(5)
    connected.connect(("127.0.0.1", port))
    protocol = ClientConnection(nonce=bytes(1528))

    with context.wrap_socket(connected, server_hostname="localhost") as secure:

        def until(kind: type[events.Event]) -> None:
            while True:
                secure.sendall(protocol.data_to_send())
                if any(isinstance(event, kind) for event in protocol.receive_data(secure.recv(4096))):
                    return

        until(events.HandshakeCompleted)
        protocol.connect("live", "rtmps://127.0.0.1/live")
        until(events.ResultReceived)
        protocol.create_stream()
        until(events.ResultReceived)
        protocol.call("play", "cam1", -2, -1, stream_id=1)
        until(events.StatusReceived)
        while not stop.wait(0.05) and secure.recv(500):
            pass


async def test_ffmpeg_publishes_and_plays(app: ScriptedApp, tls_server: RtmpServer) -> None:
    ffmpeg = require_tool("ffmpeg")
    url = f"rtmps://127.0.0.1:{tls_port(tls_server)}/live/cam1"
    picture = ("-re", "-f", "lavfi", "-i", "testsrc=size=320x180:rate=25")
    codec = ("-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "25")
    quiet = (ffmpeg, "-nostdin", "-loglevel", "error")
    input_ = ("-analyzeduration", "500k", "-i", url)  # It would look for sound for five seconds.
    publish = (*quiet, *picture, "-t", "30", *codec, "-f", "flv", url)
    publisher = await asyncio.create_subprocess_exec(*publish)  # What it says stands with the test that fails.
    try:
        await app.event("rtmp.metadata", timeout_s=20)
        play = (*quiet, *input_, "-frames:v", "20", "-f", "framecrc", "-")
        player = await asyncio.create_subprocess_exec(*play, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        output, errors = await asyncio.wait_for(player.communicate(), 30)
    finally:
        publisher.terminate()
        await publisher.wait()
    assert player.returncode == 0, errors.decode()
    assert len([line for line in output.decode().splitlines() if not line.startswith("#")]) == 20
    assert [instance.scope["scheme"] for instance in app.connections] == ["rtmps"] * 2


async def serial(server: RtmpServer) -> int:
    """Of the certificate that a new client is shown."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    async with raw(tls_port(server), ssl=trusting) as (_, writer):
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return x509.load_der_x509_certificate(shown).serial_number


async def test_a_new_certificate_is_taken_while_streams_go_on(
    tls_server: RtmpServer, pair: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert await serial(tls_server) == pair.serial
    async with publishing(tls_port(tls_server), AVC_HEADER, tls=pair.client()) as (publisher, stream_id):
        new = make_pair(tmp_path)
        assert await within(5, lambda: serial(tls_server), new.serial) == new.serial
        # A pair that doesn't match is logged once and not taken.
        key = new.key.read_bytes()
        make_pair(tmp_path)
        new.key.write_bytes(key)
        await becomes(lambda: "does not belong" in caplog.text)
        await asyncio.sleep(0.2)  # In which it is looked at again and again.
        assert caplog.text.count("does not belong") == 1
        assert await serial(tls_server) == new.serial
        # Nor is one that is gone.
        new.chain.unlink()
        tls_server.reload_certificate()
        await becomes(lambda: "can't be read" in caplog.text)
        assert await serial(tls_server) == new.serial
        async with playing(tls_server) as player:
            await publisher.send_video(stream_id, 40, key_frame(1))
            await player.wait_count(events.VideoReceived, 2)
    assert not [record for record in caplog.records if record.exc_info]


def test_loading_an_unusable_certificate_pair_names_the_fault(tmp_path: Path) -> None:
    good = make_pair(tmp_path)
    assert abs(expiry(good.chain) - datetime.now(UTC) - timedelta(days=365)) < timedelta(minutes=1)
    other, locked = tmp_path / "other", tmp_path / "locked"
    other.mkdir()
    locked.mkdir()
    encrypted = make_pair(locked, password=b"secret")
    nothing = tmp_path / "nothing.pem"
    for chain, key, said in (
        (good.chain, make_pair(other).key, "RTMPWEB_TLS_KEY.* does not belong"),
        (encrypted.chain, encrypted.key, "is encrypted"),
        (nothing, good.key, "nothing.pem can't be read: No such file"),
        (good.chain, nothing, "nothing.pem can't be read: No such file"),
        (good.key, good.key, "There is no certificate in"),
        (good.chain, good.chain, "can't be used"),
    ):
        with pytest.raises(CertificateError, match=said):
            load(chain, key)


async def test_repaired_key_with_an_unchanged_modification_time_is_loaded(
    tls_server: RtmpServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    new = make_pair(tmp_path)
    key = new.key.read_bytes()
    new.key.write_bytes(key.swapcase())
    await becomes(lambda: "was not replaced" in caplog.text)
    broken = new.key.stat()
    new.key.write_bytes(key)
    os.utime(new.key, ns=(broken.st_atime_ns, broken.st_mtime_ns))  # As with a file's rights: its content's time stays.
    assert await within(5, lambda: serial(tls_server), new.serial) == new.serial
    assert caplog.text.count("was not replaced") == 1


async def test_certificate_watch_goes_on_after_a_failed_check(
    pair: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fault = RuntimeError("broken on purpose")
    answers: list[datetime | RuntimeError] = [fault, datetime.now(UTC), datetime.now(UTC)]  # Taken from the end.

    def now() -> datetime:
        answer = answers.pop() if answers else datetime.now(UTC)
        if isinstance(answer, RuntimeError):
            raise answer
        return answer

    served = ServedCertificate(pair.chain, pair.key, now=now)
    watch = asyncio.ensure_future(served.watch(0.02))
    try:
        await becomes(lambda: "could not be looked at" in caplog.text)
        first = served.current
        make_pair(tmp_path)
        await becomes(lambda: served.current is not first)
    finally:
        watch.cancel()


@pytest.mark.parametrize(("days", "level", "said"), [(5.5, "WARNING", "expires in 5 days"), (-1, "ERROR", "expired")])
async def test_expiring_or_expired_certificate_is_logged(
    serve: Serve, tmp_path: Path, days: float, level: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    await serve(config=tls(make_pair(tmp_path, days=days)))
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (record.levelname, said in record.getMessage()) == (level, True)


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
async def test_other_protocols_on_the_tls_port_end_as_protocol_error(
    app: ScriptedApp, tls_server: RtmpServer, data: bytes, said: str, quiet: None
) -> None:
    async with raw(tls_port(tls_server)) as (reader, writer):
        writer.write(data)
        await read_to_end(reader)
        event = await only_event(app)
    assert event["reason"] == "protocol_error"
    assert said in event["description"]
    assert app.connections[-1].scope["client"][0] == "127.0.0.1"
    assert app.connections[-1].scope["scheme"] == "rtmps"


async def test_client_that_distrusts_the_certificate_is_reported(
    app: ScriptedApp, tls_server: RtmpServer, quiet: None
) -> None:
    def call() -> None:
        with socket.create_connection(("127.0.0.1", tls_port(tls_server)), timeout=5) as connected:
            ssl.create_default_context().wrap_socket(connected, server_hostname="localhost")

    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.to_thread(call)
    event = await only_event(app)
    assert (event["reason"], "trust the certificate" in event["description"]) == ("protocol_error", True)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
async def test_an_old_tls_is_refused(app: ScriptedApp, tls_server: RtmpServer, pair: Pair) -> None:
    old = pair.client()
    old.minimum_version = ssl.TLSVersion.TLSv1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("DEFAULT@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        async with raw(tls_port(tls_server), ssl=old, server_hostname="localhost"):
            pass
    assert "older than 1.2" in (await only_event(app))["description"]


async def test_port_scanner_on_the_tls_port_is_reported_as_tcp_reset(
    app: ScriptedApp, tls_server: RtmpServer, quiet: None
) -> None:
    async with raw(tls_port(tls_server)):
        pass
    event = await only_event(app)
    assert (event["reason"], event["description"]) == ("tcp_reset", "Closed during the TLS handshake.")


async def test_half_open_tls_handshakes_are_counted_and_end(
    app: ScriptedApp, serve: Serve, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    server = await serve(config=tls(pair, max_connections_per_address=2), handshake_s=60)
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
    async with connected(tls_port(server), tls=pair.client()):
        pass
    assert [record.levelname for record in caplog.records if record.levelno >= logging.WARNING] == ["WARNING"]


async def test_tls_on_the_plain_port_ends_as_protocol_error(
    app: ScriptedApp, tls_server: RtmpServer, pair: Pair, quiet: None
) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        async with raw(tls_server.addresses[0][1], ssl=pair.client()):
            pass
    event = await only_event(app)
    assert (event["reason"], "TLS" in event["description"]) == ("protocol_error", True)
