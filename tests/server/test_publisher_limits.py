"""How long a publisher may wait, pause and be silent, and how much it may send."""

import asyncio
import contextlib
import itertools
from dataclasses import replace

import pytest

from ingest.live import LimitSettings, LiveSettings
from ingest.live.health import CHECKS
from ingest.rtmp import events
from ingest.server import RtmpServer
from ingest.server import publishing as publishing_module
from ingest.server.connection import Connection
from ingest.server.publishing import Publishing
from tests.rtmp_client import RtmpClient
from tests.server.app import ScriptedApp
from tests.server.clients import connected, playing, publishing
from tests.server.conftest import Serve
from tests.server.media import AVC_HEADER, inter_frame, key_frame
from tests.server.waiting import becomes, set_deadlines


def may_be_silent(server: RtmpServer, limit_s: float) -> None:
    """Set the silence that the only publisher may keep, from now on."""
    (session,) = (found for found in server.sessions.values() if isinstance(found, Publishing))
    session.idle_timeout_s = limit_s


async def pause(client: RtmpClient, stream_id: int, paused: bool) -> str:
    """The code of the status that answers it."""
    after = len(client.received)
    client.protocol.send_command(stream_id, "pause", 0, None, paused, 0.0)
    await client.flush()
    status = await client.wait_for(events.StatusReceived, after=after)
    assert status.stream_id == stream_id
    return status.code


async def until_it_ends(app: ScriptedApp, client: RtmpClient, stream_id: int, *turns: tuple[bool, ...]) -> None:
    """Each 50 ms the pauses of the next turn are said."""
    for said in itertools.cycle(turns):
        if app.connections[-1].of("rtmp.unpublish"):
            return
        for paused in said:
            client.protocol.send_command(stream_id, "pause", 0, None, paused, 0.0)
        with contextlib.suppress(OSError):  # It has ended meanwhile.
            await client.flush()
        await asyncio.sleep(0.05)


async def state(app: ScriptedApp) -> dict[str, object]:
    """Of the one stream, as the next tick tells it."""
    (stream,) = (await app.next_tick())["streams"]
    found: dict[str, object] = stream
    return found


async def test_players_wait_during_a_publishers_pause_and_get_what_follows(
    app: ScriptedApp, server: RtmpServer
) -> None:
    async with publishing(server) as (publisher, stream_id), playing(server) as player:
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await publisher.send_video(stream_id, 1000, key_frame(1))
        assert await pause(publisher, stream_id, True) == "NetStream.Pause.Notify"
        assert await pause(publisher, stream_id, True) == "NetStream.Pause.Notify"
        may_be_silent(server, 0.3)
        await asyncio.sleep(0.4)  # Longer than it may be silent, and it is not ended.
        paused = await state(app)
        assert (paused["state"], paused["issues"]) == ("waiting", [])
        (sample,) = app.ticks[-1]["samples"]
        assert sample.idle_ms == 0, "so nobody may take its stream over as silent"
        may_be_silent(server, 60)
        assert await pause(publisher, stream_id, False) == "NetStream.Unpause.Notify"
        await publisher.send_video(stream_id, 1040, inter_frame(2))
        await player.wait_count(events.VideoReceived, 3)
        assert [event.timestamp for event in player.of(events.VideoReceived)] == [0, 1000, 1040]
        assert not player.closed
        may_be_silent(server, 0.3)
        await publisher.wait_closed()
    assert (await app.event("rtmp.unpublish", 0))["description"] == "No media for 0.3 s."
    codes = [event["code"] for event in app.connections[0].of("rtmp.status")]
    assert codes[1:5] == ["NetStream.Publish.Start", *["NetStream.Pause.Notify"] * 2, "NetStream.Unpause.Notify"]


