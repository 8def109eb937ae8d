"""Every figure of history, once: its name, its unit, what it is over samples or by which formula it follows, how it
merges, what it means, and how pages show it.

The columns of the jobs, what is loaded, the fields' words in the database, what follows from the sums
(`analytics.figures`), and the names, units and words of files, the API, pages and docs come from these tables. A
figure over samples is an expression of their columns (`Samples`): numpy arrays, so that one pass over a file makes all
of them. Workers of Spark get this module by value: it imports nothing of ours.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

Samples = Any
"""The samples' columns by their names, as arrays: NaN where one that may be missing is; `is_(column, text)` of text."""

SILENCE_MS = 2000
"""A publisher starves its stream once nothing has come for so long."""

BROADCAST_GAP_S = 300
"""A session that begins so long after the one before, or sooner, goes on with its broadcast."""

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

DISTINCT_PLAYERS_ERROR = "a standard deviation of 1.6\u00a0%"
"""Of what is estimated: 1.04 / sqrt(2^SKETCH_BITS)."""

BITRATES = ("video", "audio", "wire")
PERCENTILES = {"p5": 5, "p50": 50, "p95": 95}


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
    DERIVED = "derived"


class Kind(StrEnum):
    WHOLE = "whole number"
    REAL = "number"
    TIME = "time"
    """The column's name ends with `_us`, microseconds since the Unix epoch; in the database it is a date and time."""
    COUNTS = "counts"


class Shown(NamedTuple):
    """How pages show it. `low_is_bad`: sorted by it, its low end comes first. `as_percent`: a share, as per cent."""

    label: str
    decimals: int = 0
    low_is_bad: bool = False
    note: str = ""
    as_percent: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    unit: str
    doc: str

    @property
    def shown(self) -> Shown:
        return SHOWN[self.name]

    @property
    def head(self) -> str:
        """Of a column: "Uptime, %"."""
        return f"{self.shown.label}, {self.shown_unit}" if self.shown_unit else self.shown.label

    @property
    def shown_unit(self) -> str:
        return "%" if self.shown.as_percent else self.unit

    @property
    def words(self) -> str:
        """ "Bytes sent to players (bytes)." """
        return f"{self.doc.removesuffix('.')} ({self.unit})." if self.unit else self.doc


@dataclass(frozen=True, slots=True)
class Metric(Figure):
    """A column of rollups. `over`: of samples, the column that is merged, or an expression of several; empty: the
    column of its own name.
    """

    merge: Merge = Merge.SUM
    kind: Kind = Kind.WHOLE
    over: str | Callable[[Samples], Any] = ""


@dataclass(frozen=True, slots=True)
class Derived(Figure):
    """What follows from the sums of a row, or of several. `formula`: as Python has it, of metrics and of what stands
    before it here. Where it divides by 0 there is none; `always`: it doesn't.
    """

    formula: str
    always: bool = False


def _arrived(s: Samples) -> Any:
    return s.video_bytes + s.audio_bytes > 0


def _targeted(s: Samples) -> Any:
    return _arrived(s) & (s.target_kbps == s.target_kbps)  # Nothing but NaN is not itself.


def _whole_kbps(s: Samples) -> Any:
    return (s.video_kbps + 0.5).astype("int64")  # Which cuts off what is behind the point: none is below 0.


def _health(word: str) -> Callable[[Samples], Any]:
    return lambda s: s.is_("health", word) * s.elapsed_ms


def _interval(over: float, up_to: float) -> Callable[[Samples], Any]:
    return lambda s: (s.keyframes > 0) & (s.keyframe_interval > over) & (s.keyframe_interval <= up_to)


def _intervals() -> list[Metric]:
    found, over = [], float("-inf")
    for name, up_to in GOP_BINS.items():
        bounds = [f"of more than {over:g} s"] * (over > 0) + [f"up to {up_to:g} s"] * (up_to < float("inf"))
        found.append(Metric(name, "", f"Keyframe intervals {' and '.join(bounds)}.", over=_interval(over, up_to)))
        over = up_to
    return found


