"""The life of a connection and of its sessions."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.layers import channel_layers
from django.utils import timezone

from ingest.consumers.active import ACTIVE
from ingest.models import Attempt, Lease, Session, StatusEvent, Stream
from ingest.services import history_writer, keys, sessions
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests.ingest.control import TOTALS, Connection, flush
from tests.ingest.ticks import until
from tests.production.parts import RedisServer

pytestmark = pytest.mark.usefixtures("process")


@pytest.mark.both_forms
async def test_publish_session_is_recorded_from_connect_to_end(encoder: Connection, key: NewKey) -> None:
    await encoder.status("NetConnection.Connect.Success", stream_id=0)
    answer = await encoder.publish(key.secret)
    assert answer["type"] == "rtmp.publish.accept"
    assert answer["path"] == "live/cam1"
    assert answer["labels"] == {"stream": key.key.stream_id, "key": key.key.pk}
    await encoder.status("NetStream.Publish.Start")
    await encoder.unpublish(answer["session_id"])
    await encoder.disconnect()
    flush()
    session = await Session.objects.aget()
    assert str(session.pk) == answer["session_id"]
    assert (session.kind, session.end_reason) == ("publish", "client_unpublish")
    assert {name: getattr(session, name) for name in sessions.TOTALS} == {n: TOTALS[n] for n in sessions.TOTALS}  # type: ignore[literal-required]
    assert session.summary == {"dropped_frames": 1, "duration_ms": 1500}
    events = [(event.sequence, event.kind, event.code) async for event in StatusEvent.objects.order_by("sequence")]
    assert events == [
        (1, "onstatus", "NetConnection.Connect.Success"),
        (2, "session.started", "publish"),
        (3, "onstatus", "NetStream.Publish.Start"),
        (4, "session.ended", "client_unpublish"),
    ]
    assert (await Lease.objects.aget()).session_id is None
    assert not await Attempt.objects.aexists()


@pytest.mark.parametrize("reason", ["idle_timeout", "node_shutdown"])
async def test_a_connection_that_is_lost_or_given_up_by_the_server_ends_its_sessions(
    encoder: Connection, key: NewKey, reason: str
) -> None:
    await encoder.publish(key.secret)
    if reason == "node_shutdown":
        encoder.app.future.cancel()
        await asyncio.wait({encoder.app.future})
    else:
        await encoder.disconnect(reason)
    flush()
    assert (await Session.objects.aget()).end_reason == reason
    assert not ACTIVE


async def test_two_publishes_on_one_connection_are_recorded_as_two_sessions(
    encoder: Connection, key: NewKey, other_key: NewKey
) -> None:
    first = await encoder.publish(key.secret, stream_id=1)
    second = await encoder.publish(other_key.secret, stream_id=2)
    await encoder.status("NetStream.Publish.Start", stream_id=2)
    await encoder.unpublish(first["session_id"])
    await encoder.disconnect()
    flush()
    ends = {str(session.pk): session.end_reason async for session in Session.objects.all()}
    assert ends == {first["session_id"]: "client_unpublish", second["session_id"]: "tcp_reset"}
    started = await StatusEvent.objects.aget(code="NetStream.Publish.Start")
    assert str(started.session_id) == second["session_id"]


async def test_metadata_is_stored_with_invalid_values_replaced(encoder: Connection, key: NewKey) -> None:
    await encoder.publish(key.secret)
    claimed = {"encoder": "obs\x00output", "framerate": float("nan"), "width": 1280.0, "deep": [[[[["x"]]]]]}
    media = {"video_codec": "avc1", "audio_codec": "mp4a", "width": 1920, "height": 1080, "profile": "High"}
    await encoder.tell({"type": "rtmp.metadata", "stream_id": 1, "metadata": claimed, "media": media})
    await encoder.disconnect()
    flush()
    session = await Session.objects.aget()
    assert (session.video_codec, session.audio_codec, session.width, session.height) == ("avc1", "mp4a", 1920, 1080)
    assert session.summary["media"] == {"profile": "High"}
    assert session.summary["metadata"]["framerate"] is None
    assert session.summary["metadata"]["encoder"] == "obs\ufffdoutput"
    assert session.encoder == "obs\ufffdoutput", "as its flashVer says nothing"


async def test_metadata_changes_are_recorded_up_to_50_per_session(encoder: Connection, key: NewKey) -> None:
    """Up to 50 changes of one session; those of no session count for none."""
    media = {"video_codec": "avc1"}

    async def claim(times: int, stream_id: int = 1) -> None:
        for bitrate in range(times):
            claimed = {"videodatarate": bitrate}
            await encoder.tell({"type": "rtmp.metadata", "stream_id": stream_id, "metadata": claimed, "media": media})

    await claim(60, stream_id=9)
    first = await encoder.publish(key.secret)
    await claim(60)
    await encoder.unpublish(first["session_id"])
    second = await encoder.publish(key.secret)
    await claim(3)
    await encoder.disconnect()
    flush()
    counts = [
        await StatusEvent.objects.filter(session=answer["session_id"], kind="metadata").acount()
        for answer in (first, second)
    ]
    assert counts == [50, 3]


@pytest.mark.parametrize("comes", [True, False])
async def test_a_player_that_switches_has_both_sessions_meanwhile(stream: Stream, comes: bool) -> None:
    player = Connection()
    await player.connect()
    old = await player.play("cam1")
    new = await player.ask(player.play_event("cam1") | {"transition": "switch"})

    async def stop(session_id: str, reason: str) -> None:
        about = {"stream_id": 1, "session_id": session_id, "reason": reason}
        await player.tell({"type": "rtmp.stop", **about, "description": "", "totals": TOTALS})

    await stop(*((old["session_id"], "completed") if comes else (new["session_id"], "idle_timeout")))
    await player.status("NetStream.Pause.Notify")
    await player.disconnect()
    flush()
    reasons = {str(row.id): row.end_reason async for row in Session.objects.all()}
    goes_on = new if comes else old
    assert reasons == {
        old["session_id"]: "completed" if comes else "tcp_reset",
        new["session_id"]: "tcp_reset" if comes else "idle_timeout",
    }
    paused = await StatusEvent.objects.aget(code="NetStream.Pause.Notify")
    assert str(paused.session_id) == goes_on["session_id"], "what is said belongs to what plays"


async def test_an_encoder_may_publish_again_at_once(
    encoder: Connection, process: HistoryWriter, key: NewKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the end of its former session takes to be written."""
    monkeypatch.setattr(history_writer, "GATHER_S", 60)
    first = await encoder.publish(key.secret)
    await encoder.unpublish(first["session_id"])
    second = await encoder.publish(key.secret)
    assert second["type"] == "rtmp.publish.accept"
    assert await Session.objects.filter(ended_at=None).acount() == 2, "the first one's end is not written yet"
    await encoder.disconnect()
    process._closing.set()  # It gathers no more.
    assert await asyncio.to_thread(process.close, 20)
    ends = {str(session.pk): session.end_reason async for session in Session.objects.all()}
    assert ends == {first["session_id"]: "client_unpublish", second["session_id"]: "tcp_reset"}
    lease = await Lease.objects.aget()
    assert (lease.session_id, lease.fencing) == (None, 2)


