"""Several streams of one connection, as encoders of several bitrates publish them, with the database behind."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ingest.models import Application, Lease, Session, StatusEvent, Stream
from ingest.rtmp import events
from ingest.services import keys
from ingest.services.history_writer import HistoryWriter
from tests.ingest.clients import watch_live
from tests.ingest.control import listening
from tests.ingest.ticks import until
from tests.rtmp_client import Refused, RtmpClient
from tests.server.media import AVC_HEADER, inter_frame, keep_sending, key_frame

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = ("low", "mid", "high")


@pytest.fixture
def secrets(process: HistoryWriter, application: Application) -> dict[str, str]:
    """{public name: stream key}"""
    streams = [Stream.objects.create(application=application, name=name) for name in NAMES]
    return {stream.name: keys.create(stream=stream).secret for stream in streams}


async def published(encoder: RtmpClient, secrets: dict[str, str]) -> dict[str, int]:
    """{public name: message stream id}, in the order of Flash Media Live Encoder."""
    await encoder.connect("live")
    for secret in secrets.values():
        encoder.protocol.call("releaseStream", secret)
        encoder.protocol.call("FCPublish", secret)
    streams = {name: await encoder.create_stream() for name in secrets}
    for name, stream_id in streams.items():
        await encoder.publish(secrets[name], stream_id=stream_id)
    return streams


def picture(name: str, number: int) -> bytes:
    make = inter_frame if number else key_frame
    return make(10 * NAMES.index(name) + number, 2000)


async def send(encoder: RtmpClient, streams: dict[str, int], number: int) -> None:
    """A picture of each, in chunks that are interleaved: all share one chunk stream id for video."""
    for name, stream_id in streams.items():
        if number == 0:
            encoder.protocol.send_video(stream_id, 0, AVC_HEADER)
        encoder.protocol.send_video(stream_id, 40 * number, picture(name, number))
    await encoder.flush()


async def open_sessions() -> set[str]:
    return {name async for name in Session.objects.filter(ended_at=None, kind="publish").values_list("name", flat=True)}


async def held() -> set[str]:
    leases = Lease.objects.filter(session__isnull=False).values_list("stream__name", flat=True)
    return {name async for name in leases}


async def test_three_streams_of_one_connection_end_one_by_one(secrets: dict[str, str]) -> None:
    """Each in its own way; the others go on, and each ends once."""
    async with listening() as port, RtmpClient(port=port) as encoder:
        players = {name: RtmpClient(port=port) for name in NAMES}
        for name, player in players.items():
            await player.open()
            await watch_live(player, name)
        streams = await published(encoder, secrets)
        ends: dict[str, Callable[[str], Awaitable[None]]] = {
            "mid": lambda name: notify(encoder, "FCUnpublish", 0, secrets[name]),
            "low": lambda name: notify(encoder, "deleteStream", 0, float(streams[name])),
            "high": lambda name: notify(encoder, "closeStream", streams[name]),
        }
        number = 0
        live = dict(streams)
        for name, end in ends.items():
            for _ in range(3):
                await send(encoder, live, number)
                number += 1
            for other in live:
                await players[other].wait_count(events.VideoReceived, number + 1)
            assert await open_sessions() == await held() == set(live)
            await end(name)
            stream_id = live.pop(name)
            await gone(encoder, name, stream_id)
        assert not encoder.closed
        for name, player in players.items():
            got = [event.payload for event in player.of(events.VideoReceived)][1:]
            assert got == [picture(name, number) for number in range(len(got))]
            await player.close()
    ended = Session.objects.filter(kind="publish").order_by("ended_at")
    assert [(session.name, session.end_reason) async for session in ended] == [
        (name, "client_unpublish") for name in ends
    ]
    assert [session.video_frames async for session in ended] == [3, 6, 9]
    assert await StatusEvent.objects.filter(kind="session.ended", session__kind="publish").acount() == 3


async def gone(encoder: RtmpClient, name: str, stream_id: int) -> None:
    """The encoder was told that it ended, and its name is free."""
    ended = (stream_id, "NetStream.Unpublish.Success")
    await encoder.wait_for(events.StatusReceived, lambda event: (event.stream_id, event.code) == ended)
    await until(lambda: not Lease.objects.filter(stream__name=name, session__isnull=False).exists())


async def notify(encoder: RtmpClient, procedure: str, stream_id: int, *arguments: object) -> None:
    encoder.protocol.notify(procedure, *arguments, stream_id=stream_id)
    await encoder.flush()


@pytest.mark.stores
async def test_all_end_commands_at_once_end_a_session_only_once(secrets: dict[str, str]) -> None:
    """And the message stream can be used again, as long as it isn't deleted."""
    secret = secrets["low"]
    async with listening() as port, RtmpClient(port=port) as encoder:
        await encoder.connect("live")
        stream_id = await encoder.publish(secret)
        for procedure in ("closeStream", "FCUnpublish"):
            encoder.protocol.notify(procedure, stream_id=stream_id)
        await encoder.publish(secret, stream_id=stream_id)
        encoder.protocol.call("FCUnpublish", secret)
        encoder.protocol.notify("closeStream", stream_id=stream_id)
        encoder.protocol.notify("deleteStream", secret, stream_id=0)
        encoder.protocol.notify("deleteStream", float(stream_id), stream_id=0)
        await encoder.flush()
        await until(Session.objects.filter(kind="publish", end_reason="client_unpublish")[1:2].exists)
        assert await encoder.create_stream() == stream_id + 1, "it goes on"
    codes = [event.code for event in encoder.of(events.StatusReceived)]
    assert codes == ["NetStream.Publish.Start", "NetStream.Unpublish.Success"] * 2
    assert await StatusEvent.objects.filter(kind="session.ended").acount() == 2
    assert await held() == set()