MEASURED = (
    Metric(
        "samples",
        "",
        "Samples, one a second of each publishing session, each counted once.",
        over=lambda s: s.elapsed_ms * 0 + 1,
    ),
    Metric("elapsed_ms", "ms", "Time that samples cover."),
    Metric("live_ms", "ms", "Time in which audio or video came.", over=lambda s: _arrived(s) * s.elapsed_ms),
    Metric("good_ms", "ms", "Time in good health.", over=_health("good")),
    Metric("warning_ms", "ms", "Time with a warning.", over=_health("warning")),
    Metric("bad_ms", "ms", "Time in bad health.", over=_health("bad")),
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
        "Time in which a target was known, and video came at less than 70 % of it.",
        over=lambda s: (_targeted(s) & (s.video_kbps < BELOW * s.target_kbps)) * s.elapsed_ms,
    ),
    Metric("video_bytes", "bytes", "Payload of video messages."),
    Metric("audio_bytes", "bytes", "Payload of audio messages."),
    Metric("data_bytes", "bytes", "Payload of data messages."),
    Metric("wire_bytes", "bytes", "Bytes on the publisher's socket."),
    Metric("out_bytes", "bytes", "Bytes sent to players."),
    Metric("video_frames", "", "Video frames received."),
    Metric("audio_frames", "", "Audio frames received."),
    Metric("keyframes", "", "Keyframes received."),
    Metric("ts_gaps", "", "Jumps of the timestamps forward.", over="ts_gap"),
    Metric("ts_regressions", "", "Jumps of the timestamps back.", over="ts_regress"),
    Metric("missing_frames_est", "", "Frames that did not come, by the timestamps."),
    Metric("media_faults", "", "Messages whose header makes no sense, or that are cut off."),
    Metric("dropped_frames", "", "Frames that slow players were not sent."),
    Metric("player_ms", "ms", "Players, times the time that they watched.", over=lambda s: s.players * s.elapsed_ms),
    Metric(
        "viewer_ms", "ms", "The same of those of them that watched by HLS.", over=lambda s: s.viewers * s.elapsed_ms
    ),
    Metric(
        "kbps_sum", "kbit/s", "Sum of the samples' video bitrates, in whole kbit/s, halves upward.", over=_whole_kbps
    ),
    Metric("kbps_squares", "(kbit/s)^2", "Sum of the squares of these.", over=lambda s: _whole_kbps(s) ** 2),
    *_intervals(),
)
"""Sums over samples: of a minute, of a session's hour, and of every rollup."""

EXTREMES = (
    Metric(
        "peak_players",
        "",
        "Most players in a minute: the sum over streams of the most in it.",
        merge=Merge.MAX,
        over="players",
    ),
    Metric(
        "peak_viewers",
        "",
        "Most viewers by HLS in a minute: the sum over streams of the most in it.",
        merge=Merge.MAX,
        over="viewers",
    ),
    Metric(
        "keyframe_interval_max",
        "s",
        "Longest time between two keyframes.",
        merge=Merge.MAX,
        kind=Kind.REAL,
        over="keyframe_interval",
    ),
    *(
        Metric(
            f"{kind}_kbps_{merge}",
            "kbit/s",
            f"The {word} of the samples' {kind} bitrates.",
            merge=merge,
            kind=Kind.REAL,
            over=f"{kind}_kbps",
        )
        for kind in BITRATES
        for merge, word in ((Merge.MIN, "least"), (Merge.MAX, "greatest"))
    ),
)

SESSION_SUMS = (
    Metric("starts", "", "Publishing sessions that began."),
    Metric("broadcasts", "", "Publishing sessions that began a broadcast."),
    Metric(
        "reconnects", "", "Publishing sessions that went on with a broadcast, at most 300 s after the session before."
    ),
    Metric("recovery_ms", "ms", "The gaps before reconnects, all together."),
)
"""What a session's first hour says of its beginning; sums."""

EVENT_SUMS = (
    Metric("ends", "", "Publishing sessions that ended."),
    Metric("unplanned_ends", "", "Publishing sessions whose end neither the encoder nor the server meant."),
    Metric("accepted", "", "Publishes that were accepted."),
    Metric("refused", "", "Publishes, or connects, that were refused."),
    Metric("plays", "", "Playing sessions that began."),
    Metric("viewer_reports", "", "Viewers by HLS that left, and whose page had told how it played."),
    Metric("viewer_joins", "", "Those of these pages that got a picture."),
    Metric("viewer_join_ms", "ms", "From when these pages were to play to that picture, all together."),
    Metric("viewer_stalled_ms", "ms", "Time in which these pages waited for media, after their first picture."),
    Metric("viewer_watched_ms", "ms", "Time in which these pages played."),
)
"""What is counted from events; sums."""

