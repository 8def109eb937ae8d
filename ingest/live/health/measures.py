"""What the checks of a stream look at, once a second, and what they measure by it. None: there is nothing to evaluate.

Among them the bitrate that its video should have, and a stream key's bitrate limit: the mean of what its publisher
sends, and for how long that has been too much.

What a track that is missing makes of the other figures is not measured here; the causes that are checks themselves are
in `STANDS_STILL` (`ingest.live.health.checks`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, Literal, NamedTuple

from ingest.contracts import PublishLimits
from ingest.live.counters import Rate

TOLERANCE: Final = 0.05
"""Over the limit is what is over it by more than this part: encoders hold their rate no better."""


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Twice the window to the end, so that no peak shorter than a window ends a session, however high it is."""

    window_s: int = 10
    close_s: float = 20.0
    """How long the mean must be over the limit without a pause to end the session: a warning comes before."""


class BitrateLimit:
    """Of one publishing session. Fed once a second with what arrived on the wire."""

    __slots__ = ("_closes", "_over_since", "_sent", "_settings", "kbps", "max_kbps")

    def __init__(self, limits: PublishLimits, settings: LimitSettings) -> None:
        self.max_kbps = limits["max_kbps"]
        self._closes = limits["over_limit"] == "close"
        self._settings = settings
        self._sent = Rate(settings.window_s)
        self.kbps: float | None = None
        """The mean over the window; None until that has passed, and without a limit."""
        self._over_since: float | None = None

    def add(self, size_bytes: int, elapsed_ms: int, now: float) -> None:
        """`size_bytes` arrived within `elapsed_ms` until `now` (monotonic, seconds)."""
        if self.max_kbps is None:
            return
        self._sent.add(size_bytes, elapsed_ms)
        mean = self.kbps = self._sent.kbps if self._sent.is_full else None
        if mean is None or mean <= self.max_kbps * (1 + TOLERANCE):
            self._over_since = None
        elif self._over_since is None:
            self._over_since = now

    def breach(self, now: float) -> str:
        """Why the session must end now, as a sentence; "" while it need not."""
        since = self._over_since
        if since is None or not self._closes or now - since < self._settings.close_s:
            return ""
        return (
            f"The mean of the last {self._settings.window_s} s was {self.kbps:.0f} kbit/s; "
            f"the stream key's limit is {self.max_kbps} kbit/s."
        )


UNBELIEVABLE: Final = 10.0
"""A claim that differs from what is usually sent by so many times, either way, is not believed."""


class Target(NamedTuple):
    kbps: float
    source: Literal["expected", "claimed", "usual"]
    """`expected`: as the stream's settings say. `claimed`: by the encoder's metadata; of a variable bitrate it is a
    ceiling or a mean. `usual`: the median of what was sent. These words are in the sentences of issues."""

    @property
    def is_set(self) -> bool:
        return self.source == "expected"


def choose_target(expected: float | None, claimed: float | None, usual: float | None) -> Target | None:
    """The first that there is; a claim has to be believable beside what is usually sent. All kbit/s."""
    if expected:
        return Target(expected, "expected")
    if claimed and (not usual or claimed / UNBELIEVABLE <= usual <= claimed * UNBELIEVABLE):
        return Target(claimed, "claimed")
    return Target(usual, "usual") if usual else None


@dataclass(slots=True)
class Figures:
    """Times in seconds unless they are named otherwise. None: not known (yet), or there is none."""

    idle_s: float = 0.0
    """Since the latest audio or video message, without pauses."""
    without_audio_s: float = 0.0
    """How long other media has come without it. It stands still while nothing comes."""
    without_video_s: float = 0.0
    expects_audio: bool = True
    expects_video: bool = True
    keyframe_intervals: Sequence[float] = ()
    """The latest, newest last; of DTS."""
    open_gop_s: float | None = None
    """From the latest keyframe, or the first video, to the latest frame. None: there is no video.

    It stands still while nothing arrives: that is starving, and no long group of pictures.
    """
    video_kbps: float | None = None
    """Mean of 5 s."""
    recent_kbps: float | None = None
    """Of the video, mean of 3 s."""
    long_kbps: float | None = None
    """Of the video, mean of 5 min."""
    target: Target | None = None
    """Of the video."""
    unevenness: float | None = None
    """How unevenly the video comes, where its pictures don't explain it: a coefficient of variation, in percent."""
    sent_kbps: float | None = None
    """All that the publisher sends, mean of 10 s."""
    max_kbps: int | None = None
    """The most that its key allows. None: anything."""
    fps: float | None = None
    """Frames a second of wall time, mean of 5 s."""
    fps_media: float | None = None
    """Frames a second of DTS."""
    nominal_fps: float | None = None
    """As claimed, else as most steps from frame to frame say."""
    drift_dev_ms: float | None = None
    """How far media is behind the mean of a minute."""
    behind_s: float | None = None
    """How far media is behind live: behind the best moment since the session began."""
    steady_s: float = 0.0
    """The same before they fell behind, if they do just now: an encoder's clock may be slow, and a silence may have
    made them late for good."""
    later_s: float = 0.0
    """By how much further they are than 3 s ago."""
    pace: float | None = None
    """Seconds of media a second, mean of 10 s."""
    slowing: int = 0
    """For how many seconds in a row media fell behind, by more than 0.3 s in each."""
    choking: int = 0
    """For how many media were late and the video's bitrate less than half of its target."""
    still_s: float = 0.0
    """How long the picture has not changed."""
    silent_s: float = 0.0
    """How long the sound has been silence."""
    av_skew_ms: float | None = None
    discontinuities: int = 0
    """Gaps in timestamps and steps back, in the last minute."""
    rtt_ms: float | None = None
    recording_failure: str = ""
    """Why what is to be recorded is not, as a sentence."""
    recording_failed_s: float | None = None
    """How long it has not been. None: it is, or need not be."""
    publishes: int = 1
    """Of the stream in the last 10 min, this one included, on any node."""
    players: int = 0
    slow_players: int = 0
    """They are more than 1.5 s behind and do not catch up, or frames were dropped for them in the last 30 s."""
    losing_players: int = 0
    """Of these: frames were dropped for them, or they are more than 5 s behind."""
    dropped_frames: int = 0
    """For slow players, in the last minute."""

    @property
    def fps_share(self) -> float | None:
        """Frames that come, in percent of the nominal rate."""
        return 100 * self.fps / self.nominal_fps if self.fps is not None and self.nominal_fps else None

    @property
    def is_late(self) -> bool:
        """Media fall behind live, or have."""
        return self.slowing >= COLLAPSE_S or (self.behind_s or 0.0) > STEADY_S

    @property
    def falls_behind(self) -> bool:
        """Media fall behind, or did within the last minute."""
        return self.slowing >= COLLAPSE_S or (self.drift_dev_ms or 0.0) > 1000 * STEADY_S

    @property
    def fallen_s(self) -> float:
        """How much further behind live they are than before they fell behind."""
        return (self.behind_s or 0.0) - self.steady_s

    @property
    def frames_are_late(self) -> bool:
        """Fewer come than should, though none is missing between them."""
        share = self.fps_share
        if share is None or share >= FULL_PERCENT or self.fps_media is None or not self.nominal_fps:
            return False
        return 100 * self.fps_media / self.nominal_fps >= FULL_PERCENT


