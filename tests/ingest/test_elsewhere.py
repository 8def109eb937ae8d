"""Players on a node that does not have the stream, while another node does: told so, and where."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from ingest.consumers import upkeep
from ingest.models import Application, Attempt, Lease, Node, Recording, Session, Stream
from ingest.rtmp import events
from ingest.services import keys, media_urls, play_tokens, playback
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from ingest.services.refusals import Refused as NotHere
from tests.ingest.control import Connection
from tests.ingest.listener import listening
from tests.ingest.server.media import AVC_HEADER, keep_sending, key_frame
from tests.ingest.ticks import until
from tests.rtmp_client import Refused, RtmpClient

pytestmark = pytest.mark.django_db(transaction=True)

HERE, THERE = "node-a", "node-b"


def publish_there(stream: Stream, **node: str) -> Lease:
    other, now = Node.objects.create(name=THERE, **node), timezone.now()
    session = Session.objects.create(kind="publish", app="live", name=stream.name, stream=stream, node=other)
    return Lease.objects.create(stream=stream, session=session, node=other, expires_at=now + timedelta(seconds=10))


def told(*paths: str, node: str = HERE) -> dict[str, str]:
    return playback.told_elsewhere(paths=set(paths), node=node, now=timezone.now())


def test_what_they_are_told(stream: Stream) -> None:
    Stream.objects.create(application=stream.application, name="cam2")
    lease = publish_there(stream, url="rtmp://b.example.net")
    words = "The stream is published on another node of this server. Play it from rtmp://b.example.net (node-b)."
    assert told("live/cam1", "live/cam2", "other/cam1", "live/never") == {"live/cam1": words}
    assert told("live/cam1", node=THERE) == {}
    other = Node.objects.create(name=HERE, url="rtmp://b.example.net", state="up")
    assert told("live/cam1")["live/cam1"].endswith("Play it from node-b."), "the URL leads here as well"
    Node.objects.filter(pk=other.pk).update(state="down")
    assert told("live/cam1") == {"live/cam1": words}, "it has been replaced"
    Node.objects.update(url="")
    assert told("live/cam1")["live/cam1"].endswith("Play it from node-b.")
    lease.expires_at = timezone.now()
    lease.save()
    assert told("live/cam1") == {}, "its node is gone"


def test_however_many_are_waited_for(stream: Stream) -> None:
    publish_there(stream)
    others = [f"live/other{number}" for number in range(playback.ASKED_AT_ONCE + 1)]
    assert set(told("live/cam1", *others)) == {"live/cam1"}


def test_a_recording_is_played_anywhere_and_a_download_is_one(stream: Stream, settings: Any) -> None:
    """But who asks for what is live, or else the recording, asks for what is live elsewhere."""
    publish_there(stream)
    row = Recording.objects.create(
        application=stream.application, stream=stream, name="cam1", file="cam1.flv", state="complete"
    )
    now = timezone.now()
    check: dict[str, Any] = {"app": "live", "name": "cam1", "now": now}
    with pytest.raises(NotHere) as refused:
        playback.refuse_elsewhere(found=playback.check(**check, credential=""), node=HERE, now=now)
    assert (refused.value.reason, refused.value.stream) == ("elsewhere", stream.pk)
    token = play_tokens.issue_download(recording=row.pk)
    download = playback.check(**check, credential=token, wanted="recorded", by_http=True)
    playback.refuse_elsewhere(found=download, node=HERE, now=now)


async def test_a_recording_is_asked_for_by_its_start(process: HistoryWriter, stream: Stream) -> None:
    await sync_to_async(publish_there)(stream)
    await Application.objects.aupdate(play_recordings="as_live")
    await Recording.objects.acreate(
        application=stream.application, stream=stream, name="cam1", file="cam1.flv", state="complete"
    )
    player = Connection(node=HERE)
    await player.connect()
    answers = [await player.ask(player.play_event("cam1") | {"start": start}) for start in (-1.0, -2.0, 0.0)]
    assert [answer["type"] for answer in answers] == ["rtmp.play.reject", "rtmp.play.reject", "rtmp.play.accept"]
    assert answers[0]["code"] == "NetStream.Play.StreamNotFound"
    await player.disconnect()


@pytest.mark.parametrize(
    ("node_url", "host", "plain", "tls", "found"),
    [
        ("rtmp://b.example.net:1940", "live.example.net", [("0.0.0.0", 1935)], [], "rtmp://b.example.net:1940"),
        ("", "live.example.net", [("0.0.0.0", 1936)], [], "rtmp://live.example.net:1936"),
        ("", "", [("192.0.2.7", 1935)], [], "rtmp://192.0.2.7"),
        ("", "", [("0.0.0.0", 1935)], [("::", 1936)], ""),
        ("", "live.example.net", [], [("0.0.0.0", 443)], "rtmps://live.example.net"),
    ],
)
def test_by_which_address(
    settings: Any, node_url: str, host: str, plain: list[tuple[str, int]], tls: list[tuple[str, int]], found: str
) -> None:
    settings.NODE_URL, settings.RTMP_HOST = node_url, host
    assert media_urls.node_url(plain, tls) == found


# --- Two nodes ---


async def publish(encoder: RtmpClient, key: NewKey) -> int:
    await encoder.connect("live")
    stream_id = await encoder.publish(key.secret)
    await encoder.send_video(stream_id, 0, AVC_HEADER)
    await encoder.send_video(stream_id, 0, key_frame(0))
    return stream_id


async def test_on_the_wrong_node_they_are_refused_or_sent_away(process: HistoryWriter, key: NewKey) -> None:
    async with (
        listening() as here,
        listening(THERE) as there,
        RtmpClient(port=there) as encoder,
        RtmpClient(port=here) as early,
        RtmpClient(port=here) as late,
        RtmpClient(port=there) as right,
    ):
        await early.connect("live")
        await early.play("cam1")
        await until(Node.objects.filter(name=THERE).exclude(url="").exists)
        await publish(encoder, key)
        words = f"Play it from rtmp://127.0.0.1:{there} (node-b)."
        status = await early.wait_for(events.StatusReceived, lambda status: status.level == "error", timeout_s=10)
        assert status.code == "NetStream.Play.StreamNotFound"
        assert status.description.endswith(words)
        await early.wait_closed()
        await late.connect("live")
        with pytest.raises(Refused, match="StreamNotFound") as refused:
            await late.play("cam1")
        assert refused.value.description.endswith(words)
        await right.connect("live")
        await right.play("cam1")
        await right.wait_count(events.VideoReceived, 2)
    await until(Session.objects.filter(kind="play", node__name=HERE, end_reason="elsewhere").exists)
    assert await Attempt.objects.filter(reason="elsewhere", node=HERE).acount() == 1


async def test_players_are_sent_after_a_publisher_that_moved(
    process: HistoryWriter, stream: Stream, key: NewKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of its former node, which had media until then."""
    monkeypatch.setattr(upkeep, "SILENT_MS", 60_000)  # The machine may be slow, the encoder is live.
    await Stream.objects.aupdate(takeover="replace")
    second = await sync_to_async(keys.create)(stream=stream)
    async with (
        listening() as here,
        listening(THERE) as there,
        RtmpClient(port=here) as encoder,
        RtmpClient(port=here) as player,
        RtmpClient(port=there) as spare,
    ):
        sending = asyncio.create_task(keep_sending(encoder, await publish(encoder, key)))
        await player.connect("live")
        await player.play("cam1")
        await player.wait_count(events.VideoReceived, 2)
        await publish(spare, second)
        status = await player.wait_for(events.StatusReceived, lambda status: status.level == "error", timeout_s=10)
        assert status.description.endswith(f"Play it from rtmp://127.0.0.1:{there} (node-b).")
        await player.wait_closed()
        sending.cancel()
