"""What happens in an hour: players that come and go, sessions that begin and end, attempts that are refused.

An hour's arrivals follow from (seed, hour) alone."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analytics.synthetic import publishers
from analytics.synthetic.publishers import Channel, Session, World, node_name
from ingest.contracts import EventRecord
from ingest.services.refusals import CODES, REASONS, UNCHECKED, Action
from ingest.telemetry.lake import EVENTS

HOUR_US = 3_600_000_000
STAYS_S = 1200.0
"""In the mean; exponential."""
LONGEST_US = 3 * HOUR_US
HOURS_BACK = LONGEST_US // HOUR_US
"""Whoever plays has come within so many hours before."""

BY_HOUR = (0.5, 0.3, 0.2, 0.15, 0.15, 0.2, 0.4, 0.6, 0.7, 0.75, 0.8, 0.9, 1.1, 1.1, 1.0, 1.0, 1.1, 1.3, 1.7, 2.2, 2.5)
DAY = np.array([*BY_HOUR, 2.4, 1.9, 1.05])
DAY = DAY / DAY.mean()
"""How many come in each hour (UTC), 1 in the mean."""

WAITS = 0.03
"""The share of those who come while nothing is on air and wait for it; the others are not counted."""

BY_HLS = 0.6
"""The share of viewers who watch by HLS,"""
BY_PAGE = 0.8
"""and of their sessions, those by the watch page."""

PUBLIC = 60
"""Viewers that a stream's arrivals are drawn from, for each player in the mean; so some come again."""


@dataclass(frozen=True)
class Plays:
    """Playing sessions, each column one long; times are microseconds since the epoch."""

    number: NDArray[np.int64]
    """The channel's."""
    begin_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    viewer: publishers.Words
    word: publishers.Words
    """Tells the session apart."""
    by_hls: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.number)

    def only(self, which: NDArray[np.bool_]) -> "Plays":
        return Plays(*(getattr(self, name)[which] for name in Plays.__dataclass_fields__))