async def test_paused_publisher_that_sends_again_becomes_live(
    app: ScriptedApp, server: RtmpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    late_s = publishing_module.LATE_MEDIA_S
    monkeypatch.setattr(publishing_module, "LATE_MEDIA_S", 60.0)
    async with publishing(server, key_frame(1)) as (publisher, stream_id):
        await pause(publisher, stream_id, True)
        await publisher.send_video(stream_id, 40, inter_frame(2))
        assert (await state(app))["state"] == "waiting", "that was under way"
        monkeypatch.setattr(publishing_module, "LATE_MEDIA_S", late_s)
        while (await state(app))["state"] == "waiting":
            await publisher.send_video(stream_id, 80, inter_frame(2))
        assert (await state(app))["state"] == "live"


async def test_publisher_paused_over_the_pause_limit_is_ended(app: ScriptedApp, serve: Serve) -> None:
    """And one that is said again, or begins again without media between, is the same."""
    server = await serve(pause_s=0.4)
    async with publishing(server, key_frame(1)) as (publisher, stream_id):
        await until_it_ends(app, publisher, stream_id, (True, False, True))
    event = await app.event("rtmp.unpublish")
    assert (event["reason"], event["description"]) == ("idle_timeout", "Paused for 0.4 s.")


@pytest.mark.parametrize("has_media", [True, False])
async def test_pauses_in_turns_defeat_no_timeout(app: ScriptedApp, server: RtmpServer, has_media: bool) -> None:
    """And one before the first media is none."""
    app.limits |= {"idle_timeout_s": 0.4} if has_media else {"first_media_timeout_s": 0.3}
    async with publishing(server) as (publisher, stream_id):
        if has_media:
            await publisher.send_video(stream_id, 0, key_frame(1))
        await until_it_ends(app, publisher, stream_id, (True,), (False,))
    event = await app.event("rtmp.unpublish")
    why = "No media for 0.4 s." if has_media else "No first media for 0.3 s."
    assert (event["reason"], event["description"]) == ("idle_timeout", why)


async def test_a_dead_peer_is_found_in_its_pause(app: ScriptedApp, serve: Serve) -> None:
    server = await serve(ping_after_s=0.2, ping_answer_s=0.2)
    async with publishing(server) as (publisher, stream_id):
        await pause(publisher, stream_id, True)
        publisher.pause_reading()
        assert "ping" in (await app.event("rtmp.unpublish"))["description"]


async def test_pause_on_an_unused_message_stream_keeps_the_connection_open(port: int) -> None:
    async with connected(port) as client:
        stream_id = await client.create_stream()
        client.protocol.send_command(stream_id, "pause", 7, None, True, 0.0)
        await client.flush()
        await client.create_stream()
        assert not client.closed


HOUR = 3600.0


async def test_connected_encoder_that_answers_pings_may_wait_to_publish(app: ScriptedApp, serve: Serve) -> None:
    server = await serve(publish_or_play_s=HOUR, ping_after_s=0.1, ping_answer_s=HOUR)
    async with connected(server) as encoder:
        set_deadlines(server, publish_or_play_s=0.2)
        await asyncio.sleep(0.8)  # Longer than it has to publish, and it is not ended.
        assert not encoder.closed
        stream_id = await encoder.publish("cam1")
        await encoder.send_video(stream_id, 0, key_frame(1))
        await encoder.create_stream()
        assert not app.connections[0].of("rtmp.unpublish")


async def test_connected_encoder_has_its_time_to_answer_a_ping(serve: Serve) -> None:
    server = await serve(publish_or_play_s=HOUR, ping_after_s=0.1, ping_answer_s=HOUR)
    async with connected(server) as encoder:
        encoder.pause_reading()
        (connection,) = server.connections
        assert isinstance(connection, Connection)
        await becomes(lambda: connection.ping_sent is not None)
        await asyncio.sleep(0.1)  # Several sweeps, which leave it alone.
        assert connection.ending is None


async def test_connected_encoder_that_answers_no_ping_is_ended(app: ScriptedApp, serve: Serve) -> None:
    server = await serve(ping_after_s=0.1, ping_answer_s=HOUR)
    async with connected(server) as encoder:
        encoder.pause_reading()
        set_deadlines(server, ping_answer_s=0.2)
        ended = await app.event("rtmp.disconnect")
    assert (ended["reason"], "of a ping" in ended["description"]) == ("idle_timeout", True)


@pytest.mark.parametrize(("waiting_s", "least_s"), [(0.4, 0.4), (0.0, 0.2)])
@pytest.mark.parametrize("published", [False, True], ids=["from its connect", "from its last session"])
async def test_connection_without_publish_or_play_is_ended_after_the_limit(
    app: ScriptedApp, server: RtmpServer, published: bool, waiting_s: float, least_s: float
) -> None:
    async with connected(server) as encoder:
        if published:
            await encoder.delete_stream(await encoder.publish("cam1"))
            await app.event("rtmp.unpublish")
        set_deadlines(server, publish_or_play_s=0.2, waiting_s=waiting_s)
        await encoder.wait_closed()
    ended = await app.event("rtmp.disconnect")
    assert ended == {
        "type": "rtmp.disconnect",
        "reason": "idle_timeout",
        "description": f"No publish or play within {least_s:g} s.",
    }


async def test_client_that_only_shook_hands_is_ended_after_the_short_limit(app: ScriptedApp, serve: Serve) -> None:
    """Who has only shaken hands."""
    server = await serve(publish_or_play_s=0.2)
    async with RtmpClient(port=server.addresses[0][1]) as stranger:
        await stranger.wait_closed()
    assert (await app.event("rtmp.disconnect"))["reason"] == "idle_timeout"


LIMIT_KBPS = 400
QUICK = LiveSettings(
    checks=tuple(replace(check, hold_s=0.2) for check in CHECKS),
    warm_up_s=0,
    limit=LimitSettings(window_s=10, close_s=0.5),
)


async def send(client: RtmpClient, stream_id: int, kbps: int) -> None:
    """One frame each 50 ms, until it is cancelled or the server closes."""
    frame = key_frame(1, size=kbps * 125 // 20)
    timestamp = 0
    while not client.closed:
        await client.send_video(stream_id, timestamp, frame)
        timestamp += 50
        await asyncio.sleep(0.05)


async def test_bitrate_over_the_limit_ends_or_warns_by_the_policy_of_the_key(app: ScriptedApp, serve: Serve) -> None:
    server: RtmpServer = await serve(config={"live": QUICK})
    port = server.addresses[0][1]
    app.limits |= {"max_kbps": LIMIT_KBPS, "expect_audio": False}
    async with RtmpClient(port=port) as warned, RtmpClient(port=port) as ended:
        sending = []
        for client, name, policy in ((warned, "warned", "warn"), (ended, "ended", "close")):
            app.limits = app.limits | {"over_limit": policy}
            await client.connect("live")
            stream_id = await client.publish(name)
            await client.send_video(stream_id, 0, AVC_HEADER)
            sending.append(asyncio.create_task(send(client, stream_id, 2 * LIMIT_KBPS)))
        try:
            await ended.wait_closed(timeout_s=12)
            end = await app.event("rtmp.unpublish", connection=1)
            tick = app.ticks[-1]
        finally:
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)
        assert not warned.closed
    assert end["reason"] == "over_limit"
    assert "kbit/s; the stream key's limit is 400 kbit/s." in end["description"]
    status = ended.of(events.StatusReceived)[-1]
    assert (status.level, status.code) == ("error", "NetStream.Publish.Rejected")
    issues = next(stream["issues"] for stream in tick["streams"] if stream["name"] == "warned")
    assert ("bitrate_high", "bad") in [(issue["check"], issue["level"]) for issue in issues], issues
