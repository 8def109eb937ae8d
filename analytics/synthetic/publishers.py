"""Who publishes, and when: streams with their encoder, uplink and hours on air; how each session ends, what goes wrong.

All is drawn by lot and follows from its place alone (`words`, `uniform`: SplitMix64 of Steele, Lea, Flood, "Fast
splittable pseudorandom number generators", as arrays of unsigned 64-bit words): the same whichever hour, file or order
asks. A stream's day begins at its own hour and follows from (seed, stream, day), so any hour can be made without those
before it. Sessions begin and end in the first eight tenths of a second: nodes sample after that."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from math import exp
from typing import TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ingest.contracts import EndReason

Words: TypeAlias = NDArray[np.uint64]
Reals: TypeAlias = NDArray[np.float64]

STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)
MANTISSA = np.float64(1 / (1 << 53))


def words(*places: NDArray[np.integer] | int) -> Words:
    """A word of each place: whole numbers, not negative, that broadcast."""
    mixed = np.zeros(1, np.uint64)
    for place in places:
        mixed = _mix(mixed ^ _mix(np.atleast_1d(np.asarray(place)).astype(np.uint64)))
    return mixed


def uniform(*places: NDArray[np.integer] | int) -> Reals:
    """From 0 up to 1, without it."""
    return (words(*places) >> np.uint64(11)) * MANTISSA


def _mix(word: Words) -> Words:
    word = word + STEP  # Wraps, as it has to.
    word = (word ^ (word >> np.uint64(30))) * FIRST
    word = (word ^ (word >> np.uint64(27))) * SECOND
    return word ^ (word >> np.uint64(31))


FIRST_ID = 1_000_001
"""Of the streams' and keys' row ids: far from those of a database's own rows, which these are not."""

NODE = "synthetic"
"""How the names of the nodes begin, and so those of all files that are made."""


def node_name(node: int) -> str:
    return f"{NODE}-{node + 1}"


@dataclass(frozen=True, slots=True)
class World:
    """What a lake is filled with. Shares are from 0 to 1."""

    nodes: int = 3
    always_on: float = 0.4
    """The share of streams that are on air day and night; the others have one or two programmes a day."""
    bad: float = 0.1
    """The share with a bad uplink; as many again have one that is bad now and then."""
    players: float = 6.0
    """Of a stream on air, in the mean of the day; most have few, and few have most."""
    twice: float = 0.0
    """The share of sample files whose rows are in another file as well."""


USUAL = World()


@dataclass(frozen=True, slots=True)
class Encoder:
    """A kind of encoder. `names`: how it names itself; rates are kbit/s."""

    names: tuple[str, ...]
    share: float
    video_kbps: tuple[int, ...]
    keyframes_s: tuple[float, ...]
    fps: tuple[float, ...] = (30.0,)
    audio_kbps: int = 128
    restarts: float = 0.01
    """Interruptions an hour that are its own."""
    swing: float = 0.02
    """How far its rate wanders: little of CBR, much of VBR."""
    has_target: bool = True


ENCODERS = (
    Encoder(
        ("FMLE/3.0 (compatible; FMSc/1.0)",),
        0.4,
        (2500, 4500, 6000, 8000),
        (2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 4.0, 8.333),
        fps=(30.0, 60.0, 29.97),
        audio_kbps=160,
        restarts=0.03,
    ),
    Encoder(
        ("Lavf61.7.100", "Lavf60.16.100"),
        0.2,
        (1500, 3000, 5000),
        (2.0, 2.0, 2.5, 2.0, 8.0, 10.0),
        fps=(25.0, 50.0),
        swing=0.2,
    ),
    Encoder(("vMix 27.0.0.49",), 0.1, (4000, 6000), (2.0,), fps=(50.0, 25.0)),
    Encoder(("Larix/1.3.45",), 0.12, (1200, 2000), (2.0, 1.0), restarts=0.35, swing=0.08),
    Encoder(("GStreamer 1.24.2 FLV muxer",), 0.08, (3500,), (2.5, 2.0, 2.0, 12.0), swing=0.3, has_target=False),
    Encoder(("BUTT 1.44.0",), 0.06, (0,), (1.0,), fps=(0.0,), restarts=0.005, has_target=False),
    Encoder(("",), 0.04, (1000, 10_000), (1.0, 6.0), swing=0.15, has_target=False),
)


