"""Bad input and vanishing clients: a clean close, one event with its reason, no traceback, no effect on others."""

import asyncio
import contextlib
import logging
import os
import socket
import struct
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ingest.live import Subscriber
from ingest.rtmp import Limits, encode_message, events
from ingest.rtmp import Message as RtmpMessage
from ingest.rtmp.amf import amf0
from ingest.rtmp.messages import MessageType
from ingest.server import RtmpServer, listener
from tests.pure.rtmp.wire import type0
from tests.rtmp_client import Refused, RtmpClient
from tests.server.app import Message, ScriptedApp
from tests.server.clients import connected, playing, publishing
from tests.server.conftest import Serve
from tests.server.media import AVC_HEADER, key_frame
from tests.server.test_publisher_limits import may_be_silent
from tests.server.waiting import becomes, set_deadlines

RESETS = (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
"""The option of a socket whose close sends RST instead of FIN."""


@contextlib.asynccontextmanager
async def raw(port: int, **options: object) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A TCP connection without any protocol, or TLS alone."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **options)  # type: ignore[arg-type]
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """All that the server sends until it closes; a reset counts as the end."""
    try:
        return await asyncio.wait_for(reader.read(), 5)
    except ConnectionError:
        return b""


async def only_event(app: ScriptedApp) -> Message:
    """The one event of the latest connection, after its end; it never said to which application it would go."""
    await app.event("rtmp.disconnect")
    (event,) = app.connections[-1].events
    assert app.connections[-1].scope["app"] == ""
    return event


@pytest.mark.parametrize("resets", [False, True])
async def test_port_scanner_is_reported_once_as_tcp_reset(
    app: ScriptedApp, port: int, resets: bool, quiet: None
) -> None:
    async with raw(port) as (_, writer):
        if resets:
            writer.get_extra_info("socket").setsockopt(*RESETS)
    event = await only_event(app)
    assert (event["type"], event["reason"]) == ("rtmp.disconnect", "tcp_reset")
    assert resets or event["description"] == "Closed without sending anything."


async def test_stop_just_after_a_peer_reset_reports_node_shutdown(
    app: ScriptedApp, server: RtmpServer, quiet: None
) -> None:
    with socket.create_connection(server.addresses[0]) as peer:
        await becomes(lambda: server.connections)
        peer.setsockopt(*RESETS)
    await server.stop(grace_s=2)  # Before the loop can know of the reset.
    assert (await only_event(app))["reason"] == "node_shutdown"


async def test_only_connections_with_sessions_are_logged(
    app: ScriptedApp, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="ingest.server")
    for client in (raw(port), connected(port), publishing(port)):
        assert caplog.messages == []
        async with client:
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
async def test_bytes_of_another_protocol_end_as_protocol_error(
    app: ScriptedApp, port: int, data: bytes, quiet: None
) -> None:
    async with raw(port) as (reader, writer):
        writer.write(data)
        await read_to_end(reader)
        assert (await only_event(app))["reason"] == "protocol_error"


@pytest.mark.parametrize("sent", [1, 1000, 1537, 3000])
async def test_half_open_handshake_ends_as_idle_timeout(app: ScriptedApp, serve: Serve, sent: int) -> None:
    server = await serve(handshake_s=0.1)
    async with raw(server.addresses[0][1]) as (reader, writer):
        writer.write((b"\x03" + bytes(3072))[:sent])
        await read_to_end(reader)
        assert (await only_event(app))["reason"] == "idle_timeout"


GARBAGE = {
    "random": os.urandom(5000),
    "twos": b"\x02" * 5000,
    "large headers": b"\xc3" * 5000,
    "HTTP": b"GET / HTTP/1.1\r\n\r\n" * 100,
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
async def test_garbage_after_the_handshake_closes_the_connection(
    app: ScriptedApp, serve: Serve, garbage: bytes, quiet: None
) -> None:
    server = await serve(publish_or_play_s=0.3)
    async with raw(server.addresses[0][1]) as (reader, writer):
        writer.write(b"\x03" + bytes(1536))
        s0s1s2 = await reader.readexactly(3073)
        writer.write(s0s1s2[1:1537] + garbage)
        await read_to_end(reader)
        # Some garbage is an unfinished message: then the deadline ends it.
        assert (await only_event(app))["reason"] in ("protocol_error", "idle_timeout")


async def test_overlong_command_ends_as_protocol_error(app: ScriptedApp, port: int, quiet: None) -> None:
    async with RtmpClient(port=port) as client:
        with pytest.raises(ConnectionError):
            await client.connect("live", comment="x" * 200_000)
    assert (await only_event(app))["reason"] == "protocol_error"


async def test_media_before_connect_end_as_protocol_error(app: ScriptedApp, port: int) -> None:
    async with RtmpClient(port=port) as client:
        client.protocol.send_video(1, 0, key_frame(1))
        await client.flush()
        await client.wait_closed()
    assert (await only_event(app))["reason"] == "protocol_error"


async def test_vanished_publisher_is_reported_once_as_tcp_reset(app: ScriptedApp, port: int, quiet: None) -> None:
    async with publishing(port, AVC_HEADER, key_frame(1)) as (client, _):
        client.abort()
        await app.event("rtmp.disconnect")
    instance = app.connections[-1]
    assert [event["reason"] for event in instance.of("rtmp.unpublish")] == ["tcp_reset"]
    assert [event["reason"] for event in instance.of("rtmp.disconnect")] == ["tcp_reset"]
    assert instance.kinds[-1] == "rtmp.disconnect"


async def test_a_session_that_can_not_be_closed_in_order_is_reported_and_its_name_is_free(
    app: ScriptedApp, port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_connection: object) -> None:
        raise RuntimeError("broken on purpose")

    async with publishing(port, key_frame(1)) as (client, _):
        monkeypatch.setattr("ingest.server.publishing.tcp_info", fail)
        client.abort()
        await app.event("rtmp.disconnect")
        monkeypatch.undo()
    assert [event["reason"] for event in app.connections[-1].of("rtmp.unpublish")] == ["tcp_reset"]
    assert "broken on purpose" in caplog.text
    async with publishing(port):
        pass


@pytest.mark.parametrize("failing", [1, 2], ids=["at the first batch", "at what goes on with the rest"])
async def test_a_fault_in_writing_to_a_player_is_that_players_alone(
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
        found.extend(server.registry.streams["live/cam1"].subscribers)
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


async def test_silent_publisher_is_ended_as_idle_timeout(app: ScriptedApp, server: RtmpServer) -> None:
    app.limits["idle_timeout_s"] = 0.2
    async with publishing(server, AVC_HEADER) as (client, _):
        status = await client.wait_for(events.StatusReceived, lambda event: event.level == "error")
        assert status.code == "NetConnection.Connect.IdleTimeOut"
        await client.wait_closed()
    assert (await app.event("rtmp.unpublish"))["reason"] == "idle_timeout"


async def test_a_pause_of_the_server_itself_is_not_a_publishers_silence(
    app: ScriptedApp, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "PAUSED_S", 0.4)
    app.limits["idle_timeout_s"] = 0.6
    server = await serve(sweep_s=0.1)
    async with publishing(server, AVC_HEADER) as (client, stream_id):
        asyncio.get_running_loop().call_later(0.05, time.sleep, 0.8)
        for number in range(1, 8):  # The first after the pause comes before the limit is over again.
            await asyncio.sleep(0.05)
            await client.send_video(stream_id, 100 * number, key_frame(number))
        assert not app.connections[0].of("rtmp.unpublish")
        may_be_silent(server, 0.3)
        await client.wait_closed()
    assert (await app.event("rtmp.unpublish"))["reason"] == "idle_timeout"


async def test_publisher_without_first_media_is_ended_as_idle_timeout(app: ScriptedApp, server: RtmpServer) -> None:
    app.limits["first_media_timeout_s"] = 0.2
    async with publishing(server) as (client, stream_id):
        await client.send_metadata(stream_id, {"width": 640.0})
        await client.wait_closed()
    event = await app.event("rtmp.unpublish")
    assert (event["reason"], "first media" in event["description"]) == ("idle_timeout", True)


async def test_a_player_that_answers_pings_stays_and_a_dead_one_goes(app: ScriptedApp, serve: Serve) -> None:
    server = await serve(ping_after_s=0.1, ping_answer_s=60)
    async with playing(server) as alive, playing(server) as dead:
        dead.pause_reading()
        connections: Any = list(server.connections)
        await becomes(lambda: all(each.pinged_at > each.opened for each in connections))
        set_deadlines(server, ping_answer_s=0.3)
        assert (await app.event("rtmp.stop", connection=1))["reason"] == "idle_timeout"
        assert not alive.closed
        assert app.connections[0].of("rtmp.stop") == []


async def test_peer_that_calls_without_reading_answers_ends_as_protocol_error(app: ScriptedApp, serve: Serve) -> None:
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


async def test_application_failure_closes_the_client_and_logs_no_secret(
    app: ScriptedApp, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    app.on["rtmp.publish"] = app.fail
    async with connected(port) as client:
        with pytest.raises((ConnectionError, Refused)):
            await client.publish("rk_secret-secret-secret-secret")
        await client.wait_closed()
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "secret" not in caplog.text


async def test_publish_without_a_decision_in_time_is_rejected(app: ScriptedApp, serve: Serve) -> None:
    app.on["rtmp.publish"] = app.ignore
    server = await serve(decision_s=0.2)
    async with connected(server) as client:
        with pytest.raises(Refused, match=r"NetStream\.Failed"):
            await client.publish("cam1")
        await client.wait_closed()
    assert (await app.event("rtmp.disconnect"))["reason"] == "rejected"
    assert server.registry.get("live/cam1") is None


async def test_connections_over_the_address_limit_are_closed(app: ScriptedApp, serve: Serve) -> None:
    server = await serve(config={"max_connections_per_address": 2})
    port = server.addresses[0][1]
    async with RtmpClient(port=port), RtmpClient(port=port), raw(port) as (reader, _):
        assert await read_to_end(reader) == b""
    await app.wait_until(lambda: len(app.connections) == 2)
    await app.wait_until(lambda: all(c.kinds == ["rtmp.disconnect"] for c in app.connections))
    async with connected(port):
        pass


async def test_faults_leave_a_live_stream_alone(port: int) -> None:
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
PICTURES = [AVC_HEADER, key_frame(1)[:100]]


def command(stream_id: int, *values: object) -> bytes:
    message = RtmpMessage(MessageType.COMMAND_AMF0, 0, stream_id, amf0.encode(*values))
    return encode_message(message, chunk_stream_id=3, chunk_size=128)


@pytest.mark.parametrize("pieces", [1, 2])
async def test_frames_before_a_protocol_fault_are_relayed_and_counted(app: ScriptedApp, port: int, pieces: int) -> None:
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


async def test_protocol_fault_behind_pending_decisions_takes_effect_after_them(app: ScriptedApp, port: int) -> None:
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
    told = [kind for kind in app.connections[-1].kinds if kind not in ("rtmp.status", "rtmp.metadata")]
    assert told == ["rtmp.connect", "rtmp.publish", "rtmp.unpublish", "rtmp.disconnect"]
    (unpublish,) = app.connections[-1].of("rtmp.unpublish")
    assert unpublish["totals"]["video_frames"] == 1


COMMAND, DATA = 20, 18
STRAY = b"\x00\x00\x09"
METADATA = amf0.encode("onMetaData", {"width": 640.0, "height": 360.0})


async def test_publisher_with_unreadable_messages_goes_on_and_is_logged_once(
    app: ScriptedApp, port: int, caplog: pytest.LogCaptureFixture
) -> None:
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