@pytest.mark.usefixtures("short_silence")
async def test_slow_publish_request_holds_up_no_other_stream_of_its_connection(secrets: dict[str, str]) -> None:
    """A second publisher with the key of a live stream is refused after a while. Until then, the other stream on its
    connection goes on.
    """
    async with listening() as port, RtmpClient(port=port) as encoder, RtmpClient(port=port) as other:
        await other.connect("live")
        held_up = asyncio.create_task(keep_sending(other, await other.publish(secrets["high"])))
        async with RtmpClient(port=port) as player:
            await watch_live(player, "low")
            await encoder.connect("live")
            stream_id = await encoder.publish(secrets["low"])
            second = await encoder.create_stream()
            encoder.protocol.publish(second, secrets["high"])
            await encoder.flush()
            before = 0
            while not any(status.stream_id == second for status in encoder.of(events.StatusReceived)):
                await encoder.send_video(stream_id, 100 * before, picture("low", 0))
                await player.wait_count(events.VideoReceived, before + 1)
                if before < 3:
                    await encoder.create_stream()
                before += 1
                await asyncio.sleep(0.05)
            refused = encoder.of(events.StatusReceived)[-1]
            assert (refused.stream_id, refused.level) == (second, "error")
            assert before > 8, "pictures that came while it waited"
            assert not encoder.closed
        held_up.cancel()


async def test_a_stream_that_publishes_can_not_publish_another_name(secrets: dict[str, str]) -> None:
    """It is refused, and what it publishes goes on: so does what its neighbour publishes."""
    async with listening() as port, RtmpClient(port=port) as encoder, RtmpClient(port=port) as player:
        await watch_live(player, "low")
        streams = await published(encoder, {name: secrets[name] for name in ("low", "mid")})
        for name in ("high", "low"):
            with pytest.raises(Refused, match="already publishes"):
                await encoder.publish(secrets[name], stream_id=streams["low"])
        await send(encoder, streams, 0)
        await player.wait_count(events.VideoReceived, 2)
        assert await open_sessions() == {"low", "mid"}
        await asyncio.gather(*(encoder.delete_stream(stream_id) for stream_id in streams.values()))
        await until(lambda: not Session.objects.filter(kind="publish", ended_at=None).exists())
