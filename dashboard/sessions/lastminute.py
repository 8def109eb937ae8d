"""The last minute of a session, in a sentence and in a word: what there was to see before it ended."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.advice import Seen
from ingest.telemetry.series import Series

SPAN_S = 60
EDGE = 5
"""Samples at either end that are taken together, so that one odd second says nothing."""

FALLEN = 0.7
"""A bitrate that ended below this share of where it began, or of its target, fell."""
SILENT_MS = 2000
FAR_MS = 200
SLOW = 0.9
NBSP = "\u00a0"


@dataclass(frozen=True, slots=True)
class LastMinute:
    """kbit/s of audio and video at its begin and end, ms, frames a second. None: not measured."""

    seen: Seen = "nothing"
    kbps_from: float | None = None
    kbps_to: float | None = None
    wire_kbps: float | None = None
    rtt_ms: float | None = None
    fps: float | None = None
    silent_s: float = 0.0

    @property
    def sentence(self) -> str:
        """ "In the last 60 s the bitrate fell from 3,900 to 1,320 kbit/s and the round trip rose to 480 ms." """
        if self.seen == "nothing" or self.kbps_from is None or self.kbps_to is None:
            return "Nothing was measured in the last 60 s."
        fell = self.kbps_to < self.kbps_from * FALLEN
        begin, end = (_rounded(value) for value in (self.kbps_from, self.kbps_to))
        if self.silent_s:
            said = [f"no media arrived for the last {self.silent_s:.0f}{NBSP}s"]
        elif fell:
            said = [f"the bitrate fell from {begin} to {end}{NBSP}kbit/s"]
        else:
            said = [f"the bitrate was {'steady at' if self.seen != 'falling' else 'low,'} {end}{NBSP}kbit/s"]
        if self.rtt_ms is not None and self.rtt_ms > FAR_MS:
            said.append(f"the round trip rose to {self.rtt_ms:,.0f}{NBSP}ms")
        if self.seen == "slow" and self.fps is not None:
            said.append(f"only {self.fps:.1f} frames a second came")
        return f"In the last 60{NBSP}s {' and '.join(said)}."


def look(series: Series, *, target_kbps: float | None = None, nominal_fps: float | None = None) -> LastMinute:
    """What stands out in the last minute's samples."""
    if not series.at:
        return LastMinute()
    audio, video = series.values["audio_kbps"], series.values["video_kbps"]
    total = [(a or 0.0) + (v or 0.0) for a, v in zip(audio, video, strict=True)]
    idle = series.values["idle_ms"][-1] or 0.0
    spoken = [value for value in total if value]
    begin, end = _mean(total[:EDGE]) or 0.0, _mean(total[-EDGE:]) or 0.0
    found = LastMinute(
        kbps_from=begin,
        kbps_to=end,
        wire_kbps=_mean(series.values["wire_kbps"]),
        rtt_ms=max((value for value in series.values["rtt_ms"][-EDGE:] if value is not None), default=None),
        fps=_mean(series.values["fps"][-EDGE:]),
        silent_s=idle / 1000 if idle > SILENT_MS else 0.0,
    )
    video_end = _mean(video[-EDGE:]) or 0.0
    is_low = target_kbps is not None and video_end < target_kbps * FALLEN
    checks: tuple[tuple[Seen, bool], ...] = (
        ("silent", idle > SILENT_MS or not spoken),
        ("falling", end < begin * FALLEN or is_low),
        ("far", (found.rtt_ms or 0) > FAR_MS),
        ("slow", nominal_fps is not None and found.fps is not None and found.fps < nominal_fps * SLOW),
    )
    seen: Seen = next((name for name, holds in checks if holds), "steady")
    return LastMinute(seen, found.kbps_from, found.kbps_to, found.wire_kbps, found.rtt_ms, found.fps, found.silent_s)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _rounded(kbps: float) -> str:
    """To ten where there are that many: 3,900."""
    return f"{round(kbps, -1) if kbps >= 100 else kbps:,.0f}"
