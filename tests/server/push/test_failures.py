"""Targets that are gone, refuse, are too slow, or are no RTMP servers: what is told, and when it is tried again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from ingest.live import QueueLimits
from ingest.rtmp import events
from ingest.server import RtmpServer
from tests.server.app import ScriptedApp
from tests.server.clients import Camera, Stage, playing, publishing
from tests.server.conftest import Serve
from tests.server.media import AVC_HEADER, inter_frame, key_frame
from tests.server.push.conftest import KEY, QUICK, becomes_state, changes, only_push, order, push
from tests.server.push.plain_server import PlainServer, info
from tests.server.test_relaying import HEVC_HEADER
from tests.server.waiting import becomes

Serves = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def tcp_server(serve: Serves) -> AsyncIterator[int]:
    """Its port."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_push_reconnects_when_a_lost_target_comes_back(
    app: ScriptedApp, server: RtmpServer, serve_target: Serve
) -> None:
    first = await serve_target()
    port = first.addresses[0][1]
    async with publishing(server, AVC_HEADER, key_frame(0)) as (publisher, stream_id):
        await push(app, order(first))
        await becomes_state(app, "live")
        await first.stop(grace_s=1)
        lost = await becomes_state(app, "retrying")
        assert lost["failure"] == "lost"
        nobody = await becomes_state(app, "retrying", failure="connect")
        assert nobody["description"].startswith("Nobody answers:")
        (figures,) = (await app.next_tick())["pushes"]
        assert figures["tries"] > 1
        before = len(changes(app))
        second = await serve_target(port=port)
        await becomes_state(app, "live", after=before)
        async with playing(second, name=KEY) as there:
            await publisher.send_video(stream_id, 40, inter_frame(1))
            await there.wait_for(events.VideoReceived, lambda event: event.payload == inter_frame(1))
            assert [event.payload for event in there.of(events.VideoReceived)][:2] == [AVC_HEADER, key_frame(0)]
        (figures,) = (await app.next_tick())["pushes"]
        assert (figures["state"], figures["tries"]) == ("live", 0)


async def test_push_refused_for_its_key_hides_the_key_and_recovers_once_accepted(
    app: ScriptedApp, target_app: ScriptedApp, server: RtmpServer, target: RtmpServer
) -> None:
    """What the target says of it comes without the key; a refusal that passes ends by itself."""
    usual = target_app.on["rtmp.publish"]
    target_app.refuse("publish", "NetStream.Publish.Denied", f"There is no key {KEY}.")
    async with publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(target))
        refused = await becomes_state(app, "retrying")
        assert (refused["failure"], refused["code"]) == ("refused", "NetStream.Publish.Denied")
        assert refused["description"].startswith("There is no key tar")
        target_app.on["rtmp.publish"] = usual
        await becomes_state(app, "live")
    assert KEY not in repr(app.node.events)


async def test_a_refusal_is_tried_again_much_later(
    app: ScriptedApp, target_app: ScriptedApp, serve: Serve, target: RtmpServer
) -> None:
    server = await serve(config={"push": replace(QUICK, first_refused_s=30.0, last_refused_s=300.0)})
    target_app.refuse("", "NetConnection.Connect.InvalidApp", "There is no such application.")
    async with publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(target))
        refused = await becomes_state(app, "retrying")
        assert (refused["failure"], refused["code"]) == ("refused", "NetConnection.Connect.InvalidApp")
        tick = await app.next_tick()
        (figures,) = tick["pushes"]
        assert 15 < figures["retry_at"] - tick["figures"]["at"] <= 30


@pytest.mark.parametrize("sent", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x03" + bytes(range(256)) * 6, b""])
async def test_push_to_a_server_that_is_not_rtmp_fails_as_protocol(
    app: ScriptedApp, server: RtmpServer, sent: bytes
) -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        writer.close()

    async with tcp_server(answer) as port, publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(port))
        failed = await becomes_state(app, "retrying")
        assert failed["failure"] == "protocol"


