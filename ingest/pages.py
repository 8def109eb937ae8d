"""What open pages are sent: JSON texts, made once and handed on unchanged by their WebSocket consumers.

Group `live`, the wall: {"kind": "update", "at", "node", "nodes", "streams" (of each that changed its id and the fields
that did), "gone" (ids)}, with "drops" where streams ended although nobody meant it. Around the text the layer's message
has `node`, `at` and `prior`, when the node's tick before this one was: who hears of a `prior` that it has not heard has
missed something.
Group `stream.<id>`: {"kind": "sample", "at", "stream", "sample"} and {"kind": "event", "event"} and
{"kind": "relays"}.
Group `attempts`: {"kind": "attempt", "at", "action", "app", "name", "address", "reason", "description", "count"}.

The wall is told of streams whole at first, then each tick the fields that changed. With hundreds of streams nearly all
that they say changes each second, most of it in digits that no card shows. So:

- figures are rounded as cards show them, in the first picture as in updates;
- what no card shows comes each SELDOM ticks, all of it, a part of the streams at a time; and LEFT_OUT not at all;
- an issue that opens, clears or changes its level goes out at once, its words (which count seconds) in their turn;
- a stream is whole when it is new, and when its state or its session changed."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, cast

from ingest import clean
from ingest.contracts import Issue, NodeFigures, StreamSnapshot, end_of
from ingest.live_store import CompactSample

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


class Drop(TypedDict):
    """A publisher's session that ended although nobody meant it to."""

    id: str  # The session's.
    stream: int
    app: str
    name: str
    node: str
    at: float  # Seconds since the epoch.
    words: str
    advice: str
    back: float | None  # When the next publisher of the stream began.
    seen: bool  # Somebody acknowledged it.


def drop(*, session: str, stream: int, app: str, name: str, node: str, at: float, reason: str) -> Drop:
    """One that nobody has seen to yet."""
    end = end_of(reason)
    return Drop(
        id=session,
        stream=stream,
        app=app,
        name=name,
        node=node,
        at=at,
        words=end.words,
        advice=end.advice,
        back=None,
        seen=False,
    )


def update(
    node: str,
    *,
    at: float,
    prior: float | None,
    nodes: Sequence[NodeFigures],
    streams: str,
    gone: Sequence[int],
    drops: Sequence[Drop] = (),
) -> dict[str, Any]:
    """A message to the wall's group. `prior`: when the tick before was, if there was one. `streams`: a JSON list."""
    dropped = f',"drops":{to_json(drops)}' if drops else ""
    text = (
        f'{{"kind":"update","at":{at:.3f},"node":{to_json(node)},"nodes":{to_json(nodes)},"streams":{streams},'
        f'"gone":{to_json(gone)}{dropped}}}'
    )
    return {"type": "live.tick", "node": node, "at": at, "prior": prior, "gone": bool(gone), "text": text}


def sample_text(*, at: float, stream: StreamSnapshot | None, sample: CompactSample | None) -> str:
    return to_json({"kind": "sample", "at": at, "stream": stream, "sample": sample})


def event_text(event: Mapping[str, Any]) -> str:
    return to_json({"kind": "event", "event": event})


RELAYS = to_json({"kind": "relays"})
"""To a stream's pages: its push targets, or its pull source, are others now, or do something else."""


def attempt_text(attempt: Mapping[str, Any]) -> str:
    return to_json({"kind": "attempt"} | dict(attempt))


ROUNDED: Mapping[str, int] = {
    "video_kbps": 0,
    "audio_kbps": 0,
    "wire_kbps": 0,
    "out_kbps": 0,
    "fps": 1,
    "fps_media": 1,
    "keyframe_interval": 1,
    "open_gop_age": 1,
    "drift": 0,
    "drift_dev": 0,
    "av_skew": 0,
    "rtt_ms": 0,
    "idle_ms": -3,
}
"""Decimals. Fields that aren't here go as they are."""

SELDOM_SHOWN = (
    "wire_kbps",
    "out_kbps",
    "fps_media",
    "open_gop_age",
    "drift",
    "drift_dev",
    "av_skew",
    "rtt_ms",
    "retrans",
    "ts_gap",
    "ts_regress",
    "missing_frames_est",
    "media_faults",
    "timestamp_repairs",
    "dropped_frames",
)
LEFT_OUT = ("metadata", "slowest", "counters", "relayed_to", "pushes")
"""Long, and the stream's own page has it; or for metrics alone."""