REASON_COUNTS = (
    Metric("refusals", "", "What was refused: {reason: how many}.", merge=Merge.COUNTS, kind=Kind.COUNTS),
    Metric(
        "end_reasons",
        "",
        "Why publishing sessions ended: {reason: how many}.",
        merge=Merge.COUNTS,
        kind=Kind.COUNTS,
    ),
)

DISTINCT = (
    Metric("sessions", "", "Publishing sessions that were seen.", merge=Merge.DISTINCT),
    Metric(
        "unique_players",
        "",
        "Distinct salted addresses that began to play, by HyperLogLog; null where players can't be told apart.",
        merge=Merge.UNION,
    ),
)

PEAKS = (
    Metric(
        "peak_at",
        "",
        "The minute of the most players, the first one of several.",
        merge=Merge.FIRST_OF_MAX,
        kind=Kind.TIME,
    ),
    Metric("peak_streams", "", "Most streams live in one minute.", merge=Merge.MAX),
)

RATES = tuple(
    Metric(f"{kind}_kbps_{figure}", "kbit/s", doc, merge=merge, kind=Kind.REAL)
    for kind in BITRATES
    for figure, merge, doc in (
        ("mean", Merge.DERIVED, f"Mean {kind} bitrate: the bytes, by the time that samples cover."),
        *(
            (
                figure,
                Merge.HISTOGRAM,
                f"{percent} % of the samples' {kind} bitrates are at most this, by nearest rank, within 1 % of it.",
            )
            for figure, percent in PERCENTILES.items()
        ),
    )
)

METRICS = (*MEASURED, *SESSION_SUMS, *EVENT_SUMS, *REASON_COUNTS, *DISTINCT, *EXTREMES, *PEAKS, *RATES)

DERIVED = (
    Derived("live_h", "h", "Time in which audio or video came.", "live_ms / 3_600_000", always=True),
    Derived(
        "uptime_percent",
        "%",
        "Of the time of its sessions and of the gaps that they recovered from, that in which audio or video came.",
        "100 * live_ms / (elapsed_ms + recovery_ms)",
    ),
    Derived(
        "health_percent",
        "%",
        "Of the time in which its health was known, that in good health; a warning is half.",
        "100 * (good_ms + 0.5 * warning_ms) / (good_ms + warning_ms + bad_ms)",
    ),
    Derived(
        "bad_percent",
        "%",
        "Of the time in which its health was known, that in bad health.",
        "100 * bad_ms / (good_ms + warning_ms + bad_ms)",
    ),
    Derived(
        "warning_percent",
        "%",
        "Of the time in which its health was known, that with a warning.",
        "100 * warning_ms / (good_ms + warning_ms + bad_ms)",
    ),
    Derived(
        "lost_min",
        "min",
        "Lost time: the gaps before reconnects, and of the sessions the time without media or that in bad health, "
        "whichever is longer.",
        "(recovery_ms + max(bad_ms, elapsed_ms - live_ms)) / 60_000",
        always=True,
    ),
    Derived(
        "below_percent",
        "%",
        "Of the live time in which a target was known, that with video of less than 70 % of it.",
        "100 * below_ms / targeted_ms",
    ),
    Derived(
        "starvation_percent",
        "%",
        "Of the time, that without media beyond the first 2 s of each silence.",
        "100 * starved_ms / elapsed_ms",
    ),
    Derived("reconnects_per_hour", "per hour", "Reconnects per hour of live time.", "reconnects / live_h"),
    Derived(
        "mtbf_h",
        "h",
        "Live time between drops (unplanned ends); null without one: then it is more than live_h.",
        "live_h / unplanned_ends",
    ),
    Derived(
        "mttr_s",
        "s",
        "Mean time to the next publish, over the gaps before reconnects.",
        "recovery_ms / 1000 / reconnects",
    ),
    Derived(
        "cv",
        "",
        "Standard deviation of the samples' video bitrates, as a share of their mean.",
        "sqrt(max(0, samples * kbps_squares - kbps_sum ** 2)) / kbps_sum",
    ),
    Derived(
        "missing_percent",
        "%",
        "Of all video frames, those that did not come, by the timestamps.",
        "100 * missing_frames_est / (video_frames + missing_frames_est)",
    ),
    Derived("gaps_per_hour", "per hour", "Jumps of the timestamps forward, per hour of live time.", "ts_gaps / live_h"),
    Derived(
        "keyframe_late_percent",
        "%",
        "Of the keyframe intervals, those of more than 4 s.",
        f"100 * (gop_6 + gop_10 + gop_longer) / ({' + '.join(GOP_BINS)})",
    ),
    Derived(
        "success_percent",
        "%",
        "Of the publishes that were tried, those that were accepted.",
        "100 * accepted / (accepted + refused)",
    ),
    Derived("average_players", "", "Players, while it was live.", "player_ms / live_ms"),
    Derived("player_minutes", "min", "Time that players watched.", "player_ms / 60_000", always=True),
    Derived("player_hours", "h", "Time that players watched.", "player_ms / 3_600_000", always=True),
    Derived("viewer_minutes", "min", "Time that viewers by HLS watched.", "viewer_ms / 60_000", always=True),
    Derived("viewer_hours", "h", "Time that viewers by HLS watched.", "viewer_ms / 3_600_000", always=True),
    Derived(
        "viewer_join_s",
        "s",
        "Mean time from when a page was to play to its first picture, of viewers by HLS whose page told it.",
        "viewer_join_ms / 1000 / viewer_joins",
    ),
    Derived(
        "viewer_stalled_percent",
        "%",
        "Of the time in which pages of viewers by HLS played or waited for media, that in which they waited.",
        "100 * viewer_stalled_ms / (viewer_stalled_ms + viewer_watched_ms)",
    ),
    Derived("delivered_gb", "GB", "What was sent to players.", "out_bytes / 10 ** 9", always=True),
)

