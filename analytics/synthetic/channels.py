"""Who publishes: streams with their application, key, encoder, uplink, hours on air and audience."""

from dataclasses import dataclass
from math import exp

import numpy as np

FIRST_ID = 1_000_001
"""Of the streams' and keys' row ids: far from those of a database's own rows, which these are not."""

NODE = "synthetic"
"""How the names of the nodes begin, and so those of all files that are made."""


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
    tells_target: bool = True


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
    Encoder(("GStreamer 1.24.2 FLV muxer",), 0.08, (3500,), (2.5, 2.0, 2.0, 12.0), swing=0.3, tells_target=False),
    Encoder(("BUTT 1.44.0",), 0.06, (0,), (0.0,), fps=(0.0,), restarts=0.005, tells_target=False),
    Encoder(("",), 0.04, (1000, 10_000), (1.0, 6.0), swing=0.15, tells_target=False),
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

    @property
    def has_video(self) -> bool:
        return self.video_kbps > 0


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
        target_kbps=round(claimed) if video_kbps and kind.tells_target else None,
        troubles=troubles,
        breaks=breaks + kind.restarts,
        begin_hour=float(lot.uniform(0, 24) if always_on else lot.normal(5, 1.5) % 24),
        always_on=always_on,
        audience=float(world.players * lot.lognormal(0, RATHER_DULL) / exp(RATHER_DULL**2 / 2)),
        rtt_ms=float(lot.uniform(8, 70) * (2.5 if uplink == "bad" else 1)),
        spare_key=stream + 5_000_000 if lot.random() < 0.1 else None,
    )
