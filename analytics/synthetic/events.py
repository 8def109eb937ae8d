"""What happens in an hour: sessions of publishers and players that begin and end, and attempts that are refused."""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from analytics.synthetic.audience import HOUR_US, Plays
from analytics.synthetic.channels import Channel, World
from analytics.synthetic.plan import Session
from analytics.synthetic.samples import node_name
from ingest.contracts import EventRecord
from ingest.services.refusals import CODES, REASONS, UNCHECKED, Action
from ingest.telemetry.schema import EVENTS

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
PLAYED = "LNX 9,0,124,2"

TEXTS = {field.name: "" for field in EVENTS.schema if field.type == pa.string()}


def hour_of_events(
    sessions: Sequence[Session], cast: Sequence[Channel], plays: Plays, hour: int, world: World, seed: int
) -> dict[str, pa.Table]:
    """The events of an hour (whole hours since the epoch) by node, by time. `plays`: those that were in it."""
    found = [
        *_of_publishers(sessions, hour),
        *_of_players(plays, cast, hour, seed),
        *_of_attempts(cast, hour, world, seed),
    ]
    found.sort(key=attrgetter("node", "at_us", "session"))
    return {
        node: pa.Table.from_batches([EVENTS.batch(list(records))])
        for node, records in groupby(found, attrgetter("node"))
    }


def _of_publishers(sessions: Sequence[Session], hour: int) -> Iterator[EventRecord]:
    for session in sessions:
        channel = session.channel
        common: dict[str, Any] = {
            **_of_channel(channel),
            "session": session.id,
            "node": node_name(session.node),
            "key": session.key,
            "session_kind": "publish",
            "encoder": session.encoder,
            "address_hash": f"{session.word:016x}",
        }
        if session.begin_us // HOUR_US == hour:
            yield _event(**common, sequence=1, at_us=session.begin_us, kind="session.started", level="status")
        if session.end_us // HOUR_US == hour:
            lasted_ms = (session.end_us - session.begin_us) // 1000
            yield _event(
                **common,
                sequence=2,
                at_us=session.end_us,
                kind="session.ended",
                level="status",
                code=session.reason,
                reason=session.reason,
                # As if it had been sent without troubles: the samples tell what came.
                bytes_in=(channel.video_kbps + channel.kind.audio_kbps) * lasted_ms // 8,
                detail=json.dumps({"duration_ms": lasted_ms}),
            )


def _of_players(plays: Plays, cast: Sequence[Channel], hour: int, seed: int) -> Iterator[EventRecord]:
    lot = np.random.default_rng([seed, 9, hour])
    begins, ends = plays.begin_us // HOUR_US == hour, plays.end_us // HOUR_US == hour
    reasons = lot.choice(len(PLAYER_ENDS), len(plays), p=PLAYER_SHARES)
    for row in np.flatnonzero(begins | ends).tolist():
        channel = cast[plays.number[row]]
        begin_us, end_us = int(plays.begin_us[row]), int(plays.end_us[row])
        common: dict[str, Any] = {
            **_of_channel(channel),
            "session": _player(int(plays.viewer[row]), int(plays.word[row])),
            "node": node_name(channel.node),
            "key": None,
            "session_kind": "play",
            "encoder": PLAYED,
            "address_hash": f"{int(plays.viewer[row]):016x}",
        }
        if begins[row]:
            yield _event(**common, sequence=1, at_us=begin_us, kind="session.started", level="status")
        if ends[row]:
            reason = PLAYER_ENDS[reasons[row]]
            kbps = channel.video_kbps + channel.kind.audio_kbps
            yield _event(
                **common,
                sequence=2,
                at_us=end_us,
                kind="session.ended",
                level="status",
                code=reason,
                reason=reason,
                bytes_out=kbps * (end_us - begin_us) // 8000,
                detail=json.dumps({"duration_ms": (end_us - begin_us) // 1000}),
            )


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