class Audience:
    """`on_air`: (hour since the epoch) -> (channels, 3600) whether each is published in each second."""

    def __init__(self, cast: list[Channel], seed: int, on_air: Callable[[int], NDArray[np.bool_]]) -> None:
        self._means = np.array([channel.audience for channel in cast])
        self._seed = seed
        self._on_air = on_air
        self._arrivals = lru_cache(maxsize=HOURS_BACK + 2)(self._draw)

    def present(self, hour: int) -> Plays:
        """Those who are there at some time of the hour."""
        parts = [self._arrivals(earlier) for earlier in range(hour - HOURS_BACK, hour + 1)]
        joined = Plays(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in Plays.__dataclass_fields__)
        )
        return joined.only(joined.end_us > hour * HOUR_US)

    def _draw(self, hour: int) -> Plays:
        lot = np.random.default_rng([self._seed, 5, hour])
        # Each stream's audience has its better and worse days.
        moods = 0.6 + 0.8 * publishers.uniform(self._seed, 6, np.arange(len(self._means)), hour // 24)
        counts = lot.poisson(self._means * moods * DAY[hour % 24] * 3600 / STAYS_S)
        number = np.repeat(np.arange(len(counts)), counts)
        total = len(number)
        into_us = lot.integers(0, HOUR_US, total)
        stays_us = np.minimum(lot.exponential(STAYS_S * 1e6, total).astype(np.int64) + 200_000, LONGEST_US - 1)
        pool = np.maximum(1, self._means[number] * PUBLIC).astype(np.int64)
        viewer = publishers.words(self._seed, 7, number, (lot.random(total) * pool).astype(np.int64))
        word = publishers.words(self._seed, 8, hour, np.arange(total))
        stays = self._on_air(hour)[number, into_us // 1_000_000] | (lot.random(total) < WAITS)
        begin_us = hour * HOUR_US + into_us
        by_hls = publishers.uniform(self._seed, 15, viewer) < BY_HLS
        return Plays(number, begin_us, begin_us + stays_us, viewer, word, by_hls).only(stays)


ATTEMPTS = 0.08
"""Refused attempts an hour for each stream, in the mean."""

REFUSED: dict[tuple[Action, str], float] = {
    ("publish", "key_unknown"): 0.3,
    ("publish", "busy"): 0.15,
    ("publish", "key_expired"): 0.08,
    ("publish", "key_revoked"): 0.07,
    ("publish", "stream_disabled"): 0.05,
    ("publish", "callback_refused"): 0.03,
    ("publish", "database_slow"): 0.02,
    ("connect", "unknown_app"): 0.1,
    ("connect", "banned"): 0.04,
    ("connect", "too_many_connections"): 0.03,
    ("play", "token_invalid"): 0.08,
    ("play", "stream_unknown"): 0.05,
}

OF_A_STREAM = {"busy", "key_expired", "key_revoked", "stream_disabled", "callback_refused", "token_invalid"}
"""Reasons that tell which stream was meant."""

PLAYER_ENDS = ("client_unpublish", "tcp_reset", "too_slow", "completed")
PLAYER_SHARES = (0.55, 0.4, 0.04, 0.01)
PLAYED = {"rtmp": "LNX 9,0,124,2", "hls": "Mozilla/5.0 (X11; Linux x86_64)"}

TEXTS = {field.name: "" for field in EVENTS.schema if field.type == pa.string()}


def hour_of_events(
    sessions: Sequence[Session], cast: Sequence[Channel], plays: Plays, hour: int, world: World, seed: int
) -> dict[str, pa.Table]:
    """The events of an hour (whole hours since the epoch) by node, by time. `plays`: those that were in it."""
    events = [
        *_of_publishers(sessions, hour),
        *_of_players(plays, cast, hour, seed),
        *_of_attempts(cast, hour, world, seed),
    ]
    events.sort(key=attrgetter("node", "at_us", "session"))
    return {
        node: pa.Table.from_batches([EVENTS.batch(list(records))])
        for node, records in groupby(events, attrgetter("node"))
    }


def _of_publishers(sessions: Sequence[Session], hour: int) -> Iterator[EventRecord]:
    for session in sessions:
        channel = session.channel
        common = {
            **_of_channel(channel),
            "session": session.id,
            "node": session.node_name,
            "key": session.key,
            "session_kind": "publish",
            "encoder": session.encoder,
            "address_hash": f"{session.word:016x}",
        }
        # As if it had been sent without troubles: the samples tell what came.
        size = _kbps(channel) * ((session.end_us - session.begin_us) // 1000) // 8
        yield from _lifetime(hour, session.begin_us, session.end_us, session.reason, common, bytes_in=size)


def _of_players(plays: Plays, cast: Sequence[Channel], hour: int, seed: int) -> Iterator[EventRecord]:
    lot = np.random.default_rng([seed, 9, hour])
    begins, ends = plays.begin_us // HOUR_US == hour, plays.end_us // HOUR_US == hour
    reasons = lot.choice(len(PLAYER_ENDS), len(plays), p=PLAYER_SHARES)
    for row in np.flatnonzero(begins | ends).tolist():
        channel = cast[plays.number[row]]
        begin_us, end_us = int(plays.begin_us[row]), int(plays.end_us[row])
        protocol = "hls" if plays.by_hls[row] else "rtmp"
        common = {
            **_of_channel(channel),
            "session": _player(int(plays.viewer[row]), int(plays.word[row])),
            "node": node_name(channel.node),
            "key": None,
            "session_kind": "play",
            "encoder": PLAYED[protocol],
            "protocol": protocol,
            "address_hash": f"{int(plays.viewer[row]):016x}",
        }
        size = _kbps(channel) * (end_us - begin_us) // 8000
        told = _told((end_us - begin_us) // 1000, seed, int(plays.word[row])) if plays.by_hls[row] else {}
        yield from _lifetime(hour, begin_us, end_us, PLAYER_ENDS[reasons[row]], common, bytes_out=size, **told)


def _told(lasted_ms: int, seed: int, word: int) -> dict[str, int]:
    """By the viewer's page, of a session that lasted so long; nothing by another player."""
    share, late, poor = (float(publishers.uniform(seed, number, word)[0]) for number in (16, 17, 18))
    if share >= BY_PAGE:
        return {}
    join_ms = min(lasted_ms, round(300 + 4000 * late**3))
    stalled_ms = round((lasted_ms - join_ms) * 0.1 * poor**6)
    watched_ms = lasted_ms - join_ms - stalled_ms
    return {"join_ms": join_ms, "stalls": -(-stalled_ms // 2000), "stalled_ms": stalled_ms, "watched_ms": watched_ms}


def _lifetime(
    hour: int, begin_us: int, end_us: int, reason: str, common: dict[str, Any], **counted: int
) -> Iterator[EventRecord]:
    """A session's begin and its end, those of them that are in the hour."""
    if begin_us // HOUR_US == hour:
        yield _event(**common, sequence=1, at_us=begin_us, kind="session.started", level="status")
    if end_us // HOUR_US == hour:
        detail = json.dumps({"duration_ms": (end_us - begin_us) // 1000})
        ended = {"kind": "session.ended", "level": "status", "code": reason, "reason": reason, "detail": detail}
        yield _event(**common, **counted, **ended, sequence=2, at_us=end_us)


def _kbps(channel: Channel) -> int:
    return channel.video_kbps + channel.kind.audio_kbps


def _of_attempts(cast: Sequence[Channel], hour: int, world: World, seed: int) -> Iterator[EventRecord]:
    lot = np.random.default_rng([seed, 13, hour])
    kinds = list(REFUSED)
    for _ in range(lot.poisson(ATTEMPTS * len(cast))):
        action, reason = kinds[lot.choice(len(kinds), p=list(REFUSED.values()))]
        channel = cast[int(lot.integers(len(cast)))]
        known = reason in OF_A_STREAM
        yield _event(
            at_us=hour * HOUR_US + int(lot.integers(HOUR_US)),
            node=node_name(int(lot.integers(world.nodes))),
            app="xyz…" if reason in UNCHECKED else channel.app,
            name=channel.name if known else "" if action == "connect" else "abc…",
            stream=channel.stream if known else None,
            key=channel.key if reason in {"busy", "key_expired", "key_revoked"} else None,
            kind="attempt",
            session_kind="" if action == "connect" else action,
            level="error",
            code=REASONS[reason].codes.get(action) or CODES[action],
            reason=reason,
            encoder=channel.encoder,
            address_hash=f"{int(lot.integers(1 << 62)):016x}",
        )


def _of_channel(channel: Channel) -> dict[str, Any]:
    return {"app": channel.app, "name": channel.name, "stream": channel.stream}


def _player(viewer: int, word: int) -> str:
    """Of a playing session: an id like a UUID."""
    digits = f"{word:016x}{viewer:016x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _event(**fields: Any) -> EventRecord:
    return EventRecord(**({**TEXTS, "sequence": 0, "bytes_in": 0, "bytes_out": 0, "detail": "{}"} | fields))