async def test_push_to_a_server_that_sends_an_endless_message_fails_as_protocol(
    app: ScriptedApp, server: RtmpServer
) -> None:
    """Whether it makes sense or not: it has so long to begin, and no message may have any length."""

    async def flood(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            writer.write(b"\x03" + bytes(3072))
            # A chunk of a command of 16 MB, and what it needs.
            writer.write(bytes.fromhex("03 000000 ffffff 14 00000000"))
            while True:
                writer.write(bytes(128) + b"\xc3")
                await writer.drain()

    async with tcp_server(flood) as port, publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(port))
        failed = await becomes_state(app, "retrying")
        assert failed["failure"] == "protocol"


@pytest.mark.parametrize("shakes_hands", [False, True])
async def test_push_to_a_server_that_never_begins_fails_after_the_deadline(
    app: ScriptedApp, serve: Serve, shakes_hands: bool
) -> None:
    server = await serve(config={"push": replace(QUICK, begin_s=0.3)})

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            if shakes_hands:
                writer.write(b"\x03" + bytes(3072))
            await reader.read(-1)
            writer.close()

    async with tcp_server(say_nothing) as port, publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(port))
        failed = await becomes_state(app, "retrying")
        assert (failed["failure"], failed["description"]) == ("protocol", "It has not begun within 0.3 s.")


async def test_push_to_a_target_that_floods_acknowledgements_ends_as_protocol(
    app: ScriptedApp, server: RtmpServer
) -> None:
    """Of a server to which it is live: each message costs what a peer's does."""
    async with PlainServer() as plain, publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(plain.port))
        await becomes_state(app, "live")
        acknowledgement = bytes.fromhex("02 000000 000004 03 00000000 00000001")
        with contextlib.suppress(OSError):
            while not any(change["state"] == "retrying" for change in changes(app)):
                plain.writers[0].write(acknowledgement * 2_000)
                await plain.writers[0].drain()
                await asyncio.sleep(0)
        failed = await becomes_state(app, "retrying")
        assert failed["failure"] == "protocol"


async def test_push_to_a_target_with_a_full_control_backlog_ends_as_slow(app: ScriptedApp, serve: Serve) -> None:
    """Also what no queue holds, as it goes before that."""
    server = await serve(config={"push": QUICK, "control_backlog_bytes": 20_000, "write_high_bytes": 64 * 1024})
    async with PlainServer() as stuck, publishing(server, AVC_HEADER, key_frame(0)) as (publisher, stream_id):
        await push(app, order(stuck.port))
        await becomes_state(app, "live")
        stuck.reads.clear()
        for number in range(100):
            await publisher.send_video(stream_id, 40 * number, key_frame(number, 100_000))
        number = 0
        while not any(change["state"] == "retrying" for change in changes(app)):
            number += 1
            assert number < 2000, "it was never given up"
            publisher.protocol.send_data(stream_id, 4000, "@clearDataFrame", "x" * 10_000)
            await publisher.flush()
            await asyncio.sleep(0)
        told = await becomes_state(app, "retrying")
        assert (told["failure"], told["description"]) == ("slow", "It does not read what it is told.")


async def test_a_target_that_is_too_slow_costs_players_nothing(app: ScriptedApp, serve: Serve) -> None:
    """Frames are dropped for it, up to the next keyframe; then it is given up, and tried again."""
    limits = QueueLimits(size_bytes=400_000, seconds=1.0, patience_s=1.0)
    server = await serve(config={"push": QUICK, "queue": limits})
    async with PlainServer() as slow, Stage(server) as stage:
        camera = await stage.camera("cam1")
        player = await stage.viewer("cam1")
        await camera.send(key=True)
        await push(app, order(slow.port))
        await becomes_state(app, "live")
        slow.reads.clear()
        sent = 0

        async def fill(camera: Camera) -> None:
            nonlocal sent
            while True:
                sent += 1
                camera.time += 40
                await camera.client.send_video(camera.stream_id, camera.time, key_frame(sent, 60_000))
                await asyncio.sleep(0.01)

        filling = asyncio.create_task(fill(camera))
        try:
            told = await becomes_state(app, "retrying", failure="slow")
            assert told["description"] == "The server took less than it was sent, for too long."
        finally:
            filling.cancel()
        dropped = max(each["dropped_frames"] for tick in app.ticks for each in tick["pushes"])
        assert dropped > 0
        await player.wait_until(lambda: player.of(events.VideoReceived)[-1].payload == key_frame(sent, 60_000))
        tick = await app.next_tick()
        assert tick["players"][0]["dropped_frames"] == 0
        assert tick["streams"][0]["dropped_frames"] == 0
        assert tick["streams"][0]["slowest"] == []


