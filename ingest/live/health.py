"""Health checks: a table of what is measured and from where on it is wrong, and the engine that judges by it.

A level opens when its limit has been passed for `hold_s`, and clears when it has not been for twice as long. During
the first seconds of a session nothing is judged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, Literal

from ingest.contracts import Health, Issue
from ingest.live.limit import TOLERANCE

WARM_UP_S: Final = 10.0

Level = Literal["warning", "bad"]
LEVELS: Final[tuple[Level, ...]] = ("bad", "warning")
"""Worst first."""

NBSP: Final = "\N{NO-BREAK SPACE}"
"""Joins a figure and its unit."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What the checks look at; times in seconds."""

    idle_s: float
    no_audio_s: float | None
    """How long other media has come without audio. None: none is expected."""
    no_video_s: float | None
    keyframe_intervals: Sequence[float]
    """The latest, newest last."""
    open_gop_s: float | None
    """From the latest keyframe, or the first video, to the latest frame. None: there is no video.

    It stands still while nothing arrives: that is starving, and no long group of pictures.
    """
    sent_kbps: float | None = None
    """What the publisher sends, as a mean over seconds. None: not known yet."""
    max_kbps: int | None = None
    """The most that its key allows. None: anything."""


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the table."""

    code: str
    warning: float
    bad: float
    hold_s: float
    measure: Callable[[Figures], float | None]
    """What must be over the limit to open; None: nothing to judge."""
    title: Callable[[Figures, float], str]
    """The sentence, from the figures and the limit that was passed."""
    actual: Callable[[Figures], str]
    unit: str
    advice: str
    relapse: Callable[[Figures], float | None] | None = None
    """What must not be over the limit to clear, where it isn't `measure`."""
    expected: Callable[[Figures], str] | None = None
    """In words, where it isn't the limit in its unit."""

    def limit(self, level: Level) -> float:
        return self.bad if level == "bad" else self.warning


# --- What is measured, and its words ---

CLEARING_GOPS: Final = 4
"""An issue of two groups of pictures clears after twice as many."""


def _long_gops(figures: Figures) -> float | None:
    """The shorter of the last two groups of pictures; an open one counts as two of half its length."""
    if figures.open_gop_s is None:
        return None
    last = figures.keyframe_intervals[-2:]
    return max(min(last) if len(last) == 2 else 0.0, figures.open_gop_s / 2)


def _any_long_gop(figures: Figures) -> float | None:
    """The longest of the last four groups of pictures and the open one."""
    if figures.open_gop_s is None:
        return None
    last = figures.keyframe_intervals[-CLEARING_GOPS:]
    return max(figures.open_gop_s, *last) if len(last) == CLEARING_GOPS else inf


def _gop_is_open(figures: Figures) -> bool:
    """Whether the group of pictures under way is already longer than the last whole one."""
    age = figures.open_gop_s or 0.0
    return not figures.keyframe_intervals or age > figures.keyframe_intervals[-1]


def _gop_actual(figures: Figures) -> str:
    if _gop_is_open(figures):
        return span(figures.open_gop_s or 0.0)
    return f"{figures.keyframe_intervals[-1]:.1f}{NBSP}s"


def _gop_title(figures: Figures, limit: float) -> str:
    begin = "No keyframe has arrived for" if _gop_is_open(figures) else "A keyframe every"
    return f"{begin} {_gop_actual(figures)}, {limit:g} at most."


def _share_of_limit(figures: Figures) -> float | None:
    if figures.sent_kbps is None or figures.max_kbps is None:
        return None
    return figures.sent_kbps / figures.max_kbps


def _sent(figures: Figures) -> str:
    return f"{figures.sent_kbps or 0:.0f}{NBSP}kbit/s"


