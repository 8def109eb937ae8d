"""When streams are published, how each session ends, and what goes wrong in it.

A stream's day begins at its own hour and is drawn by lot from (seed, stream, day) alone, so that any hour can be made
without those before it. Sessions begin and end in the first eight tenths of a second: nodes sample after that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from uuid import UUID

import numpy as np

from analytics.synthetic.channels import Channel, World
from ingest.contracts import EndReason

DAY_S = 86_400
SECOND_US = 1_000_000
LATEST_US = 800_000

BREAKS: dict[EndReason, float] = {
    "tcp_reset": 0.56,
    "idle_timeout": 0.2,
    "client_unpublish": 0.15,
    "protocol_error": 0.03,
    "kicked": 0.02,
    "over_limit": 0.01,
    "key_revoked": 0.01,
    "node_lost": 0.01,
    "lease_lost": 0.005,
    "node_shutdown": 0.005,
}
"""How a session ends that is interrupted."""

SHORT, LONGER, LONG = (2.0, 60.0), (60.0, 299.0), (302.0, 2400.0)
GAPS = ((SHORT, 0.8), (LONGER, 0.1), (LONG, 0.1))
"""Seconds until the next session: after the long ones it is another broadcast."""

TAKEOVER = 0.06
"""The share of interruptions in which the next session begins before this one ends."""
OVERLAP_S = (1.0, 8.0)
SHORTEST_S = 10.0
"""Longer than an overlap: a session outlives the one that it replaces."""

ELSEWHERE = 0.15
"""The share of sessions on another node than the stream's usual one."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Seconds since the epoch, whole: what goes wrong from `since` up to `until`.

    `rate`: what is left of the bitrate; 0: nothing arrives. `loses`: frames are missing, and timestamps jump.
    """

    since: int
    until: int
    rate: float
    loses: bool


@dataclass(frozen=True)
class Session:
    """A publishing session. Times are microseconds since the epoch."""

    id: str
    word: int
    """A random number of its own, 32 bits."""
    channel: Channel
    begin_us: int
    end_us: int
    reason: EndReason
    node: int
    key: int | None
    encoder: str

    @cached_property
    def troubles(self) -> list[Trouble]:
        """In the order of time; they don't overlap."""
        lot = np.random.default_rng([3, self.word, self.channel.number])
        since, until = self.begin_us // SECOND_US + 15, self.end_us // SECOND_US
        found: list[Trouble] = []
        if not self.channel.troubles:
            return found
        while (since := since + round(lot.exponential(3600 / self.channel.troubles))) < until:
            lasts, kind = 2 + round(min(900, lot.lognormal(3.2, 0.9))), lot.random()
            if kind < 0.6:
                found.append(Trouble(since, since + lasts, float(lot.uniform(0.15, 0.75)), lot.random() < 0.3))
            elif kind < 0.85:
                lasts = min(lasts, 40)
                found.append(Trouble(since, since + lasts, 0.0, False))
            else:
                found.append(Trouble(since, since + lasts, float(lot.uniform(0.85, 1.0)), True))
            since += lasts + 5
        return found


def sessions(cast: list[Channel], seed: int, world: World, since_us: int, until_us: int) -> list[Session]:
    """All that have a moment within the time, by stream and begin."""
    first = date(1970, 1, 1) + timedelta(days=since_us // SECOND_US // DAY_S)
    days = [first + timedelta(days=number) for number in range(-1, (until_us - since_us) // SECOND_US // DAY_S + 2)]
    return [
        session
        for channel in cast
        for day in days
        for session in _day(channel, day, seed, world)
        if session.begin_us < until_us and session.end_us > since_us
    ]


def _day(channel: Channel, day: date, seed: int, world: World) -> Iterator[Session]:
    """The sessions of a stream's day."""
    lot = np.random.default_rng([seed, 2, channel.number, day.toordinal()])
    opens = (day - date(1970, 1, 1)).days * DAY_S + channel.begin_hour * 3600
    for since, until in _on_air(channel, opens, lot):
        yield from _broadcasts(channel, since, until, lot, world)


def _on_air(channel: Channel, opens: float, lot: np.random.Generator) -> Iterator[tuple[float, float]]:
    """Seconds since the epoch."""
    if channel.always_on:
        yield opens + 1, opens + DAY_S - lot.uniform(3, 90)
        return
    closes = opens + DAY_S - 1800
    since = opens + float(np.clip(lot.normal(10.5, 4.5), 0.1, 22)) * 3600
    for _ in range(1 + int(lot.random() < 0.4)):
        until = min(closes, since + 60 * lot.lognormal(4.9, 0.7))
        if since + 60 > until:
            return
        yield since, until
        since = until + lot.uniform(0.2, 5) * 3600


def _broadcasts(
    channel: Channel, since: float, until: float, lot: np.random.Generator, world: World
) -> Iterator[Session]:
    spare = False
    while since + SHORTEST_S < until:
        end = since + SHORTEST_S + lot.exponential(3600 / channel.breaks)
        last = end >= until - 10
        takeover = not last and lot.random() < TAKEOVER
        reason: EndReason = "client_unpublish"
        if takeover:
            reason = "replaced"
        elif not last:
            reason = list(BREAKS)[lot.choice(len(BREAKS), p=list(BREAKS.values()))]
        elif lot.random() < 0.1:
            reason = "tcp_reset"
        end = until if last else end
        yield _session(channel, since, end, reason, lot, world, spare=spare)
        if last:
            return
        (least, most), _ = GAPS[lot.choice(len(GAPS), p=[share for _, share in GAPS])]
        since = end - lot.uniform(*OVERLAP_S) if takeover else end + lot.uniform(least, most)
        spare = channel.spare_key is not None and (takeover or lot.random() < 0.3)


def _session(
    channel: Channel,
    since: float,
    until: float,
    reason: EndReason,
    lot: np.random.Generator,
    world: World,
    *,
    spare: bool,
) -> Session:
    away = world.nodes > 1 and lot.random() < ELSEWHERE
    return Session(
        id=str(UUID(bytes=lot.bytes(16), version=4)),
        word=int(lot.integers(1 << 32)),
        channel=channel,
        begin_us=_early(since, lot),
        end_us=_early(until, lot),
        reason=reason,
        node=(channel.node + 1) % world.nodes if away else channel.node,
        key=channel.spare_key if spare else channel.key,
        encoder="Lavf61.7.100" if spare else channel.encoder,
    )


def _early(seconds: float, lot: np.random.Generator) -> int:
    """The moment, in the first eight tenths of its second, in microseconds."""
    return int(seconds) * SECOND_US + int(lot.integers(20_000, LATEST_US))
