"""Test-only keys over real connections: what they publish is judged, beside a stream that goes on as it was."""

import asyncio
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from ingest.live_store import get_livestore
from ingest.models import Application, Attempt, Lease, Recording, Session, StatusEvent, Stream, names
from ingest.rtmp import events
from ingest.services import keys
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests.ingest.listener import listening
from tests.ingest.server.media import AVC_HEADER, keep_sending, key_frame
from tests.ingest.ticks import until
from tests.rtmp_client import Refused, RtmpClient

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def trial(stream: Stream) -> NewKey:
    return await sync_to_async(keys.create)(stream=stream, label="trial", test_only=True)


async def publish(encoder: RtmpClient, secret: str) -> int:
    await encoder.connect("live")
    stream_id = await encoder.publish(secret)
    await encoder.send_video(stream_id, 0, AVC_HEADER)
    await encoder.send_video(stream_id, 0, key_frame(0))
    return stream_id


async def test_players_see_only_the_stream_while_a_trial_is_live(
    process: HistoryWriter, key: NewKey, trial: NewKey, stream: Stream
) -> None:
    store = get_livestore()
    async with listening() as port, RtmpClient(port=port) as tester, RtmpClient(port=port) as player:
        sending = asyncio.create_task(keep_sending(tester, await publish(tester, trial.secret)))
        await until(lambda: any(each["state"] == "live" for each in store.read().trials))
        assert store.read().streams == []  # The stream itself is not on air.
        assert not await Lease.objects.filter(stream=stream).aexists()
        await player.connect("live")
        await player.play(stream.name)
        async with RtmpClient(port=port) as encoder:  # Not refused, though a trial is live.
            await publish(encoder, key.secret)
            await player.wait_count(events.VideoReceived, 2)
            await until(lambda: any(each["state"] == "live" for each in store.read().streams))
            assert [each["name"] for each in store.read().streams] == [stream.name]
            judged = store.read().trials[0]
            assert judged["name"] == names.test_live_name(stream.name, trial.key.pk)
            assert judged["players"] == 0
        with pytest.raises(Refused):
            await player.play(judged["name"])
        assert len([event for event in player.received if isinstance(event, events.VideoReceived)]) == 2
        sending.cancel()


@pytest.mark.both_forms
async def test_a_newer_trial_of_a_key_takes_the_place_of_the_older_one(process: HistoryWriter, trial: NewKey) -> None:
    async with listening() as port, RtmpClient(port=port) as older, RtmpClient(port=port) as newer:
        await publish(older, trial.secret)
        await publish(newer, trial.secret)
        await older.wait_closed(timeout_s=5)
        ended = Session.objects.filter(is_test=True, end_reason="replaced")
        await until(ended.exists)
        assert await Session.objects.filter(is_test=True, ended_at=None).acount() == 1


async def test_a_trial_ends_by_itself_and_rests(
    process: HistoryWriter, trial: NewKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "TEST_MOST", timedelta(seconds=1))
    async with listening() as port:
        async with RtmpClient(port=port) as tester:
            await publish(tester, trial.secret)
            await tester.wait_closed(timeout_s=5)
        await until(Session.objects.filter(end_reason="test_over").exists)
        async with RtmpClient(port=port) as tester:
            await tester.connect("live")
            with pytest.raises(Refused, match="The test has ended"):
                await tester.publish(trial.secret)
        await until(Attempt.objects.filter(reason="test_over").exists)
        later = timezone.now() + names.TEST_REST
        assert await sync_to_async(keys.test_rests_until)(key=trial.key, now=later) is None


async def test_a_trial_is_never_recorded(process: HistoryWriter, trial: NewKey) -> None:
    await Application.objects.aupdate(record=Application.RecordPolicy.ALL)
    async with listening() as port, RtmpClient(port=port) as tester:
        tested = await publish(tester, trial.secret)
        await until(StatusEvent.objects.filter(kind="session.started").exists)
        await tester.send_video(tested, 40, key_frame(1))
    await until(Session.objects.filter(is_test=True, ended_at__isnull=False).exists)
    assert not await Recording.objects.aexists()