def span(seconds: float) -> str:
    """A length of time in words: 14 s, 1 min 52 s, 2 h 5 min."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}{NBSP}s"
    if whole < 3600:
        return f"{whole // 60}{NBSP}min {whole % 60}{NBSP}s"
    return f"{whole // 3600}{NBSP}h {whole % 3600 // 60}{NBSP}min"


CHECKS: Final = (
    Check(
        code="starving",
        warning=2,
        bad=5,
        hold_s=0,
        measure=lambda figures: figures.idle_s,
        actual=lambda figures: span(figures.idle_s),
        title=lambda figures, limit: f"Nothing has arrived for {span(figures.idle_s)}, {limit:g} at most.",
        unit="s",
        advice="Check that the encoder is running, then its uplink.",
    ),
    Check(
        code="gop_long",
        warning=4,
        bad=10,
        hold_s=0,  # Held for two groups of pictures: it is in what is measured.
        measure=_long_gops,
        relapse=_any_long_gop,
        actual=_gop_actual,
        title=_gop_title,
        unit="s",
        advice=f"Set the keyframe interval to 2{NBSP}s; players wait this long to start.",
    ),
    Check(
        code="no_audio",
        warning=5,
        bad=30,
        hold_s=0,
        measure=lambda figures: figures.no_audio_s,
        actual=lambda figures: span(figures.no_audio_s or 0),
        title=lambda figures, limit: f"No audio has arrived for {span(figures.no_audio_s or 0)}, {limit:g} at most.",
        unit="s",
        advice="Check the encoder's audio source, or say in the stream's settings that it has none.",
    ),
    Check(
        code="no_video",
        warning=5,
        bad=30,
        hold_s=0,
        measure=lambda figures: figures.no_video_s,
        actual=lambda figures: span(figures.no_video_s or 0),
        title=lambda figures, limit: f"No video has arrived for {span(figures.no_video_s or 0)}, {limit:g} at most.",
        unit="s",
        advice="Check the encoder's video source, or say in the stream's settings that it has none.",
    ),
    Check(
        code="over_limit",
        warning=1 + TOLERANCE,
        bad=inf,
        hold_s=10,
        measure=_share_of_limit,
        actual=_sent,
        title=lambda figures, limit: f"The encoder sends {_sent(figures)}, {figures.max_kbps} at most by its key.",
        unit="",
        expected=lambda figures: f"{figures.max_kbps}{NBSP}kbit/s at most",
        advice="Lower the encoder's bitrate, or raise the limit of its stream key.",
    ),
)


# --- The engine ---


class _Latch:
    """One level of one check: since when its limit is passed, and whether it is open."""

    __slots__ = ("_below_since", "is_open", "since")

    def __init__(self) -> None:
        self.is_open = False
        self.since: float | None = None
        """Wall time."""
        self._below_since: float | None = None

    def update(self, is_over: bool, stays: bool, wall: float, hold_s: float) -> None:
        if self.is_open:
            if stays:
                self._below_since = None
                return
            if self._below_since is None:
                self._below_since = wall
            if wall - self._below_since >= 2 * hold_s:
                self.is_open = False
                self.since = self._below_since = None
        elif not is_over:
            self.since = None
        else:
            if self.since is None:
                self.since = wall
            self.is_open = wall - self.since >= hold_s


class HealthEngine:
    """The issues of one publishing session."""

    def __init__(self, started: float, checks: Sequence[Check] = CHECKS, *, warm_up_s: float = WARM_UP_S) -> None:
        self._begins = started + warm_up_s
        self._latches = [(check, {level: _Latch() for level in LEVELS}) for check in checks]
        self.issues: list[Issue] = []

    def update(self, figures: Figures, now: float, wall: float) -> list[Issue]:
        """Judge once; to be called about once a second. The open issues, worst first, in the table's order."""
        if now < self._begins:
            return self.issues
        found: list[Issue] = []
        for check, latches in self._latches:
            value = check.measure(figures)
            lasting = value if check.relapse is None else check.relapse(figures)
            for level, latch in latches.items():
                limit = check.limit(level)
                is_over = value is not None and value > limit
                latch.update(is_over, is_over or (lasting is not None and lasting > limit), wall, check.hold_s)
            issue = _issue(check, latches, figures)
            if issue:
                found.append(issue)
        self.issues = sorted(found, key=lambda issue: LEVELS.index(issue["level"]))
        return self.issues

    @property
    def worst(self) -> Health:
        """Of the open issues; good where there is none."""
        return self.issues[0]["level"] if self.issues else "good"


def _issue(check: Check, latches: dict[Level, _Latch], figures: Figures) -> Issue | None:
    level = next((level for level in LEVELS if latches[level].is_open), None)
    if level is None:
        return None
    limit = check.limit(level)
    # It began with the lowest level that is open.
    since = min(latch.since for latch in latches.values() if latch.is_open and latch.since is not None)
    return Issue(
        check=check.code,
        level=level,
        since=since,
        actual=check.actual(figures),
        expected=check.expected(figures) if check.expected else f"{limit:g}{NBSP}{check.unit} at most",
        title=check.title(figures, limit),
        advice=check.advice,
    )