@dataclass(frozen=True, slots=True)
class Channel:
    """A stream and what publishes to it."""

    number: int
    app: str
    name: str
    stream: int
    key: int | None
    node: int
    encoder: str
    kind: Encoder
    video_kbps: int
    keyframe_s: float
    fps: float
    target_kbps: int | None
    troubles: float
    """Dips, silences and losses an hour on air."""
    breaks: float
    """Interruptions an hour on air."""
    begin_hour: float
    """When its day begins, UTC: always on, it restarts then; else its programmes are within the 24 hours after."""
    always_on: bool
    audience: float
    """Mean players over a day on air."""
    rtt_ms: float
    spare_key: int | None
    """Of a second encoder that takes over now and then."""


UPLINKS = {"good": (0.02, 0.01), "shaky": (0.5, 0.15), "bad": (4.0, 0.9)}
"""Troubles and interruptions an hour."""

RATHER_DULL = 1.4
"""Sigma of the audiences' lognormal distribution."""

APPS = (("live", 0.6), ("sport", 0.25), ("events", 0.15))


def channels(count: int, seed: int, world: World) -> list[Channel]:
    """So many streams; the first ones are the same, however many there are."""
    return [_channel(number, np.random.default_rng([seed, 1, number]), world) for number in range(count)]


def _channel(number: int, lot: np.random.Generator, world: World) -> Channel:
    kind = ENCODERS[lot.choice(len(ENCODERS), p=[encoder.share for encoder in ENCODERS])]
    video_kbps = int(lot.choice(kind.video_kbps))
    app = str(lot.choice([name for name, _ in APPS], p=[share for _, share in APPS])) if video_kbps else "radio"
    luck = lot.random()
    uplink = "bad" if luck < world.bad else "shaky" if luck < 2 * world.bad else "good"
    troubles, breaks = UPLINKS[uplink]
    always_on = bool(lot.random() < world.always_on)
    stream = FIRST_ID + number
    # One in thirty is set to a target that its encoder does not reach.
    claimed = video_kbps * (1.6 if lot.random() < 1 / 30 else 1.0)
    return Channel(
        number=number,
        app=app,
        name=f"channel-{number + 1:05d}",
        stream=stream,
        key=stream if lot.random() < 0.93 else None,
        node=int(lot.integers(world.nodes)),
        encoder=str(lot.choice(kind.names)),
        kind=kind,
        video_kbps=video_kbps,
        keyframe_s=float(lot.choice(kind.keyframes_s)),
        fps=float(lot.choice(kind.fps)),
        target_kbps=round(claimed) if video_kbps and kind.has_target else None,
        troubles=troubles,
        breaks=breaks + kind.restarts,
        begin_hour=float(lot.uniform(0, 24) if always_on else lot.normal(5, 1.5) % 24),
        always_on=always_on,
        audience=float(world.players * lot.lognormal(0, RATHER_DULL) / exp(RATHER_DULL**2 / 2)),
        rtt_ms=float(lot.uniform(8, 70) * (2.5 if uplink == "bad" else 1)),
        spare_key=stream + 5_000_000 if lot.random() < 0.1 else None,
    )


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

    @property
    def node_name(self) -> str:
        return node_name(self.node)

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
        away = world.nodes > 1 and lot.random() < ELSEWHERE
        yield Session(
            id=str(UUID(bytes=lot.bytes(16), version=4)),
            word=int(lot.integers(1 << 32)),
            channel=channel,
            begin_us=_early(since, lot),
            end_us=_early(end, lot),
            reason=reason,
            node=(channel.node + 1) % world.nodes if away else channel.node,
            key=channel.spare_key if spare else channel.key,
            encoder="Lavf61.7.100" if spare else channel.encoder,
        )
        if last:
            return
        (least, most), _ = GAPS[lot.choice(len(GAPS), p=[share for _, share in GAPS])]
        since = end - lot.uniform(*OVERLAP_S) if takeover else end + lot.uniform(least, most)
        spare = channel.spare_key is not None and (takeover or lot.random() < 0.3)


def _early(seconds: float, lot: np.random.Generator) -> int:
    """The moment, in the first eight tenths of its second, in microseconds."""
    return int(seconds) * SECOND_US + int(lot.integers(20_000, LATEST_US))
