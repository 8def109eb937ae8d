"""What open pages are sent: JSON texts, made once and handed on unchanged by the dashboard's WebSocket consumers.

Group `live`, the wall: {"kind": "update", "at", "nodes", "streams" (those that changed, without their
metadata), "gone" (ids)}.
Group `stream.<id>`: {"kind": "sample", "at", "stream", "sample"} and {"kind": "event", "event"}.
"""

import asyncio
import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from channels.layers import get_channel_layer

from ingest import clean
from ingest.contracts import NodeFigures, StreamSnapshot
from ingest.livestore import CompactSample

logger = logging.getLogger(__name__)

WALL = "live"
MAX_SENDING = 80
"""Messages that may be under way to the channel layer; over it they are left out: the next one is whole again. Each
takes one of the 100 connections that Redis' client may have.
"""

CHUNK = 40
"""Snapshots that are serialised at a time, about 0.4 ms."""

WARN_S = 10.0

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_sending: set[asyncio.Task[None]] = set()
_warned = -WARN_S


def to_json(value: Any) -> str:
    """The value as JSON. What a publisher claims may hold what JSON can't say, such as NaN: that becomes null."""
    try:
        return _encode(value)
    except (TypeError, ValueError):
        return _encode(clean.jsonable(value))


def stream_group(stream: int) -> str:
    return f"stream.{stream}"


async def to_json_list(snapshots: Sequence[StreamSnapshot], *, whole: bool = True) -> str:
    """The snapshots as a JSON list; between two chunks the event loop serves media. Not `whole`: as the wall's cards
    need them, without `metadata`, which is as long as its publisher likes.
    """
    parts: list[str] = []
    for start in range(0, len(snapshots), CHUNK):
        if start:
            await asyncio.sleep(0)
        chunk: Sequence[Mapping[str, Any]] = snapshots[start : start + CHUNK]
        if not whole:
            chunk = [{name: value for name, value in each.items() if name != "metadata"} for each in chunk]
        parts.append(to_json(chunk)[1:-1])
    return f"[{','.join(parts)}]"


def update_text(*, at: float, nodes: Sequence[NodeFigures], streams: str, gone: Sequence[int]) -> str:
    """`streams` is a JSON list already."""
    return f'{{"kind":"update","at":{at:.3f},"nodes":{to_json(nodes)},"streams":{streams},"gone":{to_json(gone)}}}'


def sample_text(*, at: float, stream: StreamSnapshot | None, sample: CompactSample | None) -> str:
    return to_json({"kind": "sample", "at": at, "stream": stream, "sample": sample})


def event_text(event: Mapping[str, Any]) -> str:
    return to_json({"kind": "event", "event": event})


def watched(group: str) -> bool:
    """Whether anybody may be in the group. The in-memory layer knows, and asking spares its walk over all channels."""
    groups = getattr(get_channel_layer(), "groups", None)
    return groups is None or bool(groups.get(group))


def send(group: str, kind: str, text: str) -> None:
    """Sends to whoever watches, without waiting: pages can do without a message, the caller can't wait for a layer."""
    if watched(group) and len(_sending) < MAX_SENDING:
        task = asyncio.ensure_future(_send(group, {"type": kind, "text": text}))
        _sending.add(task)
        task.add_done_callback(_sending.discard)


async def _send(group: str, message: dict[str, Any]) -> None:
    global _warned
    layer = get_channel_layer()
    if layer is None:
        return
    try:
        await layer.group_send(group, message)
    except Exception as error:  # Whatever the layer's trouble is: it is not the stream's.
        if time.monotonic() - _warned >= WARN_S:
            _warned = time.monotonic()
            logger.warning("The channel layer did not take a message: %s", type(error).__name__)
