"""What the checks of a stream look at, once a second."""

from collections.abc import Sequence
from dataclasses import dataclass

from ingest.live.health.target import Target


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
    bitrate_is_low: bool = False
    """As was judged a second ago."""
    drift_dev_ms: float | None = None
    """How far media is behind the mean of a minute."""
    pace: float | None = None
    """Seconds of media a second, mean of 10 s. None, too, while media is not ahead of real time, but catches up."""
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
    """More than 2 s wait for them, or frames were dropped for them in the last 30 s."""
    dropped_frames: int = 0
    """For slow players, in the last minute."""

    @property
    def fps_share(self) -> float | None:
        """Frames that come, in percent of the nominal rate."""
        return 100 * self.fps / self.nominal_fps if self.fps is not None and self.nominal_fps else None

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
