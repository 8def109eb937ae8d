"""The beginning of a run: frames wait until it is known which tracks there are, and, for the first run, how long parts
and segments are to be. These two can't change afterwards: EXT-X-TARGETDURATION must not (6.2.1), and PART-TARGET stands
for how far players stay behind."""

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, floor
from typing import Final

from ingest.hls.codecs import Config
from ingest.hls.frames import Frame, Key
from ingest.hls.segments import Targets
from ingest.hls.settings import HlsSettings
from ingest.hls.tracks import USUAL_FRAME_S
from ingest.live.message import Kind
from ingest.rtmp.codecs import VideoConfig

LEAST_INTERVALS: Final = 20
"""Between frames, by which their rate is told."""
FPS_OFF: Final = 0.02
"""Of the rate that a header tells, if what was counted is no other."""
ROUNDED_MS: Final = 1.0
"""What timestamps in whole milliseconds can make a run of frames seem longer."""
ABOUT: Final = 1.015
"""A part of so much over its target is still about that: frames' rate is counted by rounded, uneven timestamps."""
JITTER: Final = 1.5
"""Times the most that was seen between two frames over the usual: so much may a run of frames be longer, too."""
MOST_JITTER: Final = 1.15
"""Of a part: what encoders' uneven timestamps may add to PART-TARGET. More, and even parts are under 85 % of it."""
ROUNDED_S: Final = 0.1
"""What a group of pictures may be over whole seconds and still be one of so many."""


@dataclass(frozen=True, slots=True)
class Waiting:
    frame: Frame
    time_ms: int
    """RTMP's, unwrapped."""
    wall: float


@dataclass(eq=False, slots=True)
class Gathering:
    settings: HlsSettings
    expects: frozenset[Kind]
    """Kinds that are waited for."""
    needs_targets: bool
    keyframe_interval_s: float | None = None
    frames: list[Waiting] = field(default_factory=list)
    size: int = 0
    began: float | None = None
    """The time of day of the first message."""
    stragglers: int = 0
    announced: set[Kind] = field(default_factory=set)
    """Kinds of which a header came."""
    _kinds: set[Kind] = field(default_factory=set)
    _with_keyframe: set[Key] = field(default_factory=set)
    _waits_for_keyframe: set[Key] = field(default_factory=set)
    _keyframes: list[int] = field(default_factory=list)
    _video: Key | None = None
    _video_frames: int = 0
    first_ms: int | None = None
    _last_ms: int = 0

    def add(self, frame: Frame, time_ms: int, wall: float) -> None:
        if self.first_ms is None:
            self.first_ms, self.began = time_ms, wall
        self.first_ms = min(self.first_ms, time_ms)
        self._last_ms = max(self._last_ms, time_ms) if self.frames else time_ms
        kind, _ = frame.key
        if kind == "video":
            if frame.is_keyframe:
                self._with_keyframe.add(frame.key)
                self._waits_for_keyframe.discard(frame.key)
                if self._video is None or frame.key < self._video:
                    self._video, self._keyframes, self._video_frames = frame.key, [], 0
                if frame.key == self._video:
                    self._keyframes.append(time_ms)
            elif frame.key not in self._with_keyframe:
                self._waits_for_keyframe.add(frame.key)
                return
        self._video_frames += frame.key == self._video
        self._kinds.add(kind)
        self.frames.append(Waiting(frame, time_ms, wall))
        self.size += len(frame.data)

    def forget(self, key: Key) -> None:
        """What came of a track: it has another header now."""
        self.frames = [waiting for waiting in self.frames if waiting.frame.key != key]
        self._with_keyframe.discard(key)
        if key == self._video:
            self._video, self._keyframes = None, []

    @property
    def span_ms(self) -> int:
        return self._last_ms - self.first_ms if self.first_ms is not None else 0

    @property
    def is_enough(self) -> bool:
        if not self.frames:
            return False
        settings = self.settings
        is_full = self.size >= settings.segment_bytes or len(self.frames) >= settings.gathered_frames
        if is_full or self.span_ms >= settings.keyframe_wait_ms:
            return True
        if self._waits_for_keyframe and not self._with_keyframe:
            return False
        missing = self.expects - self._kinds
        if missing and self.span_ms < (settings.targets_ms if missing & self.announced else settings.layout_ms):
            return False
        if not self.needs_targets or self.span_ms >= settings.targets_ms:
            return True
        has_gop = self._video is None or self.keyframe_interval_s is not None or len(self._keyframes) > 1
        return has_gop and self._has_rate

    @property
    def _has_rate(self) -> bool:
        return self._video is None or self._video_frames > LEAST_INTERVALS or self.span_ms >= self.settings.layout_ms

    def targets(self, lead: Key, frame_s: float | None) -> Targets:
        """`lead`: the track that all is cut by; `frame_s`: how long its frames are, where the codec says it."""
        settings = self.settings
        times = [waiting.time_ms for waiting in self.frames if waiting.frame.key == lead]
        gop_s = self._gop_s(lead)
        is_video = lead[0] == "video"
        return Targets(
            _target_duration(settings, gop_s, is_video=is_video),
            _part_target(settings, times, frame_s),
            settings.segment_target_s,
            is_independent=not is_video or (gop_s is not None and gop_s <= settings.max_target_s),
        )

    def fps(self, key: Key, config: Config) -> float | None:
        """Of a video track: as its header tells it, unless what was counted is another rate."""
        told = config.fps if isinstance(config, VideoConfig) else None
        counted = fps_of([waiting.time_ms for waiting in self.frames if waiting.frame.key == key])
        return told if counted is None or (told and abs(told - counted) <= FPS_OFF * told) else counted

    @property
    def is_whole(self) -> bool:
        """Of each kind that was expected there is something."""
        return bool(self.frames) and self.expects <= self._kinds

    def _gop_s(self, lead: Key) -> float | None:
        if self.keyframe_interval_s is not None or lead != self._video or len(self._keyframes) < 2:
            return self.keyframe_interval_s
        return max(after - before for before, after in pairwise(self._keyframes)) / 1000


