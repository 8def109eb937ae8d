"""What was measured of a session: its samples from the lake, its last minute in a sentence and in a word, and its lanes
on one time axis (state, health, the statuses that were sent, what operators did).

Times of lanes are seconds since the epoch."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from django.conf import settings
from django.utils import timezone

from dashboard.templatetags.ui import ended_words
from ingest.live.description import claimed
from ingest.live.publication import MOST_KBPS
from ingest.models import Session, StatusEvent
from ingest.services.sessions import event_payload
from ingest.telemetry.series import Series

LastMinuteKind = Literal["nothing", "silent", "falling", "far", "slow", "steady"]
"""In the last minute: no samples, no media at the end, a falling bitrate, a long round trip, too few frames, none of
these.
"""


LAST_S = 60
AFTER = timedelta(seconds=3)
"""How long after a session's end its last sample may be taken."""

MOST_POINTS = 20_000
"""As many as are read at once; more are gathered."""

BUDGET_S = 6.0
LAST_BUDGET_S = 2.0


def ended(session: Session) -> datetime:
    return session.ended_at or timezone.now()


def target_kbps(session: Session) -> float | None:
    """What its video ought to have, by its node: the stream's own target, else what the encoder claimed."""
    own = session.stream.target_kbps if session.stream else None
    metadata = session.summary.get("metadata")
    return own or (claimed(metadata, "videodatarate", most=MOST_KBPS) if isinstance(metadata, dict) else None)


Window = tuple[float, float]
"""A part of a session, from and to, in seconds since the epoch."""


def samples(session: Session, *, points: int, span_s: float | None = None, window: Window | None = None) -> Series:
    """All of its samples, or those of a `window`. `span_s`: as if it had lasted so many seconds, for two with spans of
    one length.
    """
    if window is not None:
        since, until = (datetime.fromtimestamp(at, UTC) for at in window)
        return _read(session, since, until + AFTER if until >= ended(session) else until, points, BUDGET_S)
    until = ended(session) + AFTER if span_s is None else session.started_at + timedelta(seconds=span_s)
    return _read(session, session.started_at, until, points, BUDGET_S)


def last_minute(session: Session) -> Series:
    end = ended(session)
    return _read(session, end - timedelta(seconds=LAST_S), end + AFTER, 2 * LAST_S, LAST_BUDGET_S)


def _read(session: Session, since: datetime, until: datetime, points: int, budget_s: float) -> Series:
    from ingest.telemetry.reading import read_session  # Arrow is loaded where samples are read.

    return read_session(
        settings.LAKE_DIR,
        str(session.pk),
        _us(since),
        max(_us(since) + 1, _us(until)),
        node=session.node.name if session.node else "",
        points=points,
        budget_s=budget_s,
    )


def _us(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000)


EDGE = 5
"""Samples at either end that are taken together, so that one odd second says nothing."""

FALLEN = 0.7
"""A bitrate that ended below this share of where it began, or of its target, fell."""
STEADY = 0.15
"""A bitrate whose end is within this share of its mean was steady."""
SILENT_MS = 2000
FAR_MS = 200
SLOW = 0.9
NBSP = "\u00a0"


@dataclass(frozen=True, slots=True)
class LastMinute:
    """kbit/s (audio and video together) at its begin, its end and on the mean; ms; fps. None: not measured."""

    seen: LastMinuteKind = "nothing"
    span_s: float = LAST_S
    """How much of it was measured: a session may have been shorter."""
    kbps_from: float | None = None
    kbps_to: float | None = None
    mean_kbps: float | None = None
    """By all its bytes, as the session's mean is."""
    wire_kbps: float | None = None
    rtt_ms: float | None = None
    fps: float | None = None
    silent_s: float = 0.0

    @property
    def sentence(self) -> str:
        """ "In the last 60 s the total bitrate fell from 3,900 to 1,320 kbit/s and the RTT rose to 480 ms." """
        if self.seen == "nothing" or self.kbps_from is None or self.kbps_to is None:
            return "Nothing was measured of its last minute."
        if self.silent_s:
            parts = [f"nothing was received for the last {self.silent_s:.0f}{NBSP}s"]
        else:
            parts = [f"the total bitrate {self._bitrate(self.kbps_from, self.kbps_to)}{NBSP}kbit/s"]
        if self.rtt_ms is not None and self.rtt_ms > FAR_MS:
            parts.append(f"the RTT rose to {self.rtt_ms:,.0f}{NBSP}ms")
        if self.seen == "slow" and self.fps is not None:
            parts.append(f"the frame rate was only {self.fps:.1f}{NBSP}fps")
        return f"In the last {self.span_s:.0f}{NBSP}s {' and '.join(parts)}."

    def _bitrate(self, begin: float, end: float) -> str:
        mean = end if self.mean_kbps is None else self.mean_kbps
        if end < begin * FALLEN:
            return f"fell from {_rounded(begin)} to {_rounded(end)}"
        if self.seen == "falling":
            return f"was low, {_rounded(end)}"
        if abs(end - mean) <= STEADY * mean:
            return f"was steady at {_rounded(mean)}"
        return f"was {_rounded(mean)} on average, at the end {_rounded(end)}"


