"""An encoder that connects, and publishes when somebody presses Start: it may wait for that, but not for ever."""

import asyncio

import pytest

from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.conftest import Serve
from tests.ingest.server.deadlines import set_deadlines
from tests.ingest.server.media import key_frame
from tests.rtmp_client import RtmpClient

HOUR = 3600.0


async def test_as_long_as_it_answers_pings(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve(publish_or_play_s=HOUR, ping_after_s=0.1, ping_answer_s=HOUR)
    async with RtmpClient(port=server.addresses[0][1]) as encoder:
        await encoder.connect("live")
        set_deadlines(server, publish_or_play_s=0.2)
        await asyncio.sleep(0.8)
        assert not encoder.closed
        stream_id = await encoder.publish("cam1")
        await encoder.send_video(stream_id, 0, key_frame(1))
        await encoder.create_stream()
        assert not app.connections[0].of("rtmp.unpublish")


async def test_no_longer_than_it_answers_pings(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve(ping_after_s=0.1, ping_answer_s=HOUR)
    async with RtmpClient(port=server.addresses[0][1]) as encoder:
        await encoder.connect("live")
        encoder.pause_reading()
        set_deadlines(server, ping_answer_s=0.2)
        ended = await app.event("rtmp.disconnect")
    assert (ended["reason"], "of a ping" in ended["description"]) == ("idle_timeout", True)


@pytest.mark.parametrize(("waiting_s", "least_s"), [(0.4, 0.4), (0.0, 0.2)])
@pytest.mark.parametrize("published", [False, True], ids=["from its connect", "from its last session"])
async def test_not_for_ever(
    app: ScriptedApplication, serve: Serve, published: bool, waiting_s: float, least_s: float
) -> None:
    server = await serve()
    async with RtmpClient(port=server.addresses[0][1]) as encoder:
        await encoder.connect("live")
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


async def test_a_stranger_has_no_such_time(app: ScriptedApplication, serve: Serve) -> None:
    """Who has only shaken hands."""
    server = await serve(publish_or_play_s=0.2)
    async with RtmpClient(port=server.addresses[0][1]) as stranger:
        await stranger.wait_closed()
    assert (await app.event("rtmp.disconnect"))["reason"] == "idle_timeout"
