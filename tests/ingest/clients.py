"""Encoders and players of a real listener."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ingest.models import Session
from tests.ingest.ticks import until
from tests.rtmp_client import Refused, RtmpClient
from tests.server.media import AVC_HEADER, keep_sending, key_frame


def all_ended() -> bool:
    return not Session.objects.filter(ended_at=None).exists()


async def go_live(encoder: RtmpClient, secret: str, app: str = "live", **properties: Any) -> int:
    """Publish and send a first picture. Return the message stream's id."""
    await encoder.connect(app, **properties)
    stream_id = await encoder.publish(secret)
    await encoder.send_video(stream_id, 0, AVC_HEADER)
    await encoder.send_video(stream_id, 0, key_frame(0))
    return stream_id


@asynccontextmanager
async def sending(encoder: RtmpClient, stream_id: int) -> AsyncIterator[None]:
    """Keep sending pictures during the block."""
    task = asyncio.create_task(keep_sending(encoder, stream_id))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def watch_live(player: RtmpClient, name: str = "cam1", app: str = "live") -> None:
    await player.connect(app)
    await player.play(name)


async def publish_to(port: int, secret: str, app: str = "live") -> str:
    """Publish until the stream is live, then wait for its end. Return "live" or the refusal."""
    async with RtmpClient(port=port, timeout_s=20) as encoder:
        try:
            await encoder.connect(app)
            await encoder.publish(secret)
        except Refused as refused:
            return str(refused)
    await until(all_ended)
    return "live"
