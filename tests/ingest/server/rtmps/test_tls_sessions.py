"""RTMPS: the same sessions through TLS as without."""

import asyncio
import socket
import ssl
import subprocess
import threading

import pytest

from ingest.rtmp import ClientConnection, events
from ingest.server import RtmpServer
from ingest.server.playing import Playing
from tests.certificates import Pair
from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.deadlines import set_deadlines
from tests.ingest.server.media import AVC_HEADER, key_frame
from tests.ingest.server.rtmps.wire import ServeTls, assert_quiet, raw, tls_port
from tests.ingest.server.stuck import check_a_stuck_player_is_closed
from tests.rtmp_client import RtmpClient
from tests.tools import require_tool


async def test_publish_and_play_through_tls_and_without(
    app: ScriptedApplication, tls_server: RtmpServer, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    secure, plain = tls_port(tls_server), tls_server.addresses[0][1]
    async with (
        RtmpClient(port=secure, tls=pair.client()) as publisher,
        RtmpClient(port=secure, tls=pair.client()) as player,
        RtmpClient(port=plain) as other,
    ):
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        for client in (player, other):
            await client.connect("live")
            await client.play("cam1")
        frames = [AVC_HEADER, *(key_frame(number, 30_000) for number in range(50))]
        for number, frame in enumerate(frames):
            await publisher.send_video(stream_id, number * 40, frame)
        for client in (player, other):
            await client.wait_count(events.VideoReceived, len(frames))
            assert [event.payload for event in client.of(events.VideoReceived)] == frames
        await app.wait_until(lambda: any(tick["samples"] for tick in app.node.of("node.tick")))
        samples = [sample for tick in app.node.of("node.tick") for sample in tick["samples"]]
        assert samples[0].rtt_ms is not None
        await publisher.delete_stream(stream_id)
        await app.event("rtmp.unpublish", connection=0)
    assert [instance.scope["scheme"] for instance in app.connections] == ["rtmps", "rtmps", "rtmp"]
    assert app.connections[0].scope["server"] == ("127.0.0.1", secure)
    assert app.node.scope["tls_addresses"] == tls_server.tls_addresses
    await app.wait_until(lambda: all(instance.of("rtmp.disconnect") for instance in app.connections))
    assert_quiet(caplog)


async def test_a_stop_ends_tls_sessions_in_order(
    app: ScriptedApplication, tls_server: RtmpServer, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        RtmpClient(port=tls_port(tls_server), tls=pair.client()) as publisher,
        RtmpClient(port=tls_port(tls_server), tls=pair.client()) as unread,
        raw(tls_port(tls_server)),
    ):
        await publisher.connect("live")
        await publisher.publish("cam1")
        await unread.connect("live")
        await unread.publish("cam2")
        unread.pause_reading()  # As OBS does: it never answers the close of TLS.
        await asyncio.wait_for(tls_server.stop(grace_s=3), 6)
        await publisher.wait_closed()
        assert publisher.of(events.StatusReceived)[-1].code == "NetConnection.Connect.AppShutdown"
        unread.resume_reading()
    ends = [event["reason"] for instance in app.connections for event in instance.of("rtmp.disconnect")]
    assert ends == ["node_shutdown"] * 3
    assert not tls_server.connections
    assert_quiet(caplog)


async def test_a_refusal_reaches_the_client(app: ScriptedApplication, tls_server: RtmpServer, pair: Pair) -> None:
    app.refuse("publish", "NetStream.Publish.Denied", "The stream key is not known.")
    async with RtmpClient(port=tls_port(tls_server), tls=pair.client()) as client:
        await client.connect("live")
        with pytest.raises(Exception, match="not known"):
            await client.publish("cam1")
        await client.wait_closed()
    assert (await app.event("rtmp.disconnect"))["reason"] == "rejected"


async def test_a_tls_peer_that_takes_nothing_is_closed(
    app: ScriptedApplication, serve_tls: ServeTls, pair: Pair
) -> None:
    server = await serve_tls(write_s=0.5)
    await check_a_stuck_player_is_closed(app, tls_port(server), tls=pair.client())


async def test_a_tls_peer_that_is_slow_is_not_closed(app: ScriptedApplication, serve_tls: ServeTls, pair: Pair) -> None:
    """In `write_s` it takes less than what TLS hands to its TCP transport at once, where no one sees it shrink."""
    server = await serve_tls(write_s=60)
    stop = threading.Event()
    async with RtmpClient(port=tls_port(server), tls=pair.client()) as publisher:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        await publisher.send_video(stream_id, 0, AVC_HEADER)
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
    """A player on a thread that takes about 20 kB a second of a connection with small buffers."""
    connected = socket.socket()
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connected.settimeout(5)
    connected.connect(("127.0.0.1", port))
    protocol = ClientConnection(nonce=bytes(1528))

    with context.wrap_socket(connected, server_hostname="localhost") as tls:

        def until(kind: type[events.Event]) -> None:
            while True:
                tls.sendall(protocol.data_to_send())
                if any(isinstance(event, kind) for event in protocol.receive_data(tls.recv(4096))):
                    return

        until(events.HandshakeCompleted)
        protocol.connect("live", "rtmps://127.0.0.1/live")
        until(events.ResultReceived)
        protocol.create_stream()
        until(events.ResultReceived)
        protocol.play(1, "cam1")
        until(events.StatusReceived)
        while not stop.wait(0.05) and tls.recv(1000):
            pass


async def test_ffmpeg_publishes_and_plays(app: ScriptedApplication, tls_server: RtmpServer) -> None:
    ffmpeg = require_tool("ffmpeg")
    url = f"rtmps://127.0.0.1:{tls_port(tls_server)}/live/cam1"
    picture = ("-re", "-f", "lavfi", "-i", "testsrc=size=320x180:rate=25")
    codec = ("-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "25")
    quiet = (ffmpeg, "-nostdin", "-loglevel", "error")
    input_ = ("-analyzeduration", "500k", "-i", url)  # It would look for sound for five seconds.
    publisher = await asyncio.create_subprocess_exec(
        *quiet, *picture, "-t", "30", *codec, "-f", "flv", url, stderr=subprocess.PIPE
    )
    try:
        await app.event("rtmp.metadata", timeout_s=20)
        player = await asyncio.create_subprocess_exec(
            *quiet, *input_, "-frames:v", "20", "-f", "framecrc", "-", stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        output, errors = await asyncio.wait_for(player.communicate(), 30)
    finally:
        publisher.terminate()
        await publisher.communicate()
    assert player.returncode == 0, errors.decode()
    assert len([line for line in output.decode().splitlines() if not line.startswith("#")]) == 20
    assert [instance.scope["scheme"] for instance in app.connections] == ["rtmps"] * 2