def fps_of(times_ms: Collection[int]) -> float | None:
    """Frames a second, where there are enough of them to tell."""
    span = max(times_ms) - min(times_ms) if times_ms else 0
    return (len(times_ms) - 1) * 1000 / span if len(times_ms) > LEAST_INTERVALS and span > 0 else None


def _target_duration(settings: HlsSettings, gop_s: float | None, *, is_video: bool) -> int:
    if not is_video:
        return max(ceil(settings.segment_target_s), 1)
    if gop_s is None or gop_s <= 0:
        return settings.default_target_s
    groups = max(ceil(settings.segment_target_s * 0.95 / gop_s), 1)
    return min(max(ceil(groups * gop_s - ROUNDED_S), 1), settings.max_target_s)


def _part_target(settings: HlsSettings, times: list[int], frame_s: float | None) -> float:
    """As many whole frames as fit, and what uneven timestamps may add to them."""
    intervals = [after - before for before, after in pairwise(times) if after > before]
    usual = _usual(intervals)
    mean = sum(usual) / len(usual) if usual else USUAL_FRAME_S * 1000
    frame_ms = frame_s * 1000 if frame_s else mean
    even = max(floor(settings.part_target_ms * ABOUT / frame_ms), 1) * frame_ms
    jitter = 0.0 if frame_s or not usual else JITTER * (max(usual) - mean)
    return ceil(min(even + jitter, even * MOST_JITTER) + ROUNDED_MS) / 1000


def _usual(intervals: list[int]) -> list[int]:
    """Those that are no gaps: not over twice the middle one."""
    middle = sorted(intervals)[len(intervals) // 2] if intervals else 0
    return [interval for interval in intervals if interval <= 2 * middle]
