"""Every figure that history keeps, once: its name, its unit, what it is over samples, how it merges, what it means.

The columns of the jobs, what is loaded, the pages' and the API's names follow from these tables; the database's fields,
`analytics.figures` and docs/analytics.md are tested against them. A figure over samples is an expression of their
columns (`Samples`): numpy arrays, so that one pass over a file makes all of them. Workers of Spark get this module by
value: it imports nothing of ours.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Samples = Any
"""The samples' columns by their names, as arrays: NaN where one that may be missing is; `is_(column, text)` of text."""

SILENCE_MS = 2000
"""A publisher starves its stream once nothing has come for so long."""

BELOW = 0.7
"""Video below this part of its target is below target."""

GOP_BINS = {
    "gop_1": 1.0,
    "gop_2": 2.0,
    "gop_2_5": 2.5,
    "gop_4": 4.0,
    "gop_6": 6.0,
    "gop_10": 10.0,
    "gop_longer": float("inf"),
}
"""Columns that count keyframe intervals: {its name: the longest interval that it counts, s}."""

SKETCH_BITS = 12
"""A HyperLogLog sketch of players has 2^12 registers: 4 KB at most, and off by 1.6 % (one standard deviation). Up to
some hundred players it has them one by one.
"""

BITRATES = ("video", "audio", "wire")
PERCENTILES = {"p5": 5, "p50": 50, "p95": 95}


class Of(StrEnum):
    """What a figure is made from, hour by hour."""

    SAMPLES = "samples"
    SESSIONS = "sessions"
    EVENTS = "events"


class Merge(StrEnum):
    """What hours add up to."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    COUNTS = "counts"
    """{what: how often}: summed by what."""
    DISTINCT = "distinct"
    """Counted anew: a session is one, in however many hours it is seen."""
    UNION = "union"
    """Of HyperLogLog sketches."""
    FIRST_OF_MAX = "first of max"
    """When the greatest was, for the first time."""
    HISTOGRAM = "histogram"
    """From the histograms, which add up."""
    DERIVED = "derived"
    """From the sums."""


class Kind(StrEnum):
    WHOLE = "whole number"
    REAL = "number"
    TIME = "time"
    """The column's name ends with `_us`, microseconds since the Unix epoch; in the database it is a date and time."""
    COUNTS = "counts"


@dataclass(frozen=True, slots=True)
class Metric:
    """A column of rollups. `over`: of samples, the column that is merged, or an expression of several."""

    name: str
    unit: str
    doc: str
    of: Of = Of.SAMPLES
    merge: Merge = Merge.SUM
    kind: Kind = Kind.WHOLE
    over: str | Callable[[Samples], Any] | None = None
    nullable: bool = False


def _arrived(s: Samples) -> Any:
    return s.video_bytes + s.audio_bytes > 0


def _targeted(s: Samples) -> Any:
    return _arrived(s) & (s.target_kbps == s.target_kbps)  # Nothing but NaN is not itself.


