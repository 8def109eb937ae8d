"""Encoders whose clocks do what clocks do when a stream is on air for weeks."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from ingest.rtmp import MessageType, events
from tests.e2e import accepted
from tests.rtmpdecode import messages_of

SPEED = 4
"""Times the media's own pace."""
DAY_MS = 24 * 3600 * 1000
CLIP_MS = 3050
"""Of `conftest.short_clip`, which is sent several times; its sound goes on for a little after the last picture."""


@dataclass(frozen=True)
class Clock:
    sessions: tuple[tuple[int, ...], ...]
    """What it says, in ms, each time that the clip begins, in each of the connections that come one after the other."""
    wraps: int = 1 << 32
    played_s: float = 2 * CLIP_MS / 1000 - 0.5
    """How much of it is played: some of the last session."""


def steady(first_ms: int, wraps: int = 1 << 32) -> Clock:
    return Clock(((first_ms, first_ms + CLIP_MS),), wraps)


CLOCKS = {
    "24-days-old": steady(24 * DAY_MS),
    "loses-its-sign": steady((1 << 31) - CLIP_MS // 2),
    "wraps": steady((1 << 32) - CLIP_MS // 2),
    "wraps-at-24-bits": steady((1 << 24) - CLIP_MS // 2, wraps=1 << 24),
    "begins-anew": Clock(((DAY_MS, 0),)),
    "leaps": Clock(((0, DAY_MS),)),
    "encoder-restarts": Clock(((DAY_MS,), (0, CLIP_MS, 2 * CLIP_MS, 3 * CLIP_MS)), played_s=9),
}
"""{stream: the clock of its encoder}"""


async def publish(port: int, key: str, clip: Path, clock: Clock) -> None:
    for starts in clock.sessions:
        await _publish(port, key, clip, starts, clock.wraps)


async def _publish(port: int, key: str, clip: Path, starts: tuple[int, ...], wraps: int) -> None:
    async with accepted.client(port, key) as (client, stream_id):
        send = {MessageType.VIDEO: client.protocol.send_video, MessageType.AUDIO: client.protocol.send_audio}
        for start_ms in starts:
            began = asyncio.get_running_loop().time()
            for message in messages_of(clip):
                if message.type_id not in send:
                    continue
                ahead_s = message.timestamp / 1000 / SPEED - (asyncio.get_running_loop().time() - began)
                if ahead_s > 0:
                    await asyncio.sleep(ahead_s)  # The pace of the media.
                at = (start_ms + message.timestamp) % wraps
                send[MessageType(message.type_id)](stream_id, at, message.payload)
                await client.flush()
        await client.delete_stream(stream_id)
        await client.wait_for(events.StatusReceived, lambda event: event.code == "NetStream.Unpublish.Success")
