"""Counts what a publishing session sends and its players get, and makes a sample of it once a second.

A sample is the difference between two readings of counters that only grow, so samples always add up to the totals.
Each figure is defined where it is computed; `contracts.Sample` names the units.
"""

from collections import deque
from dataclasses import dataclass, fields, replace
from typing import Final

from ingest.contracts import Health, Sample, Totals
from ingest.live.publisher import Publisher, SocketFigures
from ingest.live.timeline import Timeline, difference
from ingest.live.windows import Mean, Rate, Slope

SHOWN_SECONDS: Final = 5
"""Bitrates and frame rates are shown as means over so many samples."""
DRIFT_SECONDS: Final = 60
KEYFRAME_INTERVALS: Final = 5


@dataclass(slots=True)
class Counters:
    """What a sample holds the growth of; all since the session began."""

    video_bytes: int = 0
    audio_bytes: int = 0
    data_bytes: int = 0
    wire_bytes: int = 0
    video_frames: int = 0
    audio_frames: int = 0
    keyframes: int = 0
    ts_gap: int = 0
    ts_regress: int = 0
    missing_frames_est: int = 0
    out_bytes: int = 0
    dropped_frames: int = 0
    elapsed_ms: int = 0


COUNTED: Final = tuple(field.name for field in fields(Counters))


@dataclass(frozen=True, slots=True)
class Audience:
    """A stream's players, counted since the stream was made."""

    players: int = 0
    slow_players: int = 0
    out_bytes: int = 0
    dropped_frames: int = 0


class Shown:
    """Means over the last 5 s, as cards and the API show them."""

    __slots__ = ("audio", "fps", "out", "video", "wire")

    def __init__(self) -> None:
        self.video, self.audio, self.wire, self.out = (Rate(SHOWN_SECONDS) for _ in range(4))
        self.fps = Rate(SHOWN_SECONDS)


