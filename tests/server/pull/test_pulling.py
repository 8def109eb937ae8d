"""A stream of another server that is published here: a publisher's session as any other."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from ingest.rtmp import Limits, events
from ingest.rtmp import Message as RtmpMessage
from ingest.rtmp.amf import amf0
from ingest.rtmp.chunk_writer import CSID_DATA, encode_message
from ingest.rtmp.media import write_video
from ingest.server import RtmpServer
from ingest.server.config import PullSettings
from ingest.server.pull import NOT_YET
from tests.certificates import make_pair
from tests.pure.live.test_extended import BOTH, SENT, expected
from tests.rtmp_client import DATA
from tests.server.app import Message, ScriptedApp
from tests.server.clients import Camera, playing, publishing
from tests.server.conftest import Serve, serving
from tests.server.media import AAC_HEADER, AVC_HEADER, inter_frame, key_frame, sound
from tests.server.push.plain_server import STREAM_ID, PlainServer, info
from tests.server.push.test_failures import redirect_to
from tests.server.test_publisher_limits import may_be_silent
from tests.server.test_rtmps import tls
from tests.server.waiting import becomes

QUICK = PullSettings(
    first_retry_s=0.05,
    last_retry_s=0.2,
    first_refused_s=0.1,
    last_refused_s=0.2,
    quiet_s=1.0,
    answer_s=1.0,
)

CREDENTIAL = "rk_pullpullpullpullpullpull"


def order(to: RtmpServer | int | str, *, source: int = 1, name: str = "cam1", **fields: Any) -> Message:
    if not isinstance(to, str):
        to = f"rtmp://127.0.0.1:{to if isinstance(to, int) else to.addresses[0][1]}/live"
    made = {"source": source, "path": "live/here", "url": to, "name": name, "credential": CREDENTIAL}
    return made | {"private_allowed": True} | fields


async def pull(app: ScriptedApp, *orders: Message) -> None:
    """These, and no others."""
    await app.wait_until(lambda: bool(app.nodes))
    await app.node.send({"type": "node.pull", "sources": list(orders)})


async def becomes_figures(app: ScriptedApp, **wanted: Any) -> Message:
    """Wait for the first tick in which the first pull has these figures."""

    def found() -> list[Message]:
        each = (tick["pulls"][0] for tick in app.ticks if tick["pulls"])
        return [figures for figures in each if wanted.items() <= figures.items()]

    await app.wait_until(found)
    return found()[0]


@pytest.fixture
def app() -> ScriptedApp:
    """Whatever is pulled is published as live/here."""
    made = ScriptedApp()
    made.change("rtmp.publish", path="live/here")
    return made


@pytest.fixture
def origin_app() -> ScriptedApp:
    return ScriptedApp()


@pytest_asyncio.fixture
async def serve_origin(origin_app: ScriptedApp) -> AsyncIterator[Serve]:
    async with serving(origin_app, "origin-1") as start:
        yield start


@pytest_asyncio.fixture
async def origin(serve_origin: Serve) -> RtmpServer:
    return await serve_origin()


@pytest_asyncio.fixture
async def server(serve: Serve) -> RtmpServer:
    """Which pulls."""
    return await serve(config={"pull": QUICK})


async def test_a_stream_of_another_server_is_published_here(
    app: ScriptedApp, origin_app: ScriptedApp, server: RtmpServer, origin: RtmpServer, quiet: None
) -> None:
    """Byte for byte, with its times; the application is asked as for an encoder."""
    metadata = amf0.encode("onMetaData") + bytes.fromhex("08 000000ff 0001 61 0101 000009")
    async with playing(server, name="here") as player, publishing(origin) as (publisher, stream_id):
        camera = Camera(publisher, stream_id, 0)
        publisher.protocol.send_message(RtmpMessage(DATA, 0, stream_id, amf0.encode("@setDataFrame") + metadata))
        await camera.headers()
        await camera.send(key=True, count=3)
        await pull(app, order(origin, name="cam1?token=abcdefgh"))
        await player.wait_count(events.VideoReceived, 4)
        await camera.send(count=40)
        await camera.send(key=True)
        await player.wait_for(events.AudioReceived, lambda event: event.payload == sound(44))
        frames = [key_frame(1), *map(inter_frame, range(2, 44)), key_frame(44)]
        assert [event.payload for event in player.of(events.VideoReceived)] == [AVC_HEADER, *frames]
        assert [event.timestamp for event in player.of(events.VideoReceived)][1:] == list(range(40, 45 * 40, 40))
        assert [e.payload for e in player.of(events.AudioReceived)] == [AAC_HEADER, *map(sound, range(1, 45))]
        found = [event.payload for event in player.of(events.DataReceived) if event.name == "onMetaData"]
        assert found == [metadata]
        figures = await becomes_figures(app, state="live")
        assert (figures["source"], figures["tries"], figures["failure"], figures["description"]) == (1, 0, None, "")
        tick = await app.next_tick()
        (stream,) = tick["streams"]
        assert (stream["state"], stream["address"]) == ("live", "127.0.0.1")
        assert tick["figures"]["publishers"] == 1
        await pull(app)
        ended = await app.event("rtmp.unpublish")
    assert (ended["reason"], ended["description"]) == ("client_unpublish", "It is not ordered any more.")
    assert ended["totals"]["video_frames"] == 44
    scope = app.connections[1].scope
    url = f"rtmp://127.0.0.1:{origin.addresses[0][1]}/live"
    assert (scope["scheme"], scope["app"], scope["tc_url"]) == ("pull", "live", url)
    assert (scope["client"], scope["flash_ver"]) == (("127.0.0.1", origin.addresses[0][1]), f"Pull: {url}/cam1")
    asked = app.connections[1].events
    assert [event["type"] for event in asked[:2]] == ["rtmp.connect", "rtmp.publish"]
    assert (asked[0]["credential"], asked[1]["credential"], asked[1]["name"]) == ("", CREDENTIAL, "")
    assert asked[1]["credential_is_name"] is False
    assert asked[-1]["type"] == "rtmp.disconnect"
    assert origin_app.connections[-1].of("rtmp.play")[0]["credential"] == "abcdefgh"
    assert "abcdefgh" not in repr(app.connections[1].scope) + repr(asked)


async def test_pull_asks_the_application_only_after_the_first_media(
    app: ScriptedApp, server: RtmpServer, origin: RtmpServer, quiet: None
) -> None:
    await pull(app, order(origin))
    waiting = await becomes_figures(app, state="connecting", description=NOT_YET)
    assert waiting["failure"] is None
    async with publishing(origin) as (publisher, stream_id):
        await publisher.send_metadata(stream_id, {"width": 640.0})
        await app.next_tick()
        assert not app.connections
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await app.event("rtmp.metadata")


async def test_pull_loses_no_frames_while_the_application_decides(
    app: ScriptedApp, server: RtmpServer, origin: RtmpServer, quiet: None
) -> None:
    """Nor read: what is not taken waits at the other server."""
    answers = app.hold("rtmp.publish")
    async with playing(server, name="here") as player, publishing(origin, AVC_HEADER) as (publisher, stream_id):
        await pull(app, order(origin))
        await app.wait_until(lambda: len(app.connections) == 2 and bool(app.connections[1].of("rtmp.publish")))
        frames = [key_frame(number, 20_000) for number in range(100)]
        for number, frame in enumerate(frames):
            await publisher.send_video(stream_id, 40 * number, frame)
        answers.set()
        await player.wait_count(events.VideoReceived, 1 + len(frames))
        assert [event.payload for event in player.of(events.VideoReceived)] == [AVC_HEADER, *frames]


async def test_pull_relays_tracks_and_extensions(
    app: ScriptedApp, server: RtmpServer, origin: RtmpServer, quiet: None
) -> None:
    wanted = expected(BOTH)
    async with playing(server, name="here", capsEx=15) as player, publishing(origin) as (publisher, stream_id):
        for number, (message, _, _) in enumerate(SENT):
            await publisher.send_video(stream_id, 40 * number, write_video(message))
            if number == 0:
                await pull(app, order(origin))
                await player.wait_for(events.VideoReceived)
        await player.wait_count(events.VideoReceived, len(wanted))
        assert [event.payload for event in player.of(events.VideoReceived)] == wanted


async def test_pull_reconnects_when_the_origin_is_back(
    app: ScriptedApp, serve_origin: Serve, server: RtmpServer
) -> None:
    origin = await serve_origin()
    port = origin.addresses[0][1]
    async with playing(server, name="here") as player:
        async with publishing(origin, AVC_HEADER, key_frame(1)):
            await pull(app, order(port))
            await player.wait_count(events.VideoReceived, 2)
            await origin.stop(grace_s=1)
        ended = await app.event("rtmp.unpublish")
        assert ended["reason"] in ("tcp_reset", "client_unpublish")
        failed = await becomes_figures(app, failure="connect")
        assert failed["tries"] > 0
        origin = await serve_origin(port=port)
        async with publishing(origin, AVC_HEADER, key_frame(2)):
            await player.wait_for(events.VideoReceived, lambda event: event.payload == key_frame(2))
            await app.next_tick(2)
            assert app.ticks[-1]["pulls"][0]["state"] == "live"


async def test_pull_session_ends_when_the_stream_ends_at_the_origin(
    app: ScriptedApp, serve_origin: Serve, server: RtmpServer
) -> None:
    origin = await serve_origin()
    async with playing(server, name="here") as player, publishing(origin, AVC_HEADER, key_frame(1)):
        await pull(app, order(origin))
        await player.wait_count(events.VideoReceived, 2)
        for session in list(origin.sessions.values()):
            if session.event == "rtmp.stop":
                session.connection.stop_session(session, "node_shutdown")
        ended = await app.event("rtmp.unpublish", connection=1)
        said = "The stream has ended on the server from which it is pulled."
        assert (ended["reason"], ended["description"]) == ("client_unpublish", said)
        await player.wait_count(events.VideoReceived, 4)


@pytest.mark.parametrize("how", ["kicked", "silent", "replaced"])
async def test_pull_ended_here_is_retried_soon_after_silence_and_later_otherwise(
    app: ScriptedApp, serve: Serve, origin: RtmpServer, how: str
) -> None:
    """And tried again: much later, unless it was silent."""
    server = await serve(config={"pull": replace(QUICK, first_refused_s=30.0, last_refused_s=300.0)})
    async with publishing(origin, AVC_HEADER, key_frame(1)):
        await pull(app, order(origin))
        await app.wait_until(lambda: bool(app.connections))
        await becomes(lambda: "live/here" in {session.path for session in server.sessions.values()})
        session_id = next(iter(server.sessions))
        reason = how
        if how == "kicked":
            stop = {"type": "rtmp.stream.stop", "session_id": session_id, "stream_id": 1, "reason": how}
            await app.connections[0].send(stop)
        elif how == "silent":
            may_be_silent(server, 0.2)
            reason = "idle_timeout"
        else:
            async with publishing(server, AVC_HEADER, name="other"):
                await app.wait_until(lambda: bool(app.connections[0].of("rtmp.unpublish")))
        ended = await app.event("rtmp.unpublish", connection=0)
        assert ended["reason"] == reason
        if how == "silent":
            await app.wait_until(lambda: len(app.connections) > 1)
            return
        figures = await becomes_figures(app, failure="refused")
        assert figures["description"].startswith("It was ended here: ")
        assert figures["retry_at"] > figures["since"] + 15


async def test_pull_refused_by_the_application_is_reported_with_the_reason(
    app: ScriptedApp, server: RtmpServer, origin: RtmpServer
) -> None:
    app.refuse("publish", "NetStream.Publish.BadName", "Somebody publishes it.")
    async with publishing(origin, AVC_HEADER, key_frame(1)):
        await pull(app, order(origin))
        figures = await becomes_figures(app, failure="refused", code="NetStream.Publish.BadName")
        assert figures["description"] == "It may not be published here: Somebody publishes it."
        assert app.connections[0].of("rtmp.disconnect")[0]["reason"] == "rejected"


async def test_pull_refused_by_the_origin_is_reported_without_the_token(
    app: ScriptedApp, origin_app: ScriptedApp, server: RtmpServer, origin: RtmpServer
) -> None:
    """Without a word of the token."""
    origin_app.refuse("play", "NetStream.Play.Failed", "The token secret-token-1 is no more valid.")
    await pull(app, order(origin, name="cam1?token=secret-token-1"))
    figures = await becomes_figures(app, failure="refused", code="NetStream.Play.Failed")
    assert figures["description"].startswith("The token sec")
    assert "secret-token-1" not in repr(app.ticks)
    assert not app.connections


async def test_pull_of_a_stream_not_found_at_the_origin_is_retried_soon(
    app: ScriptedApp, serve: Serve, origin_app: ScriptedApp, origin: RtmpServer
) -> None:
    await serve(config={"pull": replace(QUICK, first_refused_s=30.0, last_refused_s=300.0)})
    origin_app.refuse("play", "NetStream.Play.StreamNotFound", "Nobody publishes it.")
    await pull(app, order(origin))
    await becomes(lambda: len(origin_app.connections) > 2)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("rtmp://10.1.2.3/live", "10.1.2.3 is an address of a private network or of this machine"),
        ("http://127.0.0.1/live", "It is no URL of an RTMP server."),
    ],
)
async def test_pull_from_a_private_address_or_a_non_rtmp_url_is_stopped(
    app: ScriptedApp, server: RtmpServer, url: str, said: str
) -> None:
    await pull(app, order(url, private_allowed=False))
    figures = await becomes_figures(app, state="stopped", failure="address")
    assert figures["description"].startswith(said)


async def test_a_pull_from_this_server_itself_is_refused(app: ScriptedApp, server: RtmpServer) -> None:
    await pull(app, order(server))
    figures = await becomes_figures(app, state="stopped", failure="address")
    assert figures["description"].startswith("It leads to this server itself")


async def test_pull_from_a_server_that_answers_no_pings_is_lost(app: ScriptedApp, serve: Serve) -> None:
    """It has to give a sign of life, though a stream may be silent."""
    await serve(config={"pull": replace(QUICK, quiet_s=0.4, answer_s=0.4)})
    async with PlainServer() as plain:
        plain.play_status = info("status", "NetStream.Play.Start", "Go on.")
        await pull(app, order(plain.port))
        await plain.wait_for("play")
        figures = await becomes_figures(app, failure="lost")
        assert figures["description"] == "Nothing was heard of it for 0.8 s, though it was pinged."


async def test_pull_of_endless_short_data_without_media_fails_as_protocol(app: ScriptedApp, serve: Serve) -> None:
    """However short each is."""
    await serve(config={"pull": replace(QUICK, held_bytes=100_000)})
    async with PlainServer() as plain:
        plain.play_status = info("status", "NetStream.Play.Start", "Go on.")
        await pull(app, order(plain.port))
        await plain.wait_for("play")
        short = RtmpMessage(DATA, 0, int(STREAM_ID), amf0.encode("x", None))
        for _ in range(1000):
            plain.writers[0].write(encode_message(short, chunk_stream_id=CSID_DATA, chunk_size=128))
        figures = await becomes_figures(app, failure="protocol")
        assert figures["description"] == "It sends too much at once."


async def test_pull_follows_a_redirect_to_an_rtmps_origin(
    app: ScriptedApp, serve: Serve, serve_origin: Serve, tmp_path: Any
) -> None:
    pair = make_pair(tmp_path)
    server = await serve(config={"pull": replace(QUICK, ca=pair.chain)})
    origin = await serve_origin(config=tls(pair))
    port = origin.bound["rtmps"][0][1]
    async with (
        PlainServer() as first,
        playing(server, name="here") as player,
        publishing(origin, AVC_HEADER, key_frame(1)),
    ):
        first.connect_error = redirect_to(f"rtmps://localhost:{port}/live")
        await pull(app, order(first.port))
        await player.wait_count(events.VideoReceived, 2)


async def test_a_node_that_drains_pulls_nothing_new(app: ScriptedApp, server: RtmpServer, origin: RtmpServer) -> None:
    async with publishing(origin, AVC_HEADER, key_frame(1)):
        await app.node.send({"type": "node.drain", "grace_s": 60.0})
        await pull(app, order(origin))
        figures = await becomes_figures(app, failure="limit")
        assert figures["description"] == "The node drains: it takes no streams."
        assert not app.connections


async def test_pull_beyond_the_node_limit_fails_as_limit(app: ScriptedApp, serve: Serve, origin: RtmpServer) -> None:
    await serve(config={"pull": replace(QUICK, most=1)})
    await pull(app, order(origin), order(origin, source=2))
    await app.wait_until(lambda: bool(app.ticks) and len(app.ticks[-1]["pulls"]) == 2)
    second = app.ticks[-1]["pulls"][1]
    assert (second["failure"], "RTMPWEB_MAX_PULLS" in second["description"]) == ("limit", True)


async def test_pull_of_large_data_before_the_first_media_fails_as_protocol(
    app: ScriptedApp, serve: Serve, serve_origin: Serve
) -> None:
    """What waits for the first media has a bound."""
    limits = Limits(messages_per_read=100_000)  # A busy machine may read all of it at once.
    await serve(config={"pull": replace(QUICK, held_bytes=100_000), "limits": limits})
    origin = await serve_origin(config={"limits": limits})
    async with publishing(origin) as (publisher, stream_id):
        await pull(app, order(origin))
        await becomes_figures(app, state="connecting", description=NOT_YET)
        for number in range(10):
            publisher.protocol.send_data(stream_id, number, "onFlood", "x" * 30_000)
        await publisher.flush()
        figures = await becomes_figures(app, failure="protocol")
        assert figures["description"] == "It sends too much at once."
    assert not app.connections


async def test_changed_pull_order_starts_a_new_session_and_a_repeated_one_does_not(
    app: ScriptedApp, server: RtmpServer, origin: RtmpServer, quiet: None
) -> None:
    async with (
        publishing(origin, AVC_HEADER, key_frame(1)),
        publishing(origin, AVC_HEADER, key_frame(2), name="cam2"),
        playing(server, name="here") as player,
    ):
        await pull(app, order(origin))
        await player.wait_for(events.VideoReceived, lambda event: event.payload == key_frame(1))
        await pull(app, order(origin))
        await pull(app, order(origin, name="cam2"))
        await player.wait_for(events.VideoReceived, lambda event: event.payload == key_frame(2))
        ends = [connection.of("rtmp.unpublish") for connection in app.connections[1:]]
        assert [len(each) for each in ends] == [1, 0]