FULL_PERCENT = 90.0
"""Of the nominal frame rate: from here on the frames count as all there."""

LACKING_S = 10.0
"""Pictures that come for so long without a keyframe, but for the first one, come without them."""

LONG_GOPS: Final = 2
CLEARING_LONG_GOPS: Final = 4
"""An issue of two groups of pictures clears after twice as many."""
SHORT_GOPS: Final = 5
CLEARING_SHORT_GOPS: Final = 10

COLLAPSE_S: Final = 3
"""Media that fall behind for so many seconds in a row: the uplink, or the encoder, has collapsed."""
CHOKING_S: Final = 2
STEADY_S: Final = 0.5
"""Media that are less behind live are not behind: networks are no steadier."""
FAR_BEHIND_S: Final = 5.0
"""What has fallen behind is told for as long as it is further behind."""
FASTEST: Final = 1.05
"""Seconds of media a second, that count as real time."""

MISSING_S: Final = 2.0
"""A track of which nothing has come for longer, while the other came, is not evaluated by its rates."""


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
    return 100 * low_kbps(figures) / target.kbps


def low_kbps(figures: Figures) -> float:
    """By the last 3 s while media collapse, so that it is told at once."""
    sent = figures.video_kbps or 0.0
    return min(sent, figures.recent_kbps) if collapses(figures) and figures.recent_kbps is not None else sent


def collapses(figures: Figures) -> bool:
    """The uplink, or the encoder, can't keep up at all: what is sent waits, or is thrown away as it would wait."""
    return figures.slowing >= COLLAPSE_S or figures.choking >= CHOKING_S


def fallen_behind_ms(figures: Figures) -> float | None:
    """What has fallen behind, and stays so: however steadily it is late, it is."""
    fallen_s = figures.fallen_s
    return 1000 * fallen_s if fallen_s > FAR_BEHIND_S else figures.drift_dev_ms


def still_late(figures: Figures) -> float | None:
    """0 % of the target, as long as what a low bitrate has made late is so."""
    return 0.0 if figures.fallen_s > FAR_BEHIND_S else None


def explains_more(figures: Figures) -> bool:
    """Of a low bitrate: whether media are late or missing by it. Where all come in time the encoder has made less."""
    share = figures.fps_share
    return figures.falls_behind or (share is not None and share < FULL_PERCENT)


def unpaced(figures: Figures) -> float | None:
    """Media that catch up with live may come faster."""
    return figures.pace if figures.behind_s is None or figures.behind_s < STEADY_S else None


def high_share(figures: Figures) -> float | None:
    """In percent of the target; of one that is claimed, by the mean of 5 min, as it may be a mean itself. Not while
    media come faster than time passes: more bytes come then, too.
    """
    target = figures.target
    if target is None or target.source == "usual" or (figures.pace or 0.0) > FASTEST:
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
    """How long pictures have come without one, but for the first; then the distance of keyframes is evaluated."""
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
    """In percent of the nominal rate."""
    return None if figures.without_video_s > MISSING_S else figures.fps_share


def skew_ms(figures: Figures) -> float | None:
    """Of two tracks that both come; a picture may be a frame's time behind."""
    skew = figures.av_skew_ms
    if skew is None or figures.without_audio_s > MISSING_S or figures.without_video_s > MISSING_S:
        return None
    if skew >= 0:
        return skew
    return max(0.0, -skew - (1000 / figures.nominal_fps if figures.nominal_fps else 0.0))


def losing_share(figures: Figures) -> float | None:
    return 100 * figures.losing_players / figures.players if figures.players else None


def frozen_s(figures: Figures) -> float | None:
    return None if figures.without_video_s > MISSING_S else figures.still_s


def silence_s(figures: Figures) -> float | None:
    return None if figures.without_audio_s > MISSING_S else figures.silent_s
