"""What a key's rights do to encoders that are live: real connections to a media node. What test-only keys publish is
judged, beside a stream that goes on as it was."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from ingest.live import LimitSettings, LiveSettings
from ingest.live.health import CHECKS
from ingest.live_store import get_livestore
from ingest.models import Application, Attempt, Lease, Recording, Session, StatusEvent, Stream, StreamKey, names
from ingest.rtmp import events
from ingest.services import keys
from ingest.services.keys import NewKey
from tests.ingest.clients import all_ended, go_live, publish_to, watch_live
from tests.ingest.control import flush, listening
from tests.ingest.ticks import until
from tests.rtmp_client import Refused, RtmpClient
from tests.server.media import keep_sending, key_frame

pytestmark = pytest.mark.usefixtures("process")

LIMITED = LiveSettings(
    checks=tuple(replace(check, hold_s=0.2) for check in CHECKS),
    warm_up_s=0,
    limit=LimitSettings(window_s=5, close_s=0.5),
)


async def ends(encoder: RtmpClient, after: datetime) -> tuple[str, float]:
    """Why the latest session ended, and how many seconds after the moment."""
    await encoder.wait_closed(timeout_s=10)
    await until(all_ended)
    session = await Session.objects.order_by("-started_at").afirst()
    assert session is not None
    assert session.ended_at is not None
    return session.end_reason, (session.ended_at - after).total_seconds()


async def test_both_keys_work_in_the_grace_and_the_old_one_until_its_end(key: NewKey) -> None:
    async with listening() as port:
        new = await sync_to_async(keys.rotate)(key=key.key, grace=timedelta(hours=1))
        assert await publish_to(port, new.secret) == "live"
        assert await publish_to(port, key.secret) == "live"
        async with RtmpClient(port=port) as encoder:
            await go_live(encoder, key.secret)
            over = timezone.now() + timedelta(seconds=0.3)
            await StreamKey.objects.filter(pk=key.key.pk).aupdate(grace_until=over)
            reason, seconds = await ends(encoder, over)
        assert reason == "key_revoked"
        assert seconds >= 0
        assert "revoked" in await publish_to(port, key.secret)
        assert await publish_to(port, new.secret) == "live"


async def test_an_encoder_is_ended_when_its_key_expires(stream: Stream) -> None:
    later = timezone.now() + timedelta(hours=1)
    key = await sync_to_async(keys.create)(stream=stream, expires_at=later)
    async with listening() as port:
        async with RtmpClient(port=port) as encoder:
            await go_live(encoder, key.secret)
            expires_at = timezone.now() + timedelta(seconds=0.3)
            await StreamKey.objects.aupdate(expires_at=expires_at)
            reason, seconds = await ends(encoder, expires_at)
        assert reason == "key_revoked"
        assert seconds >= 0
        assert "expired" in await publish_to(port, key.secret)


async def test_a_key_was_last_used_when_its_session_ended(key: NewKey) -> None:
    async with listening() as port, RtmpClient(port=port) as encoder:
        await go_live(encoder, key.secret)
        begun = (await StreamKey.objects.aget()).last_used_at
        assert begun is not None
        await encoder.close()
        await until(StreamKey.objects.filter(last_used_at__gt=begun).exists)
        session = await Session.objects.aget()
        assert (await StreamKey.objects.aget()).last_used_at == session.ended_at


async def send(encoder: RtmpClient, stream_id: int, kbps: int) -> None:
    frame = key_frame(1, size=kbps * 125 // 20)
    timestamp = 0
    while not encoder.closed:
        await encoder.send_video(stream_id, timestamp, frame)
        timestamp += 50
        await asyncio.sleep(0.05)


async def test_an_encoder_over_its_limit_is_ended_and_kept_from_coming_back_at_once(stream: Stream) -> None:
    """As OBS would: it reads no status while it publishes, and reconnects after 2 s."""
    rights: dict[str, Any] = {"max_kbps": 400, "over_limit": "close"}
    key = await sync_to_async(keys.create)(stream=stream, **rights)
    async with listening(live=LIMITED) as port:
        async with RtmpClient(port=port) as encoder:
            sending = asyncio.create_task(send(encoder, await go_live(encoder, key.secret), 4000))
            reason, _ = await ends(encoder, timezone.now())
            sending.cancel()
        assert reason == "over_limit"
        session = await Session.objects.aget()
        assert session.end_description.endswith("the stream key's limit is 400 kbit/s.")
        refusal = await publish_to(port, key.secret)
        assert refusal.startswith("NetStream.Publish.Denied: The stream was ended, since its bitrate stayed over")
        assert "400 kbit/s" in refusal
        await StreamKey.objects.aupdate(max_kbps=None)
        assert await publish_to(port, key.secret) == "live"
    flush()
    assert (await Attempt.objects.aget()).reason == "over_limit"


@pytest.fixture
async def trial(stream: Stream) -> NewKey:
    return await sync_to_async(keys.create)(stream=stream, label="trial", test_only=True)


async def test_players_see_only_the_stream_while_a_trial_is_live(key: NewKey, trial: NewKey, stream: Stream) -> None:
    store = get_livestore()
    async with listening() as port, RtmpClient(port=port) as tester, RtmpClient(port=port) as player:
        sending = asyncio.create_task(keep_sending(tester, await go_live(tester, trial.secret)))
        await until(lambda: any(each["state"] == "live" for each in store.read().key_tests))
        assert store.read().streams == []  # The stream itself is not on air.
        assert not await Lease.objects.filter(stream=stream).aexists()
        await watch_live(player)
        async with RtmpClient(port=port) as encoder:  # Not refused, though a trial is live.
            await go_live(encoder, key.secret)
            await player.wait_count(events.VideoReceived, 2)
            await until(lambda: any(each["state"] == "live" for each in store.read().streams))
            assert [each["name"] for each in store.read().streams] == [stream.name]
            judged = store.read().key_tests[0]
            assert judged["name"] == names.test_live_name(stream.name, trial.key.pk)
            assert judged["players"] == 0
        with pytest.raises(Refused):
            await player.play(judged["name"])
        assert len([event for event in player.received if isinstance(event, events.VideoReceived)]) == 2
        sending.cancel()


@pytest.mark.both_forms
async def test_a_newer_trial_of_a_key_takes_the_place_of_the_older_one(trial: NewKey) -> None:
    async with listening() as port, RtmpClient(port=port) as older, RtmpClient(port=port) as newer:
        await go_live(older, trial.secret)
        await go_live(newer, trial.secret)
        await older.wait_closed(timeout_s=5)
        ended = Session.objects.filter(is_test=True, end_reason="replaced")
        await until(ended.exists)
        assert await Session.objects.filter(is_test=True, ended_at=None).acount() == 1


async def test_a_trial_ends_by_itself_and_rests(trial: NewKey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "TEST_MOST", timedelta(seconds=0.5))
    async with listening() as port:
        async with RtmpClient(port=port) as tester:
            await go_live(tester, trial.secret)
            await tester.wait_closed(timeout_s=5)
        await until(Session.objects.filter(end_reason="test_over").exists)
        async with RtmpClient(port=port) as tester:
            await tester.connect("live")
            with pytest.raises(Refused, match="The test has ended"):
                await tester.publish(trial.secret)
        await until(Attempt.objects.filter(reason="test_over").exists)
        later = timezone.now() + names.TEST_REST
        assert await sync_to_async(keys.test_rests_until)(key=trial.key, now=later) is None


async def test_a_trial_is_never_recorded(trial: NewKey) -> None:
    await Application.objects.aupdate(record=Application.RecordPolicy.ALL)
    async with listening() as port, RtmpClient(port=port) as tester:
        tested = await go_live(tester, trial.secret)
        await until(StatusEvent.objects.filter(kind="session.started").exists)
        await tester.send_video(tested, 40, key_frame(1))
    await until(Session.objects.filter(is_test=True, ended_at__isnull=False).exists)
    assert not await Recording.objects.aexists()
