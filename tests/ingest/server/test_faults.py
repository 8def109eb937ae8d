"""Bad input and vanishing clients: a clean close, one event with its reason, no traceback, no effect on others."""

import asyncio
import contextlib
import logging
import os
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ingest.live import Subscriber
from ingest.rtmp import Limits, amf0, encode_message, events
from ingest.rtmp import Message as RtmpMessage
from ingest.rtmp.messages.message import MessageType
from ingest.server import RtmpServer
from ingest.server.listener import PAUSED_S
from tests.ingest.rtmp.wire import type0
from tests.ingest.server.app import Instance, Message, ScriptedApplication
from tests.ingest.server.clients import connected, playing, publishing
from tests.ingest.server.conftest import Serve
from tests.ingest.server.media import AVC_HEADER, key_frame
from tests.ingest.server.waiting import may_be_silent, set_deadlines
from tests.rtmp_client import Refused, RtmpClient


@asynccontextmanager
async def raw(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A TCP connection without any protocol."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def reset_on_close(writer: asyncio.StreamWriter) -> None:
    """Closing then sends RST instead of FIN."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """All that the server sends until it closes; a reset counts as the end."""
    try:
        return await asyncio.wait_for(reader.read(), 5)
    except ConnectionError:
        return b""


def assert_quiet(caplog: pytest.LogCaptureFixture) -> None:
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert not any(record.exc_info for record in caplog.records)


async def only_event(app: ScriptedApplication) -> Message:
    """The one event of the latest connection, after its end."""
    await app.event("rtmp.disconnect")
    (event,) = app.connections[-1].events
    assert app.connections[-1].scope["app"] == ""
    return event


async def test_a_port_scanner(app: ScriptedApplication, port: int, caplog: pytest.LogCaptureFixture) -> None:
    async with raw(port):
        pass
    event = await only_event(app)
    assert event == {
        "type": "rtmp.disconnect",
        "reason": "tcp_reset",
        "description": "Closed without sending anything.",
    }
    assert_quiet(caplog)


async def test_a_port_scanner_that_resets(
    app: ScriptedApplication, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw(port) as (_, writer):
        reset_on_close(writer)
    assert (await only_event(app))["reason"] == "tcp_reset"
    assert_quiet(caplog)


async def test_a_stop_meets_a_peer_that_has_just_gone(
    app: ScriptedApplication, server: RtmpServer, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(server.addresses[0]) as peer:
        async with asyncio.timeout(5):
            while not server.connections:  # noqa: ASYNC110 - nothing announces it.
                await asyncio.sleep(0.001)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await server.stop(grace_s=2)  # Before the loop can know of the reset.
    assert (await only_event(app))["reason"] == "node_shutdown"
    assert_quiet(caplog)


async def test_only_connections_with_sessions_are_told_of_in_the_log(
    app: ScriptedApplication, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="ingest.server")
    async with raw(port):
        pass
    await only_event(app)
    async with connected(port):
        pass
    await app.event("rtmp.disconnect")
    assert caplog.messages == []
    async with publishing(port):
        pass
    await app.event("rtmp.disconnect")
    assert ["closed: " in message for message in caplog.messages] == [True]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
        bytes.fromhex("16030100c8010000c40303") + bytes(300),
        b"\x00" * 4000,
        b"\xff" * 4000,
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
    ids=["http", "tls", "zeros", "ones", "ssh"],
)
async def test_another_protocol(
    app: ScriptedApplication, port: int, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw(port) as (reader, writer):
        writer.write(data)
        await read_to_end(reader)
        assert (await only_event(app))["reason"] == "protocol_error"
    assert_quiet(caplog)


@pytest.mark.parametrize("sent", [1, 1000, 1537, 3000])
async def test_a_half_open_handshake(app: ScriptedApplication, serve: Serve, sent: int) -> None:
    server = await serve(handshake_s=0.1)
    async with raw(server.addresses[0][1]) as (reader, writer):
        writer.write((b"\x03" + bytes(3072))[:sent])
        await read_to_end(reader)
        assert (await only_event(app))["reason"] == "idle_timeout"


@pytest.mark.parametrize("garbage", [os.urandom(5000), b"\x02" * 5000, b"\xc3" * 5000, b"GET / HTTP/1.1\r\n\r\n" * 100])
async def test_garbage_after_the_handshake(
    app: ScriptedApplication, serve: Serve, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    server = await serve(publish_or_play_s=0.3)
    async with raw(server.addresses[0][1]) as (reader, writer):
        writer.write(b"\x03" + bytes(1536))
        s0s1s2 = await reader.readexactly(3073)
        writer.write(s0s1s2[1:1537] + garbage)
        await read_to_end(reader)
        # Some garbage is an unfinished message: then the deadline ends it.
        assert (await only_event(app))["reason"] in ("protocol_error", "idle_timeout")
    assert_quiet(caplog)


async def test_an_overlong_command(app: ScriptedApplication, port: int, caplog: pytest.LogCaptureFixture) -> None:
    async with RtmpClient(port=port) as client:
        with pytest.raises(ConnectionError):
            await client.connect("live", comment="x" * 200_000)
    assert (await only_event(app))["reason"] == "protocol_error"
    assert_quiet(caplog)


async def test_media_before_connect(app: ScriptedApplication, port: int) -> None:
    async with RtmpClient(port=port) as client:
        client.protocol.send_video(1, 0, key_frame(1))
        await client.flush()
        await client.wait_closed()
    assert (await only_event(app))["reason"] == "protocol_error"


async def test_a_publisher_that_vanishes(app: ScriptedApplication, port: int, caplog: pytest.LogCaptureFixture) -> None:
    client = RtmpClient(port=port)
    await client.open()
    await client.connect("live")
    stream_id = await client.publish("cam1")
    await client.send_video(stream_id, 0, AVC_HEADER)
    await client.send_video(stream_id, 0, key_frame(1))
    client.abort()
    await app.event("rtmp.disconnect")
    instance = app.connections[-1]
    assert [event["reason"] for event in instance.of("rtmp.unpublish")] == ["tcp_reset"]
    assert [event["reason"] for event in instance.of("rtmp.disconnect")] == ["tcp_reset"]
    assert instance.kinds[-1] == "rtmp.disconnect"
    assert_quiet(caplog)
    await client.close()


async def test_a_session_that_can_not_be_closed_in_order_is_reported_and_its_name_is_free(
    app: ScriptedApplication, port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_connection: object) -> None:
        raise RuntimeError("broken on purpose")

    client = RtmpClient(port=port)
    await client.open()
    await client.connect("live")
    stream_id = await client.publish("cam1")
    await client.send_video(stream_id, 0, key_frame(1))
    monkeypatch.setattr("ingest.server.publishing.tcp_info", fail)
    client.abort()
    await app.event("rtmp.disconnect")
    monkeypatch.undo()
    instance = app.connections[-1]
    assert [event["reason"] for event in instance.of("rtmp.unpublish")] == ["tcp_reset"]
    assert "broken on purpose" in caplog.text
    await client.close()
    async with publishing(port):
        pass


@pytest.mark.parametrize("failing", [1, 2], ids=["at the first batch", "at what goes on with the rest"])
async def test_a_fault_in_writing_to_a_player_is_that_players_alone(
    app: ScriptedApplication,
    serve: Serve,
    failing: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    found: list[Subscriber] = []
    calls = 0
    take = Subscriber.take

    def fail(subscriber: Subscriber, most: int) -> list[bytes]:
        nonlocal calls
        calls += subscriber is found[0]
        if subscriber is found[0] and calls == failing:
            raise RuntimeError("broken on purpose")
        return take(subscriber, most)

    server = await serve(config={"write_high_bytes": 1024, "write_low_bytes": 512})
    async with publishing(server) as (publisher, stream_id), playing(server) as one, playing(server) as other:
        live = server.registry.get("live/cam1")
        assert live is not None
        found.extend(live.subscribers)
        monkeypatch.setattr(Subscriber, "take", fail)
        for timestamp in range(5):
            publisher.protocol.send_video(stream_id, timestamp, key_frame(2000))
        await publisher.flush()
        await one.wait_closed()
        await other.wait_for(events.VideoReceived, lambda event: event.timestamp == 4)
        assert not publisher.closed
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.name for record in errors] == ["ingest.server.connection"]
    assert "broken on purpose" in caplog.text


async def test_a_silent_publisher(app: ScriptedApplication, server: RtmpServer) -> None:
    app.limits["idle_timeout_s"] = 0.2
    async with publishing(server, AVC_HEADER) as (client, _):
        status = await client.wait_for(events.StatusReceived, lambda event: event.level == "error")
        assert status.code == "NetConnection.Connect.IdleTimeOut"
        await client.wait_closed()
    assert (await app.event("rtmp.unpublish"))["reason"] == "idle_timeout"


async def test_a_pause_of_the_server_itself_is_not_a_publishers_silence(app: ScriptedApplication, serve: Serve) -> None:
    app.limits["idle_timeout_s"] = 1.5
    server = await serve(sweep_s=0.2)
    async with publishing(server, AVC_HEADER) as (client, stream_id):
        asyncio.get_running_loop().call_later(0.05, time.sleep, PAUSED_S + 0.7)
        for number in range(1, 8):  # The first after the pause comes before the limit is over again.
            await asyncio.sleep(0.1)
            await client.send_video(stream_id, 100 * number, key_frame(number))
        assert not app.connections[0].of("rtmp.unpublish")
        may_be_silent(server, 0.3)
        await client.wait_closed()
    assert (await app.event("rtmp.unpublish"))["reason"] == "idle_timeout"


async def test_a_publisher_without_first_media(app: ScriptedApplication, server: RtmpServer) -> None:
    app.limits["first_media_timeout_s"] = 0.2
    async with publishing(server) as (client, stream_id):
        await client.send_metadata(stream_id, {"width": 640.0})
        await client.wait_closed()
    event = await app.event("rtmp.unpublish")
    assert (event["reason"], "first media" in event["description"]) == ("idle_timeout", True)


async def test_a_player_that_answers_pings_stays_and_a_dead_one_goes(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve(ping_after_s=0.1, ping_answer_s=60)
    async with playing(server) as alive, playing(server) as dead:
        dead.pause_reading()
        await asyncio.sleep(0.6)  # Both have been pinged.
        set_deadlines(server, ping_answer_s=0.3)
        await app.event("rtmp.stop", connection=1)
        assert app.connections[1].of("rtmp.stop")[0]["reason"] == "idle_timeout"
        assert not alive.closed
        assert app.connections[0].of("rtmp.stop") == []


async def test_a_peer_that_asks_on_without_reading_the_answers(app: ScriptedApplication, serve: Serve) -> None:
    limits = Limits(messages_per_read=1_000_000, control_messages_per_s=1_000_000)
    config = {"control_backlog_bytes": 64 * 1024, "write_high_bytes": 64 * 1024, "limits": limits}
    server = await serve(config=config, write_s=60)
    async with playing(server) as client:
        client.pause_reading()
        with contextlib.suppress(OSError):
            while not app.connections[-1].of("rtmp.stop"):
                for _ in range(500):
                    client.protocol.call("noSuchProcedure")
                async with asyncio.timeout(5):
                    await client.flush()
        event = await app.event("rtmp.disconnect")
    assert event["reason"] == "protocol_error"
    assert "answers" in event["description"]


async def test_an_application_that_fails(app: ScriptedApplication, port: int, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_instance: Instance, _event: Message) -> Message:
        raise RuntimeError("broken on purpose")

    app.on["rtmp.publish"] = fail
    async with connected(port) as client:
        with pytest.raises((ConnectionError, Refused)):
            await client.publish("rk_secret-secret-secret-secret")
        await client.wait_closed()
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "secret" not in caplog.text


async def test_an_application_that_does_not_decide(app: ScriptedApplication, serve: Serve) -> None:
    async def ponder(_instance: Instance, _event: Message) -> None:
        return None

    app.on["rtmp.publish"] = ponder
    server = await serve(decision_s=0.2)
    async with connected(server) as client:
        with pytest.raises(Refused, match=r"NetStream\.Failed"):
            await client.publish("cam1")
        await client.wait_closed()
    assert (await app.event("rtmp.disconnect"))["reason"] == "rejected"
    assert server.registry.get("live/cam1") is None


async def test_too_many_connections(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve(config={"max_connections_per_address": 2})
    port = server.addresses[0][1]
    async with RtmpClient(port=port), RtmpClient(port=port), raw(port) as (reader, _):
        assert await read_to_end(reader) == b""
    await app.wait_until(lambda: len(app.connections) == 2)
    await app.wait_until(lambda: all(c.kinds == ["rtmp.disconnect"] for c in app.connections))
    async with connected(port):
        pass


async def test_faults_leave_a_live_stream_alone(app: ScriptedApplication, port: int, server: RtmpServer) -> None:
    async with publishing(port) as (publisher, stream_id), playing(port) as player:
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        frames = [key_frame(number) for number in range(20)]
        for number, frame in enumerate(frames):
            async with raw(port) as (_, writer):
                writer.write((b"\x03" + bytes(1536) if number % 2 else b"") + os.urandom(3000))
                await publisher.send_video(stream_id, number * 40, frame)
        await player.wait_count(events.VideoReceived, 21)
        assert [event.payload for event in player.of(events.VideoReceived)] == [AVC_HEADER, *frames]


BAD = b"\xff"
"""A type 3 chunk where there is nothing to go on with."""
FAULT = "a chunk stream begins with a type 3 chunk"


def command(stream_id: int, *values: object) -> bytes:
    message = RtmpMessage(MessageType.COMMAND_AMF0, 0, stream_id, amf0.encode(*values))
    return encode_message(message, chunk_stream_id=3, chunk_size=128)


@pytest.mark.parametrize("pieces", [1, 2])
async def test_frames_in_the_same_read_are_relayed(app: ScriptedApplication, port: int, pieces: int) -> None:
    async with publishing(port, name="cam") as (publisher, stream_id), playing(port, name="cam") as player:
        frames = b"".join(type0(20, number, 9, stream_id, data) for number, data in enumerate(PICTURES))
        if pieces == 1:
            publisher._writer.write(frames + BAD)
        else:
            publisher._writer.write(frames)
            await player.wait_for(events.VideoReceived, lambda event: event.payload == PICTURES[-1])
            publisher._writer.write(BAD)
        ended = await app.event("rtmp.unpublish", connection=0)
        assert (ended["reason"], ended["description"]) == ("protocol_error", FAULT)
        await player.wait_for(events.VideoReceived, lambda event: event.payload == PICTURES[-1])
        assert ended["totals"]["video_frames"] == 1


PICTURES = [AVC_HEADER, key_frame(1)[:100]]


async def test_a_fault_behind_what_is_to_be_decided(app: ScriptedApplication, port: int) -> None:
    """All in one write: each decision brings what follows to light, at last the fault."""
    async with RtmpClient(port=port) as client:
        client._writer.write(
            command(0, "connect", 1.0, {"app": "live", "tcUrl": "rtmp://127.0.0.1/live"})
            + command(0, "createStream", 2.0, None)
            + command(1, "publish", 0.0, None, "cam", "live")
            + b"".join(type0(20, number, 9, 1, data) for number, data in enumerate(PICTURES))
            + BAD
        )
        await client.wait_closed()
    ended = await app.event("rtmp.disconnect")
    assert (ended["reason"], ended["description"]) == ("protocol_error", FAULT)
    told = [event["type"] for event in app.connections[-1].events]
    assert [kind for kind in told if kind not in ("rtmp.status", "rtmp.metadata")] == [
        "rtmp.connect",
        "rtmp.publish",
        "rtmp.unpublish",
        "rtmp.disconnect",
    ]
    (unpublish,) = app.connections[-1].of("rtmp.unpublish")
    assert unpublish["totals"]["video_frames"] == 1


COMMAND, DATA = 20, 18
STRAY = b"\x00\x00\x09"
METADATA = amf0.encode("onMetaData", {"width": 640.0, "height": 360.0})


async def test_a_publisher_goes_on(app: ScriptedApplication, port: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="ingest.server")
    async with playing(port) as player, connected(port) as publisher:
        send = publisher.protocol.send_message
        send(RtmpMessage(COMMAND, 0, 0, amf0.encode("releaseStream", 0.0, None, "cam1") + STRAY))
        stream_id = await publisher.publish("cam1")
        send(RtmpMessage(COMMAND, 0, 0, b"\xff\xff"))
        send(RtmpMessage(COMMAND, 0, 0, amf0.encode("neverHeardOf") + b"\xff"))
        send(RtmpMessage(DATA, 0, stream_id, amf0.encode("@setDataFrame") + METADATA + STRAY))
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await publisher.send_video(stream_id, 0, key_frame(1))
        await player.wait_for(events.VideoReceived, lambda event: event.payload == key_frame(1))
        relayed = [event.payload for event in player.of(events.DataReceived) if event.name == "onMetaData"]
        assert relayed == [METADATA]
        assert (await app.event("rtmp.metadata", connection=1))["metadata"]["width"] == 640.0
        async with playing(port) as late:
            await late.wait_for(events.VideoReceived)
            assert [event.payload for event in late.of(events.DataReceived) if event.name == "onMetaData"] == [METADATA]
        assert not publisher.closed
    noted = [message for message in caplog.messages if "not understood" in message]
    assert len(noted) == 1
    assert f"{len(STRAY)} bytes of a message of type {COMMAND}" in noted[0]