ALL: tuple[Figure, ...] = (*METRICS, *DERIVED)
BY_NAME = {figure.name: figure for figure in ALL}

SHOWN = {
    "health_percent": Shown("Health score", 1, low_is_bad=True),
    "bad_percent": Shown("Time in bad", 1),
    "warning_percent": Shown("Time in warning", 1),
    "lost_min": Shown("Lost time", 1),
    "uptime_percent": Shown("Uptime", 1, low_is_bad=True),
    "live_h": Shown("Live time", 1),
    "video_kbps_mean": Shown("Mean bitrate", low_is_bad=True),
    "below_percent": Shown("Below target", 1),
    "unplanned_ends": Shown("Drops"),
    "mtbf_h": Shown("Mean time between drops", 1, low_is_bad=True),
    "mttr_s": Shown("Mean time to recover", 1),
    "reconnects": Shown(
        "Reconnects", note="publishes within 5 min of the end before, after drops and clean stops alike"
    ),
    "missing_percent": Shown("Dropped frames (estimate)", 2),
    "cv": Shown("Bitrate variation", as_percent=True),
    "keyframe_late_percent": Shown("Keyframe intervals > 4 s", 1),
    "peak_players": Shown("Peak players"),
    "average_players": Shown("Average players", 1),
    "peak_viewers": Shown("Peak viewers by HLS"),
    "viewer_hours": Shown("Viewer hours by HLS", 1),
    "viewer_join_s": Shown("Time to first picture (HLS)", 1),
    "viewer_stalled_percent": Shown("Waited for media (HLS)", 2),
    "viewer_reports": Shown("Viewers that reported (HLS)", note="by the watch page; other players tell nothing"),
    "player_hours": Shown("Player hours", 1),
    "delivered_gb": Shown("Egress", 3),
    "success_percent": Shown("Connections accepted", 1, low_is_bad=True),
    "starvation_percent": Shown("No data > 2 s", 2),
    "gaps_per_hour": Shown("Timestamp jumps", 2),
    "media_faults": Shown("Malformed media"),
    "keyframe_interval_max": Shown("Longest keyframe interval", 1),
    "plays": Shown("Play sessions"),
    "unique_players": Shown("Unique players", note=f"by address, with {DISTINCT_PLAYERS_ERROR}"),
    "dropped_frames": Shown("Frames dropped for slow players"),
}
"""Those that pages have as a tile's or a column's."""
