"""What open pages are sent (by `groups`): JSON texts, made once and handed on unchanged by their WebSocket consumers.

Group `live`, the wall: {"kind": "update", "at", "node", "nodes", "streams" (of each that changed its id and the fields
that did; `wallfeed` says which), "gone" (ids)}. Around the text the layer's message has `node`, `at` and `prior`, when
the node's tick before this one was: who hears of a `prior` that it has not heard has missed something.
Group `stream.<id>`: {"kind": "sample", "at", "stream", "sample"} and {"kind": "event", "event"}.
Group `attempts`: {"kind": "attempt", "at", "action", "app", "name", "address", "reason", "description", "count"}.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ingest import clean
from ingest.contracts import NodeFigures, StreamSnapshot
from ingest.livestore import CompactSample

WALL = "live"
ATTEMPTS = "attempts"

CHUNK = 20
"""Snapshots that are serialised at a time, about 0.4 ms."""

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


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
