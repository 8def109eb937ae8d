"""Streams that are fetched from other nodes: what becomes of them as orders change, and what both sides are told."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from ingest.rtmp import events
from ingest.server import RtmpServer, ServerConfig
from ingest.server.config import RelaySettings
from tests.server.app import Message, ScriptedApp
from tests.server.clients import Camera, playing, publishing
from tests.server.conftest import QUICK, Serve
from tests.server.media import AVC_HEADER, key_frame
from tests.server.push.plain_server import PlainServer, info

PATH = "live/cam1"
RELAY = RelaySettings(begin_s=0.5, first_retry_s=0.05, last_retry_s=0.2, send_away_s=60.0)

ServeOrigin = Callable[[], Awaitable[tuple[RtmpServer, ScriptedApp]]]


@pytest_asyncio.fixture
async def serve_origin() -> AsyncIterator[ServeOrigin]:
    """Nodes whose players are other nodes."""
    servers: list[RtmpServer] = []

    async def start() -> tuple[RtmpServer, ScriptedApp]:
        app = ScriptedApp()
        app.change("rtmp.play", path=PATH, relay="node-1")
        server = RtmpServer(app, ServerConfig(node="origin", rtmp=("127.0.0.1", 0), deadlines=QUICK))
        servers.append(server)
        await server.start()
        return server, app

    yield start
    for server in servers:
        await server.stop(grace_s=2)
        assert not server.connections


@pytest_asyncio.fixture
async def server(serve: Serve) -> RtmpServer:
    """Which relays."""
    return await serve(config={"relay": RELAY})


def url_of(server: RtmpServer | PlainServer) -> str:
    return f"rtmp://127.0.0.1:{server.port if isinstance(server, PlainServer) else server.addresses[0][1]}"


def order(*urls: str, session_id: str = "publish-1") -> Message:
    sources = [{"node": f"node-{at}", "url": url, "token": f"token-{at}"} for at, url in enumerate(urls, 2)]
    return {"labels": {"stream": 1, "key": None}, "session_id": session_id, "sources": sources}


async def relay(app: ScriptedApp, found: Message | None) -> None:
    await app.wait_until(lambda: bool(app.nodes))
    await app.node.send({"type": "node.relay", "streams": {PATH: found}})


def relays(tick: Message) -> list[Any]:
    found: list[Any] = tick["figures"]["relays"]
    return found


async def test_relay_follows_a_publisher_that_moved_to_another_node(
    app: ScriptedApp, server: RtmpServer, serve_origin: ServeOrigin, quiet: None
) -> None:
    """What comes from there is another publisher's: it begins anew, and is not given up by the first one's times."""
    first, _ = await serve_origin()
    second, _ = await serve_origin()
    async with (
        publishing(first) as (former, former_id),
        publishing(second) as (publisher, stream_id),
        playing(server) as player,
    ):
        old, camera = Camera(former, former_id, 900_000), Camera(publisher, stream_id, 0)
        await old.headers()
        await old.send(key=True, count=3)
        await relay(app, order(url_of(first)))
        await player.wait_count(events.VideoReceived, 4)
        await camera.headers()
        await camera.send(key=True, count=5)
        await relay(app, order(url_of(second), "rtmp://127.0.0.1:1", session_id="publish-2"))
        await player.wait_count(events.VideoReceived, 4 + 6)
        times = [event.timestamp for event in player.of(events.VideoReceived)]
        assert times == sorted(times)
        assert times[-1] - times[0] < 60_000, "its players' time goes on"
        await app.next_tick(3)
        await camera.send(key=True)
        await player.wait_for(events.VideoReceived, lambda event: event.payload == key_frame(6))
        assert [(each["source"], each["state"]) for each in relays(app.ticks[-1])] == [("node-2", "live")]
        assert len(second.sessions) == 2


async def test_relay_drops_a_removed_source_that_has_sent_nothing(
    app: ScriptedApp, serve: Serve, serve_origin: ServeOrigin
) -> None:
    """It was found to wait for this node itself, most likely: neither would ever have the stream."""
    server = await serve(config={"relay": replace(RELAY, begin_s=60.0)})
    origin, _ = await serve_origin()
    async with (
        PlainServer() as between,
        publishing(origin, AVC_HEADER, key_frame(0)),
        playing(server) as player,
    ):
        between.play_status = info("status", "NetStream.Play.Start", "Go on.")
        await relay(app, order(url_of(between), url_of(origin)))
        await between.wait_for("play")
        await relay(app, order(url_of(origin)))
        await player.wait_count(events.VideoReceived, 2)


async def test_outdated_source_in_a_play_answer_does_not_replace_a_live_relay(
    app: ScriptedApp, server: RtmpServer, serve_origin: ServeOrigin
) -> None:
    """Its answer may come behind the node's order, which is newer: what is live goes on."""
    first, _ = await serve_origin()
    second, _ = await serve_origin()
    async with publishing(second, AVC_HEADER, key_frame(0)), playing(server) as player:
        await relay(app, order(url_of(second), session_id="publish-2"))
        await player.wait_count(events.VideoReceived, 2)
        app.change("rtmp.play", source=order(url_of(first), session_id="publish-1"))
        async with playing(server) as late:
            await late.wait_count(events.VideoReceived, 2)
            await app.next_tick()
            assert [each["state"] for each in relays(app.ticks[-1])] == ["live"]
            assert len(second.sessions) == 2