NODE_LEFT_OUT = ("counters", "counts", "loop_delays", "relays", "address")
"""Of what nodes say of themselves: the same."""

CARD = tuple(name for name in StreamSnapshot.__annotations__ if name not in LEFT_OUT)
AT_ONCE = tuple(name for name in CARD if name not in (*SELDOM_SHOWN, "issues"))
WHOLE_AFTER = ("state", "session_id")

SELDOM = 10
"""Ticks."""

WORDS_EACH = 2
"""Ticks after which the words of a stream's issues are told again, if they changed,"""
WORDS_A_TICK = 100
"""and of how many issues at a tick: beyond it streams wait for their turn, so that general trouble stays readable."""

ISSUE_WORDS = ("actual", "expected", "title", "advice", "value", "limit")
"""What may change each second while an issue is open."""


def _shown(name: str, value: Any) -> Any:
    digits = ROUNDED.get(name)
    if digits is None or value is None:
        return value
    return round(value, digits or None)


def card(snapshot: StreamSnapshot) -> dict[str, Any]:
    """All that the wall is told of a stream."""
    return {name: _shown(name, snapshot[name]) for name in CARD if name in snapshot}  # type: ignore[literal-required]


def node_card(figures: NodeFigures) -> NodeFigures:
    """All that pages are told of a node."""
    return cast(NodeFigures, {name: value for name, value in figures.items() if name not in NODE_LEFT_OUT})


def _changed(former: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Of what is told at once."""
    fields = {}
    for name in AT_ONCE:
        value, before = now.get(name), former.get(name)
        if value != before:
            value = _shown(name, value)
            if value != _shown(name, before):
                fields[name] = value
    return fields


def _without_words(issues: Sequence[Issue]) -> list[dict[str, Any]]:
    return [{name: value for name, value in issue.items() if name not in ISSUE_WORDS} for issue in issues]


class WallFeed:
    """One node's. Call `changes` at each tick that somebody may see; the others it needn't know of."""

    def __init__(self) -> None:
        self._ticks = 0
        self._owed: dict[int, int] = {}
        """Streams whose issues' words changed, by id, with the tick since which: those that wait longest come first."""

    async def changes(self, former: Mapping[int, StreamSnapshot], streams: Mapping[int, StreamSnapshot]) -> str:
        """What changed between two ticks, as a JSON list."""
        self._ticks += 1
        self._owed = {stream: since for stream, since in self._owed.items() if stream in streams}
        in_turn = self._in_turn(streams)

        def entry(now: StreamSnapshot) -> dict[str, Any] | None:
            stream = now["id"]
            fields = self._of(former.get(stream), now, words=stream in in_turn)
            return {"id": stream, **fields} if fields else None

        return await to_json_list(list(streams.values()), entry)

    def _of(self, former: StreamSnapshot | None, now: StreamSnapshot, *, words: bool) -> dict[str, Any]:
        stream = now["id"]
        if former is None or any(former[name] != now[name] for name in WHOLE_AFTER):  # type: ignore[literal-required]
            self._owed.pop(stream, None)
            return card(now)
        fields = _changed(former, now)
        if (self._ticks + stream) % SELDOM == 0:
            fields |= {name: _shown(name, now.get(name)) for name in SELDOM_SHOWN}
        if words or former["issues"] != now["issues"]:
            if words or _without_words(former["issues"]) != _without_words(now["issues"]):
                fields["issues"] = now["issues"]
                self._owed.pop(stream, None)
            else:
                self._owed.setdefault(stream, self._ticks)
        return fields

    def _in_turn(self, streams: Mapping[int, StreamSnapshot]) -> set[int]:
        """Whose issues' words are told again."""
        chosen: set[int] = set()
        left = WORDS_A_TICK
        for stream, since in self._owed.items():
            left -= len(streams[stream]["issues"])
            if (chosen and left < 0) or self._ticks - since < WORDS_EACH - 1:
                break
            chosen.add(stream)
        return chosen
