"""A publisher's `pause`: its name and its players wait for it, and nobody finds it silent."""

import asyncio
import contextlib
import itertools

import pytest

from ingest.rtmp import events
from ingest.server import RtmpServer, publishing
from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.conftest import Serve
from tests.ingest.server.deadlines import may_be_silent
from tests.ingest.server.media import AVC_HEADER, inter_frame, key_frame
from tests.rtmp_client import RtmpClient


async def pause(client: RtmpClient, stream_id: int, paused: bool) -> str:
    """The code of the status that answers it."""
    after = len(client.received)
    client.protocol.send_command(stream_id, "pause", 0, None, paused, 0.0)
    await client.flush()
    status = await client.wait_for(events.StatusReceived, after=after)
    assert status.stream_id == stream_id
    return status.code


async def until_it_ends(app: ScriptedApplication, client: RtmpClient, stream_id: int, *turns: tuple[bool, ...]) -> None:
    """Each 50 ms the pauses of the next turn are said."""
    for said in itertools.cycle(turns):
        if app.connections[-1].of("rtmp.unpublish"):
            return
        for paused in said:
            client.protocol.send_command(stream_id, "pause", 0, None, paused, 0.0)
        with contextlib.suppress(OSError):  # It has ended meanwhile.
            await client.flush()
        await asyncio.sleep(0.05)


async def state(app: ScriptedApplication) -> dict[str, object]:
    """Of the one stream, as the next tick tells it."""
    before = len(app.node.of("node.tick"))
    await app.wait_until(lambda: len(app.node.of("node.tick")) > before)
    (stream,) = app.node.of("node.tick")[-1]["streams"]
    found: dict[str, object] = stream
    return found


async def test_players_wait_while_it_lasts_and_get_what_follows(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve()
    port = server.addresses[0][1]
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as player:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        await player.connect("live")
        await player.play("cam1")
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await publisher.send_video(stream_id, 1000, key_frame(1))
        assert await pause(publisher, stream_id, True) == "NetStream.Pause.Notify"
        assert await pause(publisher, stream_id, True) == "NetStream.Pause.Notify"
        may_be_silent(server, 0.3)
        await asyncio.sleep(0.4)
        paused = await state(app)
        assert (paused["state"], paused["issues"]) == ("waiting", [])
        (sample,) = app.node.of("node.tick")[-1]["samples"]
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


async def test_one_that_sends_again_without_a_word_is_live(
    app: ScriptedApplication, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    late_s = publishing.LATE_MEDIA_S
    monkeypatch.setattr(publishing, "LATE_MEDIA_S", 60.0)
    server = await serve()
    async with RtmpClient(port=server.addresses[0][1]) as publisher:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        await publisher.send_video(stream_id, 0, key_frame(1))
        await pause(publisher, stream_id, True)
        await publisher.send_video(stream_id, 40, inter_frame(2))
        assert (await state(app))["state"] == "waiting", "that was under way"
        monkeypatch.setattr(publishing, "LATE_MEDIA_S", late_s)
        while (await state(app))["state"] == "waiting":
            await publisher.send_video(stream_id, 80, inter_frame(2))
        assert (await state(app))["state"] == "live"


async def test_a_pause_ends_at_last(app: ScriptedApplication, serve: Serve) -> None:
    """And one that is said again, or begins again without media between, is the same."""
    server = await serve(pause_s=0.4)
    async with RtmpClient(port=server.addresses[0][1]) as publisher:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        await publisher.send_video(stream_id, 0, key_frame(1))
        await until_it_ends(app, publisher, stream_id, (True, False, True))
    event = await app.event("rtmp.unpublish")
    assert (event["reason"], event["description"]) == ("idle_timeout", "Paused for 0.4 s.")


@pytest.mark.parametrize("has_media", [True, False])
async def test_pauses_in_turns_defeat_no_timeout(app: ScriptedApplication, serve: Serve, has_media: bool) -> None:
    """And one before the first media is none."""
    app.limits |= {"idle_timeout_s": 0.4} if has_media else {"first_media_timeout_s": 0.3}
    server = await serve()
    async with RtmpClient(port=server.addresses[0][1]) as publisher:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        if has_media:
            await publisher.send_video(stream_id, 0, key_frame(1))
        await until_it_ends(app, publisher, stream_id, (True,), (False,))
    event = await app.event("rtmp.unpublish")
    why = "No media for 0.4 s." if has_media else "No first media for 0.3 s."
    assert (event["reason"], event["description"]) == ("idle_timeout", why)


async def test_a_dead_peer_is_found_in_its_pause(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve(ping_after_s=0.2, ping_answer_s=0.2)
    async with RtmpClient(port=server.addresses[0][1]) as publisher:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        await pause(publisher, stream_id, True)
        publisher.pause_reading()
        assert "ping" in (await app.event("rtmp.unpublish"))["description"]


async def test_what_neither_publishes_nor_plays_has_nothing_to_pause(server: RtmpServer, port: int) -> None:
    async with RtmpClient(port=port) as client:
        await client.connect("live")
        stream_id = await client.create_stream()
        client.protocol.send_command(stream_id, "pause", 7, None, True, 0.0)
        await client.flush()
        await client.create_stream()
        assert not client.closed
