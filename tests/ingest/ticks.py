"""The content of a node's ticks, and waiting for their effects."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer

from ingest.contracts import StreamSnapshot
from ingest.contracts.connection import RecordEvent
from ingest.models import Node
from ingest.services.keys import NewKey
from tests import snapshots
from tests.ingest.control import NODE, Connection, NodeApp
from tests.ingest.telemetry import records


def snapshot(stream: int = 1, session_id: str | None = None, **fields: Any) -> StreamSnapshot:
    """Return a stream's snapshot in figures that pages need not round."""
    own = {"node": NODE, "session_id": session_id, "rtt_ms": None, "thumbnail": None, "idle_ms": 0}
    even = {"video_kbps": 2500.0, "audio_kbps": 128.0, "fps": 30.0}
    return snapshots.snapshot(stream, **(own | even | fields))


def record_event(session_id: str, **fields: Any) -> RecordEvent:
    """Return the event of a recording that has just begun, with other fields."""
    kind = {"type": "rtmp.record", "session_id": session_id, "stream_id": 1, "state": "started", "mode": "all"}
    file = {"name": "cam1", "file": "live/cam1.flv", "began": 0.0, "is_continued": False, "duration_ms": 0}
    end = {"size_bytes": 13, "dropped_frames": 0, "code": "", "description": ""}
    return cast(RecordEvent, kind | file | end | fields)


SESSION: Any = {"session": "00000000-0000-4000-8000-000000000001", "at_us": 1_800_000_000_500_000, "node": NODE}
FIGURES: Any = {"video_bytes": 312_500, "video_kbps": 2500.0, "drift": 12.0, "drift_dev": 1.5, "players": 3}
SAMPLE = records.sample(1, **SESSION, **FIGURES, name="cam1")


async def until(condition: Callable[[], Any], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not await sync_to_async(condition)():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def tick_until(node: NodeApp, condition: Callable[[], Any], seconds: float = 20, **fields: Any) -> None:
    """Repeat the tick, as a node misses those that come while it shows or stores another."""
    async with asyncio.timeout(seconds):
        while not await sync_to_async(condition)():
            await node.tick(**fields)
            await asyncio.sleep(0.05)


async def is_up() -> None:
    await until(Node.objects.filter(name=NODE, state="up", address="127.0.0.1:1935").exists)


async def published(key: NewKey) -> tuple[Connection, str]:
    encoder = Connection()
    await encoder.connect()
    answer = await encoder.publish(key.secret)
    return encoder, answer["session_id"]


async def drop_after_ticks(node: NodeApp) -> Any:
    """Tick until the node tells the server to drop a session. Return the message."""
    await tick_until(node, lambda: not node.app.output_queue.empty())
    return await node.app.receive_output()


async def watch(group: str) -> Callable[[], Awaitable[Any]]:
    """Join a group of the channel layer. Return a function that receives its next message."""
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(group, channel)

    async def receive() -> Any:
        async with asyncio.timeout(5):
            return json.loads((await layer.receive(channel))["text"])

    return receive
