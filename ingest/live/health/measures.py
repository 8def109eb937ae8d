"""What is measured by the checks of a stream, from its figures. None: there is nothing to judge.

What another check tells as the cause is not measured here, nor are the figures given (`ingest.live.judging`).
"""

from math import inf
from typing import Final

from ingest.live.health.figures import FULL_PERCENT, Figures

LONG_GOPS: Final = 2
CLEARING_LONG_GOPS: Final = 4
"""An issue of two groups of pictures clears after twice as many."""
SHORT_GOPS: Final = 5
CLEARING_SHORT_GOPS: Final = 10

MISSING_S: Final = 2.0
"""A track of which nothing has come for longer, while the other came, is not judged by its rates."""


def low_share(figures: Figures) -> float | None:
    """In percent of the target. A variable bitrate is often under what is claimed or usual: there, only with frames
    that don't come.
    """
    target = figures.target
    if target is None or figures.video_kbps is None or figures.without_video_s > MISSING_S:
        return None
    share = figures.fps_share
    if not target.is_set and (share is None or share >= FULL_PERCENT):
        return None
    return 100 * figures.video_kbps / target.kbps


def high_share(figures: Figures) -> float | None:
    """In percent of the target; of one that is claimed, by the mean of 5 min, as it may be a mean itself."""
    target = figures.target
    if target is None or target.source == "usual":
        return None
    sent = high_kbps(figures)
    return None if sent is None else 100 * sent / target.kbps


def high_kbps(figures: Figures) -> float | None:
    return figures.video_kbps if figures.target is not None and figures.target.is_set else figures.long_kbps


def limit_share(figures: Figures) -> float | None:
    if figures.sent_kbps is None or figures.max_kbps is None:
        return None
    return 100 * figures.sent_kbps / figures.max_kbps


def without_keyframes_s(figures: Figures) -> float | None:
    """How long pictures have come without one, but for the first; then the distance of keyframes is judged."""
    return None if figures.keyframe_intervals else figures.open_gop_s


def long_gops(figures: Figures) -> float | None:
    """The shorter of the last two groups of pictures; an open one counts as two of half its length."""
    open_s, intervals = figures.open_gop_s, figures.keyframe_intervals
    if open_s is None or not intervals:
        return None
    shorter = min(intervals[-LONG_GOPS:]) if len(intervals) >= LONG_GOPS else 0.0
    return max(shorter, open_s / LONG_GOPS)


def any_long_gop(figures: Figures) -> float | None:
    """The longest of the last four groups of pictures and the open one."""
    if figures.open_gop_s is None:
        return None
    last = figures.keyframe_intervals[-CLEARING_LONG_GOPS:]
    return max(figures.open_gop_s, *last) if len(last) == CLEARING_LONG_GOPS else inf


def short_gops(figures: Figures) -> float | None:
    """The longest of the last five groups of pictures."""
    intervals = figures.keyframe_intervals
    return max(intervals[-SHORT_GOPS:]) if len(intervals) >= SHORT_GOPS else None


def most_gops(figures: Figures) -> float | None:
    """No more than half of the last ten groups of pictures are shorter."""
    last = sorted(figures.keyframe_intervals[-CLEARING_SHORT_GOPS:])
    return last[len(last) // 2] if len(last) == CLEARING_SHORT_GOPS else 0.0


def fps_share(figures: Figures) -> float | None:
    """In percent of the nominal rate. Frames that are late with the bitrate are told by that."""
    if figures.without_video_s > MISSING_S or (figures.bitrate_is_low and figures.frames_are_late):
        return None
    return figures.fps_share


def skew_ms(figures: Figures) -> float | None:
    """Of two tracks that both come; a picture may be a frame's time behind."""
    skew = figures.av_skew_ms
    if skew is None or figures.without_audio_s > MISSING_S or figures.without_video_s > MISSING_S:
        return None
    if skew >= 0:
        return skew
    return max(0.0, -skew - (1000 / figures.nominal_fps if figures.nominal_fps else 0.0))


def slow_share(figures: Figures) -> float | None:
    return 100 * figures.slow_players / figures.players if figures.players else None
