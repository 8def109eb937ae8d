"""Counts what a publishing session sends and its players get, and makes a sample of it once a second.

A sample is the difference between two readings of counters that only grow, so samples always add up to the totals.
Each figure is defined where it is computed; `contracts.Sample` names the units.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from ingest import clean
from ingest.contracts import Health, Sample, Totals
from ingest.live.collapse import SLOW, Collapse
from ingest.live.counters import (
    NOTHING_READ,
    Audience,
    Delay,
    Mean,
    Publisher,
    Reading,
    Slope,
    SocketFigures,
    Total,
    kbps,
)
from ingest.live.health.measures import COLLAPSE_S, LACKING_S, STEADY_S, Figures
from ingest.live.timeline import Timeline
from ingest.rtmp.messages import timestamp_difference

SHOWN_SECONDS: Final = 5
"""Bitrates and frame rates are shown as means over so many samples."""
DROPPED_SECONDS: Final = 60
"""Players lose frames in bursts, so those of a second say nothing."""
DRIFT_SECONDS: Final = 60
PACE_SECONDS: Final = 10
KEYFRAME_INTERVALS: Final = 5
"""Whose largest is in a sample; the checks look at twice as many."""
STILL_BYTES: Final = 48
STILL_PART: Final = 0.005
"""A second whose frames between keyframes have no more bytes on average, or no more than this part of a keyframe's,
shows nothing new: encoders say of each part of the picture that it stays."""
SILENT_BYTES: Final = 16
"""The same for sound: AAC, Opus and others send next to nothing for silence."""
LONG_LACKING_S: Final = 30.0
"""Once two have come: for so long, and for twice as long as between any of the latest. Encoders that put keyframes
where scenes change, as x264 does by default, let 250 frames go by in a still one."""


@dataclass(eq=False, slots=True)
class Meter:
    """Of one publishing session. `video` and `audio` are the media path: additions only."""

    publisher: Publisher
    started: float
    audience: Audience
    """As of now, and then of the latest second."""
    node: str
    """This, application and name stand in samples."""
    app: str
    name: str
    figures: Figures = field(init=False)
    """For the checks: filled each second with what is measured."""
    first_media: float | None = None
    last_media: float | None = None
    """When the latest audio or video message came (monotonic), and the latest frame of each kind."""
    last_video: float | None = None
    last_audio: float | None = None
    last_keyframe: float | None = None
    video_bytes: int = 0
    """Of payloads; as all that is counted, since the session began. The timelines count the frames."""
    audio_bytes: int = 0
    data_bytes: int = 0
    keyframes: int = 0
    keyframe_bytes: int = 0
    media_faults: int = 0
    """Audio and video messages whose header makes no sense, or is cut off."""
    video_line: Timeline = field(default_factory=Timeline)
    audio_line: Timeline = field(default_factory=Timeline)
    keyframe_intervals: deque[float] = field(default_factory=lambda: deque(maxlen=2 * KEYFRAME_INTERVALS))
    """Seconds of DTS."""
    watches_stillness: bool = False
    """Whether somebody wants to know of pictures and sound in which nothing happens."""
    is_paused: bool = False
    """By the publisher's wish: what doesn't come is not missed."""
    latest: Sample | None = None
    reading: Reading = NOTHING_READ
    """As of the latest second's end."""
    growth: Reading = NOTHING_READ
    """Within it."""
    video_kbps: float | None = None
    """Means of 5 s, as cards and the API show them. None, as for all that follows: not measured (yet)."""
    audio_kbps: float | None = None
    wire_kbps: float | None = None
    out_kbps: float | None = None
    _retrans: int | None = None
    _open_gop_age: float | None = None
    """Seconds of wall time since the last keyframe, or since the first video where none came."""
    _delay: Delay = field(default_factory=Delay)
    _collapse: Collapse = field(default_factory=Collapse)
    _age_ms: float = 0.0
    """How much more time has passed than media have come: at the end of the latest second."""
    _keyframe_bytes: int = 0
    """Of the latest."""
    _counted_keyframe_bytes: int = 0
    _longest_interval: float | None = None
    _dropped: Total = field(default_factory=lambda: Total(DROPPED_SECONDS))
    _encoder: str = ""
    _readings: deque[Reading] = field(default_factory=lambda: deque((NOTHING_READ,), maxlen=SHOWN_SECONDS))
    """Of the ends of the latest seconds, oldest first."""
    _fps_from_ms: int = 0
    """Of the session's time: when its first frame came. The time before is no time without frames."""
    _idle_before_s: float = 0.0
    """Its silence when its latest pause began."""
    _resumed_at: float | None = None
    """When that ended; None: media have come since."""
    _jumped: int = 0
    """As of the latest second."""
    _keyframe_dts: int = 0
    _drifts: Mean = field(default_factory=lambda: Mean(DRIFT_SECONDS))
    _pace: Slope = field(default_factory=lambda: Slope(PACE_SECONDS))
    _sequence: int = 0
    _socket: SocketFigures = field(init=False)
    _at_start: tuple[int, int, int] = (0, 0, 0)
    """What the connection had received as the session began; players had been sent and lost so much."""
    _idle_from: float = 0.0
    _first_video: float = 0.0
    _first_audio: float = 0.0
    _wall_offset: float = 0.0

    def __post_init__(self) -> None:
        limits = self.publisher.limits
        self.figures = Figures(
            expects_audio=limits["expect_audio"], expects_video=limits["expect_video"], max_kbps=limits["max_kbps"]
        )
        self.call(self.publisher.encoder)
        self._socket = self._ask_socket()
        self._at_start = self._socket.bytes_received, self.audience.out_bytes, self.audience.dropped_frames
        self._idle_from = self._first_video = self._first_audio = self.started
        self._wall_offset = self.publisher.started - self.started

    def call(self, encoder: str) -> None:
        """How its samples name the encoder: all of a session alike, so that after the first one it stays."""
        if self.latest is None:
            self._encoder = clean.text(encoder, clean.MOST_ENCODER)

    # --- The media path ---

    def video(self, timestamp: int, size: int, now: float, is_frame: bool, is_keyframe: bool) -> None:
        """A message of type 9, of `size` payload bytes. `is_frame`: a coded frame of the main track."""
        self.video_bytes += size
        if self.first_media is None:
            self.first_media = now
        self.last_media = now
        if not is_frame:
            return
        line = self.video_line
        if not line.frames:
            self._first_video = now
        line.add(timestamp)
        self.last_video = now
        if is_keyframe:
            dts = line.dts - line.jumped
            if self.last_keyframe is not None and dts > self._keyframe_dts:
                self.keyframe_intervals.append((dts - self._keyframe_dts) / 1000)
            self._keyframe_dts = dts
            self.last_keyframe = now
            self.keyframes += 1
            self._keyframe_bytes = size
            self.keyframe_bytes += size

    def audio(self, timestamp: int, size: int, now: float, is_frame: bool) -> None:
        self.audio_bytes += size
        if self.first_media is None:
            self.first_media = now
        self.last_media = now
        if is_frame:
            if not self.audio_line.frames:
                self._first_audio = now
            self.audio_line.add(timestamp)
            self.last_audio = now

    def advance_video(self, timestamp: int, steps: list[int], size: int, now: float) -> None:
        """Several frames of the main track, `size` payload bytes together, none of them a keyframe or irregular, nor
        the first."""
        self.video_bytes += size
        self.video_line.advance(timestamp, steps)
        self.last_media = self.last_video = now

    def advance_audio(self, timestamp: int, steps: list[int], size: int, now: float) -> None:
        self.audio_bytes += size
        self.audio_line.advance(timestamp, steps)
        self.last_media = self.last_audio = now

    def pause(self, now: float) -> None:
        self._idle_before_s = self.idle_s(now)
        self.is_paused = True

    def resume(self, now: float) -> None:
        """Its silence before counts on."""
        self.is_paused = False
        self._resumed_at = now
        self._idle_from = now - self._idle_before_s

    # --- Figures of now ---

    @property
    def has_media(self) -> bool:
        return self.last_media is not None

    def idle_s(self, now: float) -> float:
        """Since the last audio or video message, or since the session began, without pauses; 0 in one."""
        if self.is_paused:
            return 0.0
        return now - (self._idle_from if self.last_media is None else max(self.last_media, self._idle_from))

    @property
    def lacks_keyframes(self) -> bool:
        """Pictures come, and a keyframe is not to be waited for: as with intra refresh, which renews them by parts."""
        if self.last_video is None:
            return False
        age, intervals = self.last_video - self._gop_began, self.keyframe_intervals
        return age >= max(LONG_LACKING_S, 2 * max(intervals)) if intervals else age >= LACKING_S

    @property
    def _gop_began(self) -> float:
        """When the latest keyframe came, or the first video where none did."""
        return self._first_video if self.last_keyframe is None else self.last_keyframe

    def set_wall(self, now: float, wall: float) -> None:
        """Seconds since the epoch, which samples tell from now on."""
        self._wall_offset = wall - now

    # --- Once a second ---

    def begin_anew(self) -> None:
        """Nothing came for a while: what drifts, and how fast, is measured from here on."""
        self._drifts.clear()
        self._pace.clear()
        self.figures.slowing = self.figures.choking = 0
        if self.is_paused:
            self._delay.hold()

    def measure(self, now: float, audience: Audience, claimed_fps: float | None) -> None:
        """What happened since the last time, which may be less than a second ago when the session ends."""
        video, readings, figures = self.video_line, self._readings, self.figures
        former, socket = self._socket, self._ask_socket()
        self._socket = socket
        reading = self._read(now, socket.bytes_received, audience)
        growth = self.growth = reading.since(self.reading)
        self.reading, self.audience = reading, audience
        self._retrans = None if socket.retrans is None else socket.retrans - (former.retrans or 0)
        self._dropped.add(growth.dropped_frames)
        if growth.keyframes:
            figures.keyframe_intervals = intervals = tuple(self.keyframe_intervals)
            self._longest_interval = max(intervals[-KEYFRAME_INTERVALS:], default=None)
        if growth.video_frames and growth.video_frames == reading.video_frames:
            first_ms = reading.elapsed_ms - round((now - self._first_video) * 1000)
            self._fps_from_ms = max(reading.elapsed_ms - growth.elapsed_ms, first_ms)
        self._average(figures, readings[0], reading)
        readings.append(reading)
        video.settle(claimed_fps)
        figures.nominal_fps = video.nominal_fps
        figures.rtt_ms = socket.rtt_ms
        figures.players, figures.slow_players = audience.players, audience.slow_players
        figures.losing_players = audience.losing_players
        figures.dropped_frames = self._dropped.sum
        figures.idle_s = self.idle_s(now)
        if self.watches_stillness:
            self._watch_stillness(figures)
        if self.last_media is not None:
            self._time(figures, now, self.last_media)

    def _read(self, now: float, received_bytes: int, audience: Audience) -> Reading:
        video, audio = self.video_line, self.audio_line
        received_before, out_before, dropped_before = self._at_start
        return Reading(
            round((now - self.started) * 1000),  # As a whole, so that rounding never adds up.
            self.video_bytes,
            self.audio_bytes,
            self.data_bytes,
            received_bytes - received_before,
            video.frames,
            audio.frames,
            self.keyframes,
            video.gaps + audio.gaps,
            video.regressions + audio.regressions,
            video.missing,
            self.media_faults,
            audience.out_bytes - out_before,
            audience.dropped_frames - dropped_before,
            video.dts,
        )

    def _time(self, figures: Figures, now: float, last_media: float) -> None:
        first_media = self.first_media or 0.0
        last_video, last_audio, video, audio = self.last_video, self.last_audio, self.video_line, self.audio_line
        figures.without_video_s = last_media - (first_media if last_video is None else last_video)
        figures.without_audio_s = last_media - (first_media if last_audio is None else last_audio)
        if last_video is not None:
            began = self._gop_began
            self._open_gop_age, figures.open_gop_s = now - began, last_video - began
            main, passed_s = video, last_video - self._first_video
            if last_audio is not None:
                figures.av_skew_ms = timestamp_difference(video.last, audio.last)
        elif last_audio is not None:
            main, passed_s = audio, last_audio - self._first_audio
        else:
            return
        if main.jumped != self._jumped or self._resumed_at is not None:
            # A clock was set, a track is back after long, or the publisher: that makes media no later than they were.
            self._jumped = main.jumped
            if self._resumed_at is not None and last_media > self._resumed_at:
                self._resumed_at = None
            self._delay.hold()
            self._drifts.clear()
        media_ms = main.dts - main.jumped
        behind = passed_s * 1000 - media_ms
        figures.drift_dev_ms = behind - self._drifts.add(behind)
        late_ms = self._delay.add(behind)
        figures.behind_s = late_ms / 1000
        figures.pace = self._pace.add(media_ms / 1000, now)
        age = (now - self._first_video) * 1000 - video.dts + video.jumped if video.frames else behind
        slowest_ms = SLOW * self.growth.elapsed_ms
        is_slow = age - self._age_ms >= slowest_ms
        self._age_ms = age
        if is_slow or late_ms > 1000 * STEADY_S or self._collapse.is_watching:
            sound_age_ms = self._sound_age_ms(now)
            is_silent = not (self.growth.video_frames or self.growth.audio_frames)
            self._collapse.add(
                figures, slowest_ms, sound_age_ms, self._recent_kbps(), is_slow=is_slow, is_silent=is_silent
            )

    def _sound_age_ms(self, now: float) -> float | None:
        audio = self.audio_line
        return (now - self._first_audio) * 1000 - audio.dts + audio.jumped if audio.frames else None

    def _recent_kbps(self) -> float | None:
        """The video's, of the last COLLAPSE_S."""
        if not self.video_line.frames or len(self._readings) <= COLLAPSE_S:
            return None
        growth = self.reading.since(self._readings[-1 - COLLAPSE_S])
        return kbps(growth.video_bytes, growth.elapsed_ms)

    def watch_stillness(self, is_wanted: bool) -> None:
        if is_wanted and not self.watches_stillness:
            self.figures.still_s = self.figures.silent_s = 0.0
            self._counted_keyframe_bytes = self.keyframe_bytes
        self.watches_stillness = is_wanted

    def _watch_stillness(self, figures: Figures) -> None:
        """Pictures and sound of nearly no bytes: by the means of a second, so that no frame costs anything."""
        growth = self.growth
        key_bytes, self._counted_keyframe_bytes = (
            self.keyframe_bytes - self._counted_keyframe_bytes,
            self.keyframe_bytes,
        )
        frames = growth.video_frames - growth.keyframes
        if frames > 0:
            most = frames * max(STILL_BYTES, STILL_PART * self._keyframe_bytes)
            is_still = growth.video_bytes - key_bytes <= most
            figures.still_s = figures.still_s + growth.elapsed_ms / 1000 if is_still else 0.0
        if growth.audio_frames > 0:
            is_silent = growth.audio_bytes <= SILENT_BYTES * growth.audio_frames
            figures.silent_s = figures.silent_s + growth.elapsed_ms / 1000 if is_silent else 0.0

    def _average(self, figures: Figures, oldest: Reading, reading: Reading) -> None:
        growth = reading.since(oldest)
        if growth.elapsed_ms:
            self.video_kbps = kbps(growth.video_bytes, growth.elapsed_ms)
            self.audio_kbps = kbps(growth.audio_bytes, growth.elapsed_ms)
            self.wire_kbps = kbps(growth.wire_bytes, growth.elapsed_ms)
            self.out_kbps = kbps(growth.out_bytes, growth.elapsed_ms)
        if not reading.video_frames:
            return
        figures.video_kbps = self.video_kbps
        elapsed_ms = reading.elapsed_ms - max(oldest.elapsed_ms, self._fps_from_ms)
        figures.fps = growth.video_frames * 1000 / elapsed_ms if elapsed_ms else None
        # Of the first frame on there is no time before it.
        frames = reading.video_frames - (oldest.video_frames or 1)
        figures.fps_media = frames * 1000 / growth.video_dts if growth.video_dts > 0 else None

    def sample(self, now: float, *, health: Health, target_kbps: int | None) -> Sample:
        growth, audience, figures, labels = self.growth, self.audience, self.figures, self.publisher.labels
        elapsed_ms, fps, fps_media, age = growth.elapsed_ms, figures.fps, figures.fps_media, self._open_gop_age
        intervals, behind, drift_dev = figures.keyframe_intervals, figures.behind_s, figures.drift_dev_ms
        self._sequence += 1
        # In the order of its fields: by their names it costs three times as much.
        self.latest = sample = Sample(
            self.publisher.session_id,
            self._sequence,
            round((now + self._wall_offset) * 1_000_000),
            elapsed_ms,
            self.node,
            self.app,
            self.name,
            labels["stream"],
            labels["key"],
            growth.video_bytes,
            growth.audio_bytes,
            growth.data_bytes,
            growth.wire_bytes,
            kbps(growth.video_bytes, elapsed_ms),
            kbps(growth.audio_bytes, elapsed_ms),
            kbps(growth.wire_bytes, elapsed_ms),
            growth.video_frames,
            growth.audio_frames,
            growth.keyframes,
            None if fps is None else round(fps * 100) / 100,
            None if fps_media is None else round(fps_media * 100) / 100,
            intervals[-1] if intervals else None,
            self._longest_interval,
            None if age is None else round(age * 1000) / 1000,
            None if behind is None else round(behind * 10_000) / 10,
            None if drift_dev is None else round(drift_dev * 10) / 10,
            figures.av_skew_ms,
            growth.ts_gap,
            growth.ts_regress,
            growth.missing_frames_est,
            growth.media_faults,
            round(figures.idle_s * 1000),
            figures.rtt_ms,
            self._retrans,
            audience.players,
            audience.viewers,
            growth.out_bytes,
            kbps(growth.out_bytes, elapsed_ms),
            audience.slow_players,
            growth.dropped_frames,
            health,
            self._encoder,
            target_kbps,
        )
        return sample

    @property
    def totals(self) -> Totals:
        """Of the session up to the latest sample: exactly what the samples add up to."""
        read = self.reading
        return Totals(
            bytes_in=read.video_bytes + read.audio_bytes + read.data_bytes,
            bytes_out=read.out_bytes,
            video_frames=read.video_frames,
            audio_frames=read.audio_frames,
            keyframes=read.keyframes,
            dropped_frames=read.dropped_frames,
            duration_ms=read.elapsed_ms,
        )

    def _ask_socket(self) -> SocketFigures:
        ask = self.publisher.socket
        return ask() if ask else SocketFigures(0)