def _whole_kbps(s: Samples) -> Any:
    return ((s.video_kbps + 0.5) // 1).astype("int64")


def _health(word: str) -> Callable[[Samples], Any]:
    return lambda s: s.is_("health", word) * s.elapsed_ms


def _interval(over: float, up_to: float) -> Callable[[Samples], Any]:
    return lambda s: (s.keyframes > 0) & (s.keyframe_interval > over) & (s.keyframe_interval <= up_to)


def _intervals() -> list[Metric]:
    found, over = [], float("-inf")
    for name, up_to in GOP_BINS.items():
        doc = f"Keyframe intervals up to {up_to:g} s" if up_to < float("inf") else "Longer keyframe intervals"
        found.append(Metric(name, "", f"{doc}.", over=_interval(over, up_to)))
        over = up_to
    return found


def _same(name: str, unit: str, doc: str) -> Metric:
    return Metric(name, unit, doc, over=name)


MEASURED = (
    Metric("samples", "", "Samples, one a second of each publishing session.", over=lambda s: s.elapsed_ms * 0 + 1),
    _same("elapsed_ms", "ms", "Time that they cover."),
    Metric("live_ms", "ms", "Time in which audio or video came.", over=lambda s: _arrived(s) * s.elapsed_ms),
    Metric("good_ms", "ms", "Time in good health,", over=_health("good")),
    Metric("warning_ms", "ms", "with a warning,", over=_health("warning")),
    Metric("bad_ms", "ms", "and in bad health.", over=_health("bad")),
    Metric(
        "starved_ms",
        "ms",
        "Time without media beyond the first 2 s of each silence.",
        over=lambda s: (s.idle_ms - SILENCE_MS).clip(0, s.elapsed_ms),
    ),
    Metric(
        "targeted_ms",
        "ms",
        "Time in which media came and a target bitrate was known.",
        over=lambda s: _targeted(s) * s.elapsed_ms,
    ),
    Metric(
        "below_ms",
        "ms",
        "The part of it in which video came at less than 70 % of the target.",
        over=lambda s: (_targeted(s) & (s.video_kbps < BELOW * s.target_kbps)) * s.elapsed_ms,
    ),
    _same("video_bytes", "bytes", "Payload of video messages,"),
    _same("audio_bytes", "bytes", "of audio messages,"),
    _same("data_bytes", "bytes", "and of data messages."),
    _same("wire_bytes", "bytes", "Bytes on the publisher's socket."),
    _same("out_bytes", "bytes", "Bytes sent to players."),
    _same("video_frames", "", "Video frames received."),
    _same("audio_frames", "", "Audio frames received."),
    _same("keyframes", "", "Keyframes received."),
    Metric("ts_gaps", "", "Jumps of the timestamps forward,", over="ts_gap"),
    Metric("ts_regressions", "", "and back.", over="ts_regress"),
    _same("missing_frames_est", "", "Frames that did not come, by the timestamps."),
    _same("media_faults", "", "Messages whose header makes no sense, or that are cut off."),
    _same("dropped_frames", "", "Frames that slow players were not sent."),
    Metric("player_ms", "ms", "Players, times the time that they watched.", over=lambda s: s.players * s.elapsed_ms),
    Metric("kbps_sum", "kbit/s", "Of the samples' video bitrates, rounded to whole kbit/s.", over=_whole_kbps),
    Metric("kbps_squares", "(kbit/s)^2", "Of their squares.", over=lambda s: _whole_kbps(s) ** 2),
    *_intervals(),
)
"""Sums over samples: of a minute, of a session's hour, and of every rollup."""

EXTREMES = (
    Metric("peak_players", "", "Most players in a minute, summed over streams.", merge=Merge.MAX, over="players"),
    Metric(
        "keyframe_interval_max",
        "s",
        "Longest time between two keyframes.",
        merge=Merge.MAX,
        kind=Kind.REAL,
        over="keyframe_interval",
        nullable=True,
    ),
    *(
        Metric(
            f"{kind}_kbps_{merge}",
            "kbit/s",
            f"The {word} of the samples' {kind} bitrates.",
            merge=merge,
            kind=Kind.REAL,
            over=f"{kind}_kbps",
            nullable=True,
        )
        for kind in BITRATES
        for merge, word in ((Merge.MIN, "least"), (Merge.MAX, "greatest"))
    ),
)
"""The greatest and the least of samples."""

STARTED = (
    Metric("starts", "", "Publishing sessions that began.", of=Of.SESSIONS),
    Metric("broadcasts", "", "Those that began a broadcast:", of=Of.SESSIONS),
    Metric("reconnects", "", "those that went on with one, at most 300 s after the session before.", of=Of.SESSIONS),
    Metric("recovery_ms", "ms", "The gaps before them, all together.", of=Of.SESSIONS),
)
"""What a session's first hour says of its beginning; sums."""

HAPPENED = (
    Metric("ends", "", "Publishing sessions that ended,", of=Of.EVENTS),
    Metric("unplanned_ends", "", "and those whose encoder or server did not mean to.", of=Of.EVENTS),
    Metric("accepted", "", "Publishes that were accepted,", of=Of.EVENTS),
    Metric("refused", "", "and that were refused.", of=Of.EVENTS),
    Metric("plays", "", "Playing sessions that began.", of=Of.EVENTS),
)
"""What is counted from events; sums."""

COUNTED = (
    Metric(
        "refusals", "", "Refused publishes: {reason: how many}.", of=Of.EVENTS, merge=Merge.COUNTS, kind=Kind.COUNTS
    ),
    Metric(
        "end_reasons", "", "Ended sessions: {reason: how many}.", of=Of.EVENTS, merge=Merge.COUNTS, kind=Kind.COUNTS
    ),
)

TOLD_APART = (
    Metric("sessions", "", "Publishing sessions that were seen in it.", of=Of.SESSIONS, merge=Merge.DISTINCT),
    Metric(
        "unique_players",
        "",
        "Addresses that began to play; null where players can't be told apart by it.",
        of=Of.EVENTS,
        merge=Merge.UNION,
        nullable=True,
    ),
)

PEAKS = (
    Metric(
        "peak_at",
        "",
        "The (first) minute of the most players.",
        merge=Merge.FIRST_OF_MAX,
        kind=Kind.TIME,
        nullable=True,
    ),
    Metric("peak_streams", "", "Most streams live in one minute.", merge=Merge.MAX),
)

RATES = tuple(
    Metric(f"{kind}_kbps_{figure}", "kbit/s", doc, merge=merge, kind=Kind.REAL, nullable=True)
    for kind in BITRATES
    for figure, merge, doc in (
        ("mean", Merge.DERIVED, f"Mean {kind} bitrate: 8 bits a byte, by the time that samples cover."),
        *(
            (
                figure,
                Merge.HISTOGRAM,
                f"{percent} % of the samples' {kind} bitrates are at most this, within 1 % of it.",
            )
            for figure, percent in PERCENTILES.items()
        ),
    )
)

METRICS = (*MEASURED, *STARTED, *HAPPENED, *COUNTED, *TOLD_APART, *EXTREMES, *PEAKS, *RATES)
