"""What a key's rights do to encoders that are live: real connections to a media node."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from ingest.live import LimitSettings, LiveSettings
from ingest.live.health import CHECKS
from ingest.models import Attempt, Session, Stream, StreamKey
from ingest.services import keys
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests.ingest.listener import listening
from tests.ingest.server.media import AVC_HEADER, key_frame
from tests.ingest.ticks import until
from tests.rtmp_client import Refused, RtmpClient

pytestmark = pytest.mark.django_db(transaction=True)

LIMITED = LiveSettings(
    checks=tuple(replace(check, hold_s=1) for check in CHECKS),
    warm_up_s=0,
    limit=LimitSettings(window_s=2, close_s=1.0),
)


async def live(encoder: RtmpClient, secret: str) -> int:
    await encoder.connect("live")
    stream_id = await encoder.publish(secret)
    await encoder.send_video(stream_id, 0, AVC_HEADER)
    return stream_id


def all_ended() -> bool:
    return not Session.objects.filter(ended_at=None).exists()


async def works(port: int, secret: str) -> bool | str:
    """True, or what the encoder is told. What was published has ended when this returns."""
    async with RtmpClient(port=port) as encoder:
        try:
            await live(encoder, secret)
        except Refused as refused:
            return str(refused)
    await until(all_ended)
    return True


async def ends(encoder: RtmpClient, after: datetime) -> tuple[str, float]:
    """Why the latest session ended, and how many seconds after the moment."""
    await encoder.wait_closed(timeout_s=10)
    await until(all_ended)
    session = await Session.objects.order_by("-started_at").afirst()
    assert session is not None
    assert session.ended_at is not None
    return session.end_reason, (session.ended_at - after).total_seconds()


async def test_both_keys_work_in_the_grace_and_the_old_one_until_its_end(process: HistoryWriter, key: NewKey) -> None:
    async with listening() as port:
        new = await sync_to_async(keys.rotate)(key=key.key, grace=timedelta(hours=1))
        assert await works(port, new.secret) is True
        assert await works(port, key.secret) is True
        async with RtmpClient(port=port) as encoder:
            await live(encoder, key.secret)
            over = timezone.now() + timedelta(seconds=1)
            await StreamKey.objects.filter(pk=key.key.pk).aupdate(grace_until=over)
            reason, seconds = await ends(encoder, over)
        assert reason == "key_revoked"
        assert seconds >= 0
        assert "revoked" in str(await works(port, key.secret))
        assert await works(port, new.secret) is True


async def test_an_encoder_is_ended_when_its_key_expires(process: HistoryWriter, stream: Stream) -> None:
    later = timezone.now() + timedelta(hours=1)
    key = await sync_to_async(keys.create)(stream=stream, expires_at=later)
    async with listening() as port:
        async with RtmpClient(port=port) as encoder:
            await live(encoder, key.secret)
            expires_at = timezone.now() + timedelta(seconds=1)
            await StreamKey.objects.aupdate(expires_at=expires_at)
            reason, seconds = await ends(encoder, expires_at)
        assert reason == "key_revoked"
        assert seconds >= 0
        assert "expired" in str(await works(port, key.secret))


@pytest.mark.parametrize(
    ("networks", "allowed"),
    [
        (["127.0.0.0/8"], True),
        (["::ffff:127.0.0.0/104"], True),
        (["192.0.2.0/24", "127.0.0.1/32"], True),
        (["192.0.2.0/24", "2001:db8::/32"], False),
    ],
)
async def test_networks(process: HistoryWriter, stream: Stream, networks: list[str], allowed: bool) -> None:
    key = await sync_to_async(keys.create)(stream=stream, allowed_networks=networks)
    async with listening() as port:
        found = await works(port, key.secret)
    assert (found is True) is allowed
    assert allowed or "may not be used from the address 127.0.0.1" in str(found)


async def test_a_key_was_last_used_when_its_session_ended(process: HistoryWriter, key: NewKey) -> None:
    async with listening() as port, RtmpClient(port=port) as encoder:
        await live(encoder, key.secret)
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


async def test_an_encoder_over_its_limit_is_ended_and_kept_from_coming_back_at_once(
    process: HistoryWriter, stream: Stream
) -> None:
    """As OBS would: it reads no status while it publishes, and reconnects after 2 s."""
    rights: dict[str, Any] = {"max_kbps": 400, "over_limit": "close"}
    key = await sync_to_async(keys.create)(stream=stream, **rights)
    async with listening(live=LIMITED) as port:
        async with RtmpClient(port=port) as encoder:
            sending = asyncio.create_task(send(encoder, await live(encoder, key.secret), 4000))
            reason, _ = await ends(encoder, timezone.now())
            sending.cancel()
        assert reason == "over_limit"
        session = await Session.objects.aget()
        assert session.end_description.endswith("the stream key's limit is 400 kbit/s.")
        refusal = str(await works(port, key.secret))
        assert refusal.startswith("NetStream.Publish.Denied: The stream was ended, since its bitrate stayed over")
        assert "400 kbit/s" in refusal
        await StreamKey.objects.aupdate(max_kbps=None)
        assert await works(port, key.secret) is True
    assert process.flush(5)
    assert (await Attempt.objects.aget()).reason == "over_limit"