class Meter:
    """Of one publishing session. `video`, `audio` and `data` are the media path: additions only."""

    def __init__(self, publisher: Publisher, now: float, audience: Audience) -> None:
        self.started = now
        self.first_media: float | None = None
        self.last_media: float | None = None
        """When the latest audio or video message came (monotonic), and the latest frame of each kind."""
        self.last_video: float | None = None
        self.last_audio: float | None = None
        self.last_keyframe: float | None = None
        self.video_line = Timeline()
        self.audio_line = Timeline()
        self.keyframe_intervals: deque[float] = deque(maxlen=KEYFRAME_INTERVALS)
        """Seconds of DTS."""
        self.latest: Sample | None = None
        self.shown = Shown()
        self._publisher = publisher
        self._counters = Counters()
        self._read = Counters()
        self._audience = audience
        self._socket = self._ask_socket()
        self._first_video = now
        self._first_audio = now
        self._keyframe_dts = 0
        self._drifts = Mean(DRIFT_SECONDS)
        self._media_rate = Slope(SHOWN_SECONDS)
        self._sequence = 0
        self._wall_offset = publisher.started - now

    # --- The media path ---

    def video(self, timestamp: int, size: int, now: float, is_frame: bool, is_keyframe: bool) -> None:
        """A message of type 9, of `size` payload bytes. `is_frame`: a coded frame of the main track."""
        self._counters.video_bytes += size
        if self.first_media is None:
            self.first_media = now
        self.last_media = now
        if not is_frame:
            return
        line = self.video_line
        if not line.frames:
            self._first_video = now
            self._media_rate.add(1, 0)
        line.add(timestamp)
        self.last_video = now
        if is_keyframe:
            if self.last_keyframe is not None and line.dts > self._keyframe_dts:
                self.keyframe_intervals.append((line.dts - self._keyframe_dts) / 1000)
            self._keyframe_dts = line.dts
            self.last_keyframe = now
            self._counters.keyframes += 1

    def audio(self, timestamp: int, size: int, now: float, is_frame: bool) -> None:
        """A message of type 8."""
        self._counters.audio_bytes += size
        if self.first_media is None:
            self.first_media = now
        self.last_media = now
        if is_frame:
            if not self.audio_line.frames:
                self._first_audio = now
            self.audio_line.add(timestamp)
            self.last_audio = now

    def data(self, size: int) -> None:
        """A message of type 18 or 15."""
        self._counters.data_bytes += size

    # --- Figures of now ---

    @property
    def has_media(self) -> bool:
        return self.last_media is not None

    def idle_s(self, now: float) -> float:
        """Since the last audio or video message, or since the session began."""
        return now - (self.started if self.last_media is None else self.last_media)

    def open_gop_age(self, now: float) -> float | None:
        """Seconds of wall time since the last keyframe, or since the first video where none came."""
        if self.last_video is None:
            return None
        return now - (self._first_video if self.last_keyframe is None else self.last_keyframe)

    @property
    def open_gop_s(self) -> float | None:
        """The same up to the latest frame, which stands still while nothing comes."""
        return None if self.last_video is None else self.open_gop_age(self.last_video)

    @property
    def without_audio_s(self) -> float:
        """How long other media has come without audio. It stands still while nothing comes at all."""
        return self._without(self.last_audio)

    @property
    def without_video_s(self) -> float:
        return self._without(self.last_video)

    def _without(self, last: float | None) -> float:
        if self.last_media is None or self.first_media is None:
            return 0.0
        return self.last_media - (self.first_media if last is None else last)

    @property
    def drift(self) -> float | None:
        """(wall - wall0) - (dts - dts0) in ms at the latest video frame, or audio frame where there is no video."""
        if self.last_video is not None:
            return (self.last_video - self._first_video) * 1000 - self.video_line.dts
        if self.last_audio is not None:
            return (self.last_audio - self._first_audio) * 1000 - self.audio_line.dts
        return None

    @property
    def av_skew(self) -> int | None:
        """Latest video DTS - latest audio DTS, ms."""
        if not self.video_line.frames or not self.audio_line.frames:
            return None
        return difference(self.video_line.last, self.audio_line.last)

    def wall(self, now: float) -> float:
        """Seconds since the epoch, by the offset that the latest tick told."""
        return now + self._wall_offset

    def set_wall(self, now: float, wall: float) -> None:
        self._wall_offset = wall - now

    # --- Once a second ---

    def sample(
        self,
        now: float,
        *,
        node: str,
        app: str,
        name: str,
        audience: Audience,
        health: Health,
        claimed_fps: float | None = None,
    ) -> Sample:
        """What happened since the last one, which may be less than a second ago when the session ends."""
        socket = self._ask_socket()
        grown = self._advance(now, audience, socket)
        elapsed_ms = grown["elapsed_ms"]
        retrans = None if socket.retrans is None else socket.retrans - (self._socket.retrans or 0)
        self._socket = socket
        shown = self.shown
        for rate, counter in (
            (shown.video, "video_bytes"),
            (shown.audio, "audio_bytes"),
            (shown.wire, "wire_bytes"),
            (shown.out, "out_bytes"),
        ):
            rate.add(grown[counter], elapsed_ms)
        line = self.video_line
        line.settle(claimed_fps)
        fps = fps_media = None
        if line.frames:
            # The time before the first frame is no time without frames.
            shown.fps.add(grown["video_frames"], min(elapsed_ms, round((now - self._first_video) * 1000)))
            fps = shown.fps.per_second
            fps_media = self._media_rate.add(line.frames, line.dts / 1000)
        drift = self.drift
        intervals = self.keyframe_intervals
        self._sequence += 1
        labels = self._publisher.labels
        self.latest = Sample(
            session=self._publisher.session_id,
            sequence=self._sequence,
            at_us=round(self.wall(now) * 1_000_000),
            node=node,
            app=app,
            name=name,
            stream=labels["stream"],
            key=labels["key"],
            video_kbps=_kbps(grown["video_bytes"], elapsed_ms),
            audio_kbps=_kbps(grown["audio_bytes"], elapsed_ms),
            wire_kbps=_kbps(grown["wire_bytes"], elapsed_ms),
            fps=_rounded(fps, 2),
            fps_media=_rounded(fps_media, 2),
            keyframe_interval=intervals[-1] if intervals else None,
            keyframe_interval_max=max(intervals, default=None),
            open_gop_age=_rounded(self.open_gop_age(now), 3),
            drift=_rounded(drift, 1),
            drift_dev=None if drift is None else round(drift - self._drifts.add(drift), 1) + 0.0,
            av_skew=self.av_skew,
            idle_ms=round(self.idle_s(now) * 1000),
            rtt_ms=socket.rtt_ms,
            retrans=retrans,
            players=audience.players,
            slow_players=audience.slow_players,
            out_kbps=_kbps(grown["out_bytes"], elapsed_ms),
            health=health,
            **grown,
        )
        return self.latest

    @property
    def totals(self) -> Totals:
        """Of the session up to the latest sample: exactly what the samples add up to."""
        read = self._read
        return Totals(
            bytes_in=read.video_bytes + read.audio_bytes + read.data_bytes,
            bytes_out=read.out_bytes,
            video_frames=read.video_frames,
            audio_frames=read.audio_frames,
            keyframes=read.keyframes,
            dropped_frames=read.dropped_frames,
            duration_ms=read.elapsed_ms,
        )

    def _advance(self, now: float, audience: Audience, socket: SocketFigures) -> dict[str, int]:
        """Bring the counters up to now; how much each has grown since they were last read."""
        counters = self._counters
        counters.wire_bytes += socket.bytes_received - self._socket.bytes_received
        counters.video_frames = self.video_line.frames
        counters.audio_frames = self.audio_line.frames
        counters.ts_gap = self.video_line.gaps + self.audio_line.gaps
        counters.ts_regress = self.video_line.regressions + self.audio_line.regressions
        counters.missing_frames_est = self.video_line.missing
        counters.out_bytes += audience.out_bytes - self._audience.out_bytes
        counters.dropped_frames += audience.dropped_frames - self._audience.dropped_frames
        # Rounded as a whole, so that rounding never adds up.
        counters.elapsed_ms = round((now - self.started) * 1000)
        grown = {counter: getattr(counters, counter) - getattr(self._read, counter) for counter in COUNTED}
        self._read = replace(counters)
        self._audience = audience
        return grown

    def _ask_socket(self) -> SocketFigures:
        ask = self._publisher.socket
        return ask() if ask else SocketFigures(0)


def _kbps(size_bytes: int, elapsed_ms: int) -> float:
    """Bits a millisecond are kilobits a second."""
    return round(8 * size_bytes / elapsed_ms, 3) if elapsed_ms else 0.0


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