async def test_a_redirect_is_followed_once(app: ScriptedApp, server: RtmpServer, target: RtmpServer) -> None:
    async with PlainServer() as first, publishing(server, AVC_HEADER, key_frame(0)) as (publisher, stream_id):
        there = f"rtmp://127.0.0.1:{target.addresses[0][1]}/live"
        first.connect_error = redirect_to(there)
        await push(app, order(first.port))
        await becomes_state(app, "live")
        async with playing(target, name=KEY) as player:
            await publisher.send_video(stream_id, 40, inter_frame(1))
            await player.wait_for(events.VideoReceived, lambda event: event.payload == inter_frame(1))
        assert first.names == ["connect"]


def redirect_to(url: str) -> dict[str, Any]:
    moved = {"code": 302.0, "redirect": url}
    return info("error", "NetConnection.Connect.Rejected", "Look elsewhere.", ex=moved)


async def test_redirect_in_a_status_is_treated_as_a_refusal(app: ScriptedApp, server: RtmpServer) -> None:
    """Only connect is redirected: later a push may be about to end, and would begin again."""
    async with PlainServer() as first, PlainServer() as second, publishing(server, AVC_HEADER, key_frame(0)):
        first.begin_status = redirect_to(f"rtmp://127.0.0.1:{second.port}/live")
        await push(app, order(first.port))
        refused = await becomes_state(app, "retrying")
        assert (refused["failure"], refused["description"]) == ("refused", "Look elsewhere.")
        assert not second.writers


async def test_a_redirect_that_leads_on_is_a_refusal(app: ScriptedApp, server: RtmpServer) -> None:
    async with PlainServer() as first, PlainServer() as second, publishing(server, AVC_HEADER, key_frame(0)):
        first.connect_error = redirect_to(f"rtmp://127.0.0.1:{second.port}/live")
        second.connect_error = redirect_to(f"rtmp://127.0.0.1:{first.port}/live")
        await push(app, order(first.port))
        refused = await becomes_state(app, "retrying")
        assert (refused["failure"], refused["code"]) == ("refused", "NetConnection.Connect.Rejected")
        assert (first.names, second.names) == (["connect"], ["connect"])


async def test_redirect_to_this_server_itself_stops_the_push(app: ScriptedApp, server: RtmpServer) -> None:
    """Nor to this server."""
    async with PlainServer() as first, publishing(server, AVC_HEADER, key_frame(0)):
        first.connect_error = redirect_to(f"rtmp://127.0.0.1:{server.addresses[0][1]}/live")
        await push(app, order(first.port))
        stopped = await becomes_state(app, "stopped")
        assert stopped["failure"] == "address"


@pytest.mark.parametrize(
    "said",
    [{"videoFourCcInfoMap": {"av01": 4}}, {"fourCcList": ["av01", "vp09"]}],
    ids=str,
)
async def test_push_of_a_codec_that_the_target_does_not_list_is_refused(
    app: ScriptedApp, server: RtmpServer, said: dict[str, Any]
) -> None:
    async with PlainServer() as plain, publishing(server, HEVC_HEADER) as (publisher, stream_id):
        plain.connect_answer = said
        await publisher.send_video(stream_id, 0, bytes.fromhex("93 68766331") + b"picture")
        await push(app, order(plain.port))
        refused = await becomes_state(app, "retrying")
        assert refused["failure"] == "refused"
        assert refused["description"] == "The stream's video is H.265 (hvc1), and the server doesn't list that."
        assert "publish" not in plain.names


