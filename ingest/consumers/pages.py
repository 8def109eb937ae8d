"""What open pages are sent: JSON texts, made once and handed on unchanged by the dashboard's WebSocket consumers.

Group `live`, the wall: {"kind": "update", "at", "node", "nodes", "streams" (of each that changed its id and the fields
that did; `wallfeed` says which), "gone" (ids)}. Around the text the layer's message has `node`, `at` and `prior`, when
the node's tick before this one was: who hears of a `prior` that it has not heard has missed something.
Group `stream.<id>`: {"kind": "sample", "at", "stream", "sample"} and {"kind": "event", "event"}.
Group `attempts`: {"kind": "attempt", "at", "action", "app", "name", "address", "reason", "description", "count"}.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from channels.layers import get_channel_layer

from ingest import clean
from ingest.contracts import NodeFigures, StreamSnapshot
from ingest.livestore import CompactSample

logger = logging.getLogger(__name__)

WALL = "live"
ATTEMPTS = "attempts"
MAX_SENDING = 80
"""Messages that may be under way to the channel layer; over it they are left out: a page that misses one gets a whole
picture. Each takes one of the 100 connections that Redis' client may have.
"""

CHUNK = 20
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


async def to_json_list(items: Sequence[Any], of: Callable[[Any], Any] | None = None) -> str:
    """The items as a JSON list, or what `of` makes of each; None is left out. Between two chunks the event loop serves
    media.
    """
    parts: list[str] = []
    for start in range(0, len(items), CHUNK):
        if start:
            await asyncio.sleep(0)
        chunk = items[start : start + CHUNK]
        if of is not None:
            chunk = [made for each in chunk if (made := of(each)) is not None]
        if chunk:
            parts.append(to_json(chunk)[1:-1])
    return f"[{','.join(parts)}]"


def update(
    node: str, *, at: float, prior: float | None, nodes: Sequence[NodeFigures], streams: str, gone: Sequence[int]
) -> dict[str, Any]:
    """A message to the wall's group. `prior`: when the tick before was, if there was one. `streams`: a JSON list."""
    text = (
        f'{{"kind":"update","at":{at:.3f},"node":{to_json(node)},"nodes":{to_json(nodes)},"streams":{streams},'
        f'"gone":{to_json(gone)}}}'
    )
    return {"type": "live.tick", "node": node, "at": at, "prior": prior, "gone": bool(gone), "text": text}


def sample_text(*, at: float, stream: StreamSnapshot | None, sample: CompactSample | None) -> str:
    return to_json({"kind": "sample", "at": at, "stream": stream, "sample": sample})


def event_text(event: Mapping[str, Any]) -> str:
    return to_json({"kind": "event", "event": event})


def attempt_text(attempt: Mapping[str, Any]) -> str:
    return to_json({"kind": "attempt"} | dict(attempt))


def watched(group: str) -> bool:
    """Whether anybody may be in the group. The in-memory layer knows, and asking spares its walk over all channels."""
    groups = getattr(get_channel_layer(), "groups", None)
    return groups is None or bool(groups.get(group))


def watched_streams(streams: Collection[int]) -> Collection[int]:
    """Those of these whose own pages somebody may have open."""
    groups = getattr(get_channel_layer(), "groups", None)
    if groups is None:
        return streams
    opened = {name for name, channels in groups.items() if channels}
    return [stream for stream in streams if stream_group(stream) in opened] if opened - {WALL, ATTEMPTS} else ()


def send(group: str, kind: str, text: str) -> None:
    send_message(group, {"type": kind, "text": text})


def send_message(group: str, message: dict[str, Any]) -> None:
    """Sends to whoever watches, without waiting: pages can do without a message, the caller can't wait for a layer."""
    if watched(group) and len(_sending) < MAX_SENDING:
        task = asyncio.ensure_future(_send(group, message))
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