@pytest.mark.stores
async def test_a_lease_that_could_not_be_renewed_is_not_free_while_its_publisher_is_live(
    encoder: Connection, key: NewKey
) -> None:
    """As after an outage of the database that lasted longer than a lease."""
    first = await encoder.publish(key.secret)
    await Lease.objects.aupdate(expires_at=timezone.now() - timedelta(seconds=1))
    second = Connection(address="192.0.2.8")
    await second.connect()
    other_key = await sync_to_async(keys.create)(stream=key.key.stream)
    assert (await second.publish(other_key.secret))["code"] == "NetStream.Publish.BadName"
    assert str((await Lease.objects.aget()).session_id) == first["session_id"]
    await second.disconnect("rejected")
    flush()
    attempt = await Attempt.objects.aget()
    assert (attempt.reason, attempt.address, attempt.name) == ("busy", "192.0.2.8", "cam1")
    await encoder.disconnect()


# --- Stops ---


@pytest.mark.stores
async def test_a_kick_closes_the_connection_and_says_by_whom(
    encoder: Connection, key: NewKey, django_user_model: Any
) -> None:
    user = await django_user_model.objects.acreate(username="olga")
    answer = await encoder.publish(key.secret)
    assert await sync_to_async(sessions.request_stop)(session_id=answer["session_id"], by=user)
    assert await encoder.answer() == {"type": "rtmp.close", "reason": "kicked"}
    await encoder.unpublish(answer["session_id"], "kicked")
    await encoder.disconnect("kicked")
    flush()
    session = await Session.objects.aget()
    assert (session.end_reason, session.end_description) == ("kicked", "Ended by olga.")
    assert not await sync_to_async(sessions.request_stop)(session_id=answer["session_id"], by=user)


async def test_a_kick_of_one_of_two_stops_that_stream_only(encoder: Connection, key: NewKey, other_key: NewKey) -> None:
    await encoder.publish(key.secret, stream_id=1)
    second = await encoder.publish(other_key.secret, stream_id=2)
    await sync_to_async(sessions.request_stop)(session_id=second["session_id"])
    stop = {"type": "rtmp.stream.stop", "stream_id": 2, "session_id": second["session_id"], "reason": "kicked"}
    assert await encoder.answer() == stop
    await encoder.disconnect()


async def test_kick_of_a_pending_switch_leaves_the_current_playback(stream: Stream) -> None:
    player = Connection()
    await player.connect()
    await player.play("cam1")
    new = await player.ask(player.play_event("cam1") | {"transition": "switch"})
    while not await Session.objects.filter(pk=new["session_id"]).aexists():
        await asyncio.to_thread(flush)
    assert await sync_to_async(sessions.request_stop)(session_id=new["session_id"])
    stop = {"type": "rtmp.stream.stop", "stream_id": 1, "session_id": new["session_id"], "reason": "kicked"}
    assert await player.answer() == stop
    await player.disconnect()


@pytest.fixture
def redis_layer(process: HistoryWriter, settings: Any, tmp_path: Path) -> Iterator[RedisServer]:
    """The channel layer is a Redis server's."""
    with RedisServer(tmp_path) as server:
        layer = {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": [server.url]}}
        settings.CHANNEL_LAYERS = {"default": layer}
        channel_layers.backends.clear()
        yield server
    channel_layers.backends.clear()


@pytest.mark.stores
async def test_a_connection_outlives_its_channel_layer(
    redis_layer: RedisServer, key: NewKey, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = Connection()
    await encoder.connect()
    await asyncio.to_thread(redis_layer.stop)
    await until(lambda: "channel layer" in caplog.text)
    answer = await encoder.publish(key.secret)
    assert answer["type"] == "rtmp.publish.accept"
    await asyncio.to_thread(redis_layer.start)
    async with asyncio.timeout(10):
        while encoder.app.output_queue.empty():
            await sync_to_async(sessions.request_stop)(session_id=answer["session_id"])
            await asyncio.sleep(0.1)
    assert await encoder.answer() == {"type": "rtmp.close", "reason": "kicked"}
    await encoder.disconnect("kicked")
    flush()
    assert (await Session.objects.aget()).end_reason == "kicked"