async def test_bad_name_status_without_error_level_counts_as_a_refusal(app: ScriptedApp, server: RtmpServer) -> None:
    async with PlainServer() as plain, publishing(server, AVC_HEADER, key_frame(0)):
        plain.begin_status = info("status", "NetStream.Publish.BadName", f"Stream {KEY} is published already.")
        await push(app, order(plain.port))
        refused = await becomes_state(app, "retrying")
        assert (refused["failure"], refused["code"]) == ("refused", "NetStream.Publish.BadName")
        assert KEY not in refused["description"]


async def test_push_ended_by_a_status_of_the_target_is_lost_and_reconnects(
    app: ScriptedApp, server: RtmpServer, target: RtmpServer
) -> None:
    async with publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(target))
        await becomes_state(app, "live")
        (session,) = target.sessions.values()
        session.connection.stop_session(session, "kicked")
        lost = await becomes_state(app, "retrying")
        assert (lost["failure"], lost["code"]) == ("lost", "NetStream.Publish.Rejected")
        assert lost["description"] == "Stopped by an operator."
        await becomes_state(app, "live", after=len(changes(app)))


async def test_push_beyond_the_node_limit_waits_for_a_free_place(
    app: ScriptedApp, serve: Serve, target: RtmpServer
) -> None:
    """The next has its place when one is free."""
    server = await serve(config={"push": replace(QUICK, most=1)})
    first, second = (order(target, target=number, name=f"out-{number}") for number in (1, 2))
    async with publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, first, second)
        await becomes_state(app, "live")
        full = await becomes_state(app, "retrying", target=2)
        assert (full["failure"], "RTMPWEB_MAX_PUSHES" in full["description"]) == ("limit", True)
        await push(app, second)
        await becomes_state(app, "live", target=2)


async def test_cancelled_push_closes_the_connection_that_it_is_opening(app: ScriptedApp, server: RtmpServer) -> None:
    closed = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        closed.set()
        writer.close()

    async with tcp_server(hold) as port, publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(port))
        await becomes(lambda: only_push(server).figures["rtt_ms"] is not None)
        await push(app)
        await asyncio.wait_for(closed.wait(), 5)
    assert not list(server.node.pushes)


async def test_secrets_quoted_by_a_push_target_are_masked_in_the_description(
    app: ScriptedApp, server: RtmpServer
) -> None:
    """Nor does it come in lines of its own."""
    secrets = ("passw0rd-1", "signature-22", "event-secret-3", "stream-key-44")
    async with PlainServer() as plain, publishing(server, AVC_HEADER, key_frame(0)):
        plain.begin_status = info("error", "NetStream.Publish.Denied", f"No:\n{' '.join(secrets)} {'x' * 5_000}")
        url = f"rtmp://user:passw0rd-1@127.0.0.1:{plain.port}/live?sig=signature-22"
        await push(app, order(url, name="stream-key-44?event=event-secret-3"))
        refused = await becomes_state(app, "retrying")
        assert refused["failure"] == "refused"
        assert not any(secret in refused["description"] for secret in secrets)
        assert len(refused["description"]) <= 300
        assert "\n" not in refused["description"]
        connect = plain.commands[0].command_object
    assert connect["tcUrl"] == f"rtmp://127.0.0.1:{plain.port}/live?sig=signature-22"
    assert connect["app"] == "live?sig=signature-22"


async def test_a_node_that_stops_ends_its_pushes_in_order(
    app: ScriptedApp, target_app: ScriptedApp, server: RtmpServer, target: RtmpServer, quiet: None
) -> None:
    async with publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(target))
        await becomes_state(app, "live")
        await server.stop(grace_s=2)
        ended = await target_app.event("rtmp.unpublish")
        assert ended["description"] == "The client sent FCUnpublish."