async def test_bytes_sent_before_the_relay_are_not_reported_to_the_origin(
    app: ScriptedApp, server: RtmpServer, serve_origin: ServeOrigin
) -> None:
    """It was of a publisher here, whose figures have it."""
    origin, origin_app = await serve_origin()
    async with playing(server) as player:
        async with publishing(server, AVC_HEADER, key_frame(0, 500_000)):
            await player.wait_count(events.VideoReceived, 2)
        await app.next_tick(2)
        async with publishing(origin, AVC_HEADER, key_frame(1)):
            await relay(app, order(url_of(origin)))
            await player.wait_count(events.VideoReceived, 4)
            await app.next_tick(2)
            await origin_app.wait_until(lambda: origin_app.samples[-1].players == 1)
            assert sum(sample.out_bytes for sample in origin_app.samples) < 100_000


async def test_failure_text_of_another_node_is_one_short_line_without_the_token(
    app: ScriptedApp, server: RtmpServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever answers there may say anything."""
    async with PlainServer() as plain, playing(server):
        plain.play_status = info("error", "NetStream.Play.Failed", "No.\nERROR forged token-2 " + "x" * 60_000)
        await relay(app, order(url_of(plain)))
        await app.wait_until(lambda: bool(app.ticks and relays(app.ticks[-1]) and relays(app.ticks[-1])[0]["failure"]))
        failure = relays(app.ticks[-1])[0]["failure"]
        assert failure.startswith(f"From node node-2 ({url_of(plain)}): NetStream.Play.Failed: No. ERROR forged")
        assert len(failure) < 1000
        for said in (failure, *(record.getMessage() for record in caplog.records)):
            assert "token-2" not in said
            assert "\n" not in said


async def test_figures_of_another_node_are_bounded(serve_origin: ServeOrigin) -> None:
    origin, origin_app = await serve_origin()
    async with publishing(origin, AVC_HEADER, key_frame(0)), playing(origin) as other:
        other.protocol.notify("onRelayAudience", 7.0, float("nan"), -1.0, 1e300, "x", stream_id=1)
        await other.flush()
        await origin_app.wait_until(lambda: bool(origin_app.samples) and origin_app.samples[-1].players == 7)
        assert (origin_app.samples[-1].slow_players, origin_app.samples[-1].dropped_frames) == (0, 0)
        assert origin_app.samples[-1].viewers == 0
        other.protocol.notify("onRelayAudience", 7.0, 0.0, 0.0, 0.0, 0.0, 1e6, stream_id=1)
        await other.flush()
        await origin_app.wait_until(lambda: bool(origin_app.samples[-1].viewers))
        assert (origin_app.samples[-1].players, origin_app.samples[-1].viewers) == (7, 7)
        other.protocol.notify("onRelayAudience", 1e15, stream_id=1)
        await other.flush()
        await origin_app.wait_until(lambda: origin_app.samples[-1].players != 7)
        assert origin_app.samples[-1].players == 0


async def test_audience_report_of_an_ordinary_player_is_ignored(app: ScriptedApp, server: RtmpServer) -> None:
    async with publishing(server, AVC_HEADER, key_frame(0)), playing(server) as player:
        await player.wait_count(events.VideoReceived, 2)
        player.protocol.notify("onRelayAudience", 5.0, 0.0, 0.0, 0.0, 0.0, stream_id=1)
        await player.flush()
        await app.wait_until(lambda: any(each.of("rtmp.call") for each in app.connections))
        await app.next_tick(2)
        assert app.samples[-1].players == 1
