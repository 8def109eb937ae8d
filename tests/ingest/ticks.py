"""What a node's ticks hold, and waiting for what they cause."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

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
    """In figures that pages need not round."""
    own = {"node": NODE, "session_id": session_id, "rtt_ms": None, "thumbnail": None, "idle_ms": 0}
    even = {"video_kbps": 2500.0, "audio_kbps": 128.0, "fps": 30.0}
    return snapshots.snapshot(stream, **(own | even | fields))


def record_event(session_id: str, **fields: Any) -> RecordEvent:
    """What the server says of a recording that has just begun, but for the fields."""
    base: RecordEvent = {
        "type": "rtmp.record",
        "session_id": session_id,
        "stream_id": 1,
        "state": "started",
        "mode": "all",
        "name": "cam1",
        "file": "live/cam1.flv",
        "began": 0.0,
        "is_continued": False,
        "duration_ms": 0,
        "size_bytes": 13,
        "dropped_frames": 0,
        "code": "",
        "description": "",
    }
    return base | fields  # type: ignore[return-value]


SAMPLE = replace(
    records.SAMPLE,
    session="00000000-0000-4000-8000-000000000001",
    sequence=1,
    at_us=1_800_000_000_500_000,
    node=NODE,
    name="cam1",
    video_bytes=312_500,
    video_kbps=2500.0,
    drift=12.0,
    drift_dev=1.5,
    players=3,
)


async def until(condition: Callable[[], Any], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not await sync_to_async(condition)():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def tick_until(node: NodeApp, condition: Callable[[], Any], seconds: float = 20, **fields: Any) -> None:
    """The same tick again and again: a node misses those that come while it shows or stores another."""
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


async def drop_after_ticks(node: NodeApp) -> dict[str, Any]:
    """Ticks until the node has the server drop a session."""
    await tick_until(node, lambda: not node.app.output_queue.empty())
    dropped: dict[str, Any] = await node.app.receive_output()
    return dropped


async def watch(group: str) -> Callable[[], Any]:
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(group, channel)

    async def receive() -> dict[str, Any]:
        async with asyncio.timeout(5):
            found: dict[str, Any] = json.loads((await layer.receive(channel))["text"])
            return found

    return receive