def summarize_last_minute(
    series: Series, *, target_kbps: float | None = None, nominal_fps: float | None = None
) -> LastMinute:
    """What stands out in the last minute's samples."""
    if not series.at:
        return LastMinute()
    audio, video = series.values["audio_kbps"], series.values["video_kbps"]
    total = [(a or 0.0) + (v or 0.0) for a, v in zip(audio, video, strict=True)]
    idle = series.values["idle_ms"][-1] or 0.0
    spoken = [value for value in total if value]
    begin, end = _mean(total[:EDGE]) or 0.0, _mean(total[-EDGE:]) or 0.0
    minute = LastMinute(
        span_s=min(LAST_S, series.totals.measured_s or LAST_S),
        kbps_from=begin,
        kbps_to=end,
        mean_kbps=series.totals.mean_kbps,
        wire_kbps=_mean(series.values["wire_kbps"]),
        rtt_ms=max((value for value in series.values["rtt_ms"][-EDGE:] if value is not None), default=None),
        fps=_mean(series.values["fps"][-EDGE:]),
        silent_s=idle / 1000 if idle > SILENT_MS else 0.0,
    )
    video_end = _mean(video[-EDGE:]) or 0.0
    is_low = target_kbps is not None and video_end < target_kbps * FALLEN
    checks: tuple[tuple[LastMinuteKind, bool], ...] = (
        ("silent", idle > SILENT_MS or not spoken),
        ("falling", end < begin * FALLEN or is_low),
        ("far", (minute.rtt_ms or 0) > FAR_MS),
        ("slow", nominal_fps is not None and minute.fps is not None and minute.fps < nominal_fps * SLOW),
    )
    seen: LastMinuteKind = next((name for name, holds in checks if holds), "steady")
    return replace(minute, seen=seen)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _rounded(kbps: float) -> str:
    """To ten where there are that many: 3,900."""
    return f"{round(kbps, -1) if kbps >= 100 else kbps:,.0f}"


EVENTS = 500
"""The latest; the API has all."""

STATUS = (
    *("onstatus", "metadata", "publish.takeover", "config.changed", "limit.breached", "record.failed"),
    *("push.live", "push.failed", "push.stopped"),
)
"""Kinds of the lane of statuses: besides what was sent, what explains it."""

RANK = {"good": 0, "warning": 1, "bad": 2}

Span = dict[str, Any]


def events_of(session: Session, window: Window | None = None) -> list[dict[str, Any]]:
    """The latest events, or the latest up to the end of a window, newest first, as pages get them."""
    events = StatusEvent.objects.filter(session=session).order_by("-at", "-sequence")
    if window is not None:
        events = events.filter(at__lte=datetime.fromtimestamp(window[1], UTC))
    return [event_payload(event) for event in events[:EVENTS]]


def lanes(
    session: Session,
    events: Sequence[dict[str, Any]],
    gaps: Iterable[tuple[float, float]],
    window: Window | None = None,
) -> dict[str, Any]:
    """`range` [from, to]; `state` and `health`: spans {from, to, level, label}; `dots` by lane: {at, label}."""
    begin, end = session.started_at.timestamp(), ended(session).timestamp()
    first, last = window or (begin, end)
    ordered = sorted(events, key=lambda event: (event["at"], event["sequence"]))
    shown = [event for event in ordered if first <= event["at"] <= last + AFTER.total_seconds()]
    healths = _healths(ordered, begin, end) if session.kind == Session.Kind.PUBLISH else []
    return {
        "range": [first, max(last, first + 1)],
        "open": session.ended_at is None,
        "end": ended_words(session) if session.ended_at and last >= end else "",
        "state": _states(first, last, gaps),
        "health": [
            span | {"from": max(span["from"], first), "to": min(span["to"], last)}
            for span in healths
            if span["to"] > first and span["from"] < last
        ],
        "status": [event for event in shown if event["kind"] in STATUS],
        "operator": [event for event in shown if event["kind"].startswith("operator.")],
    }


def _states(begin: float, end: float, gaps: Iterable[tuple[float, float]]) -> list[Span]:
    """On air, less the gaps without media."""
    spans, at = [], begin
    for start, stop in gaps:
        spans += [{"from": at, "to": start, "level": "live"}, {"from": start, "to": stop, "level": "off"}]
        at = stop
    return [*spans, {"from": at, "to": end, "level": "live"}]


def _healths(events: Iterable[dict[str, Any]], begin: float, end: float) -> list[Span]:
    """The worst of the issues that were open at each time. An issue that gets worse is opened anew."""
    spans: list[Span] = []
    opened: dict[str, str] = {}
    at, level = begin, "good"
    for event in events:
        if event["kind"] == "health.opened":
            opened[event["code"]] = event["level"] if event["level"] in RANK else "warning"
        elif event["kind"] == "health.cleared":
            opened.pop(event["code"], None)
        else:
            continue
        worst = max(opened.values(), key=RANK.__getitem__, default="good")
        if worst != level:
            spans.append({"from": at, "to": event["at"], "level": level})
            at, level = event["at"], worst
    spans.append({"from": at, "to": end, "level": level})
    return [span for span in spans if span["to"] > span["from"]]
