"""Counts what a publishing session sends and its players get, and makes a sample of it once a second.

A sample is the difference between two readings of counters that only grow, so samples always add up to the totals.
Each figure is defined where it is computed; `contracts.Sample` names the units.
"""

from collections import deque
from typing import Final

from ingest import clean
from ingest.contracts import Health, Sample, Totals
from ingest.live.counted import NOTHING_READ, Audience, Counters, Reading
from ingest.live.metadata import MOST_ENCODER
from ingest.live.publisher import Publisher, SocketFigures
from ingest.live.timeline import Timeline
from ingest.live.windows import Mean, Slope, Total
from ingest.rtmp.timestamps import difference

SHOWN_SECONDS: Final = 5
"""Bitrates and frame rates are shown as means over so many samples."""
DROPPED_SECONDS: Final = 60
"""Players lose frames in bursts, so those of a second say nothing."""
DRIFT_SECONDS: Final = 60
PACE_SECONDS: Final = 10
KEYFRAME_INTERVALS: Final = 5
"""Whose largest is in a sample; the checks look at twice as many."""
LACKING_S: Final = 10.0
"""Pictures that come for so long without a keyframe, but for the first one, come without them."""
LONG_LACKING_S: Final = 30.0
"""Once two have come: for so long, and for twice as long as between any of the latest. Encoders that put keyframes
where scenes change, as x264 does by default, let 250 frames go by in a still one."""


class Second:
    """What the latest second brought, and the figures of its end: one object, filled anew each second.

    Times in seconds unless they are named otherwise. None: not measured (yet).
    """

    __slots__ = (
        "audience",
        "audio_kbps",
        "av_skew",
        "before",
        "drift",
        "drift_dev",
        "elapsed_ms",
        "fps",
        "fps_media",
        "idle_s",
        "open_gop_age",
        "open_gop_s",
        "out_kbps",
        "pace",
        "reading",
        "retrans",
        "rtt_ms",
        "video_kbps",
        "wire_kbps",
        "without_audio_s",
        "without_video_s",
    )

    def __init__(self, audience: Audience) -> None:
        self.before = self.reading = NOTHING_READ
        """As of its begin, and of its end."""
        self.elapsed_ms = 0
        """Between the two."""
        self.audience = audience
        self.rtt_ms: float | None = None
        self.retrans: int | None = None
        self.video_kbps: float | None = None
        """Mean of 5 s, as cards and the API show it; and so the next five."""
        self.audio_kbps: float | None = None
        self.wire_kbps: float | None = None
        self.out_kbps: float | None = None
        self.fps: float | None = None
        self.fps_media: float | None = None
        """By DTS."""
        self.idle_s = 0.0
        self.without_audio_s = 0.0
        """How long other media has come without it. It stands still while nothing comes at all."""
        self.without_video_s = 0.0
        self.open_gop_age: float | None = None
        """Of wall time since the last keyframe, or since the first video where none came."""
        self.open_gop_s: float | None = None
        """The same up to the latest frame, which stands still while nothing comes."""
        self.av_skew: int | None = None
        """Latest video DTS - latest audio DTS, ms."""
        self.drift: float | None = None
        """(wall - wall0) - (dts - dts0) in ms at the latest video frame, or audio frame where there is no video."""
        self.drift_dev: float | None = None
        """The drift less its mean of a minute, both without clocks that were set, ms."""
        self.pace: float | None = None
        """Seconds of media a second, mean of 10 s. None, too, while media is not ahead of real time, but catches up."""


class Meter:
    """Of one publishing session. `video`, `audio` and `data` are the media path: additions only."""

    def __init__(self, publisher: Publisher, now: float, audience: Audience, *, node: str, app: str, name: str) -> None:
        """`audience`: as of now. Node, application and name stand in its samples."""
        self.started = now
        self.first_media: float | None = None
        self.last_media: float | None = None
        """When the latest audio or video message came (monotonic), and the latest frame of each kind."""
        self.last_video: float | None = None
        self.last_audio: float | None = None
        self.last_keyframe: float | None = None
        self.video_line = Timeline()
        self.audio_line = Timeline()
        self.keyframe_intervals: deque[float] = deque(maxlen=2 * KEYFRAME_INTERVALS)
        """Seconds of DTS."""
        self.is_paused = False
        """By the publisher's wish: what doesn't come is not missed."""
        self.latest: Sample | None = None
        self.second = Second(audience)
        self.dropped = Total(DROPPED_SECONDS)
        """Frames that players lost."""
        self.intervals: tuple[float, ...] = ()
        """Of keyframes, as of the latest second."""
        self._longest_interval: float | None = None
        self._publisher = publisher
        self._node, self._app, self._name = node, app, name
        self._encoder = ""
        self.call(publisher.encoder)
        self._counters = Counters()
        self._readings = deque((self.second.reading,), maxlen=SHOWN_SECONDS)
        """Of the ends of the latest seconds, oldest first."""
        self._fps_from_ms = 0
        """Of the session's time: when its first frame came. The time before is no time without frames."""
        self._socket = socket = self._ask_socket()
        self._received_before = socket.bytes_received
        """What the connection had received as the session began; players had been sent and lost so much:"""
        self._out_before, self._dropped_before = audience.out_bytes, audience.dropped_frames
        self._idle_from = now
        self._idle_before_s = 0.0
        """Its silence when its latest pause began."""
        self._first_video = now
        self._first_audio = now
        self._keyframe_dts = 0
        self._drifts = Mean(DRIFT_SECONDS)
        self._pace = Slope(PACE_SECONDS)
        self._sequence = 0
        self._wall_offset = publisher.started - now

    def call(self, encoder: str) -> None:
        """How its samples name the encoder: all of a session alike, so that after the first one it stays."""
        if self.latest is None:
            self._encoder = clean.text(encoder, MOST_ENCODER)

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

    def fault(self) -> None:
        """The header of an audio or video message makes no sense, or is cut off."""
        self._counters.media_faults += 1

    def data(self, size: int) -> None:
        """A message of type 18 or 15."""
        self._counters.data_bytes += size

    def pause(self, now: float) -> None:
        self._idle_before_s = self.idle_s(now)
        self.is_paused = True

    def go_on(self, now: float) -> None:
        """Its silence before counts on."""
        self.is_paused = False
        self._idle_from = now - self._idle_before_s

    # --- Figures of now ---

    @property
    def media_faults(self) -> int:
        """Since the session began."""
        return self._counters.media_faults

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

    def measure(self, now: float, audience: Audience, claimed_fps: float | None) -> Second:
        """What happened since the last time, which may be less than a second ago when the session ends."""
        second, video, readings = self.second, self.video_line, self._readings
        former, socket = self._socket, self._ask_socket()
        self._socket = socket
        before = second.before = second.reading
        reading = second.reading = self._read(now, socket.bytes_received, audience)
        second.elapsed_ms = reading.elapsed_ms - before.elapsed_ms
        second.audience = audience
        second.rtt_ms = socket.rtt_ms
        second.retrans = None if socket.retrans is None else socket.retrans - (former.retrans or 0)
        self.dropped.add(reading.dropped_frames - before.dropped_frames)
        if reading.keyframes != before.keyframes:
            self.intervals = intervals = tuple(self.keyframe_intervals)
            self._longest_interval = max(intervals[-KEYFRAME_INTERVALS:], default=None)
        if reading.video_frames and not before.video_frames:
            first_ms = reading.elapsed_ms - round((now - self._first_video) * 1000)
            self._fps_from_ms = max(before.elapsed_ms, first_ms)
        self._average(second, readings[0], reading)
        readings.append(reading)
        video.settle(claimed_fps)
        second.idle_s = self.idle_s(now)
        if self.last_media is not None:
            self._time(second, now, self.last_media)
        return second

    def _read(self, now: float, received_bytes: int, audience: Audience) -> Reading:
        counters, video, audio = self._counters, self.video_line, self.audio_line
        return Reading(
            round((now - self.started) * 1000),  # As a whole, so that rounding never adds up.
            counters.video_bytes,
            counters.audio_bytes,
            counters.data_bytes,
            received_bytes - self._received_before,
            video.frames,
            audio.frames,
            counters.keyframes,
            video.gaps + audio.gaps,
            video.regressions + audio.regressions,
            video.missing,
            counters.media_faults,
            audience.out_bytes - self._out_before,
            audience.dropped_frames - self._dropped_before,
            video.dts,
        )

    def _time(self, second: Second, now: float, last_media: float) -> None:
        """What its media's times say."""
        first_media = self.first_media or 0.0
        last_video, last_audio, video, audio = self.last_video, self.last_audio, self.video_line, self.audio_line
        second.without_video_s = last_media - (first_media if last_video is None else last_video)
        second.without_audio_s = last_media - (first_media if last_audio is None else last_audio)
        if last_video is not None:
            began = self._gop_began
            second.open_gop_age, second.open_gop_s = now - began, last_video - began
            main, passed_s = video, last_video - self._first_video
            if last_audio is not None:
                second.av_skew = difference(video.last, audio.last)
        elif last_audio is not None:
            main, passed_s = audio, last_audio - self._first_audio
        else:
            return
        drift = second.drift = passed_s * 1000 - main.dts
        behind = drift + main.jumped
        second.drift_dev = behind - self._drifts.add(behind)
        pace = self._pace.add((main.dts - main.jumped) / 1000, now)
        second.pace = pace if behind < 0 else None

    def _average(self, second: Second, oldest: Reading, reading: Reading) -> None:
        """Over the time between the two."""
        elapsed_ms = reading.elapsed_ms - oldest.elapsed_ms
        if elapsed_ms:  # Bits a millisecond are kilobits a second.
            second.video_kbps = round(8 * (reading.video_bytes - oldest.video_bytes) / elapsed_ms, 3)
            second.audio_kbps = round(8 * (reading.audio_bytes - oldest.audio_bytes) / elapsed_ms, 3)
            second.wire_kbps = round(8 * (reading.wire_bytes - oldest.wire_bytes) / elapsed_ms, 3)
            second.out_kbps = round(8 * (reading.out_bytes - oldest.out_bytes) / elapsed_ms, 3)
        if not reading.video_frames:
            return
        elapsed_ms = reading.elapsed_ms - max(oldest.elapsed_ms, self._fps_from_ms)
        second.fps = (reading.video_frames - oldest.video_frames) * 1000 / elapsed_ms if elapsed_ms else None
        # Of the first frame on there is no time before it.
        frames = reading.video_frames - (oldest.video_frames or 1)
        dts = reading.video_dts - oldest.video_dts
        second.fps_media = frames * 1000 / dts if dts > 0 else None

    def sample(self, now: float, *, health: Health, target_kbps: int | None) -> Sample:
        """Of the second that was measured just now."""
        second = self.second
        reading, before, audience, elapsed_ms = second.reading, second.before, second.audience, second.elapsed_ms
        intervals, labels = self.intervals, self._publisher.labels
        fps, fps_media, age = second.fps, second.fps_media, second.open_gop_age
        drift, drift_dev = second.drift, second.drift_dev
        video_bytes = reading.video_bytes - before.video_bytes
        audio_bytes = reading.audio_bytes - before.audio_bytes
        wire_bytes = reading.wire_bytes - before.wire_bytes
        out_bytes = reading.out_bytes - before.out_bytes
        per_ms = 8 / elapsed_ms if elapsed_ms else 0.0
        self._sequence += 1
        # In the order of its fields: by their names it costs three times as much.
        self.latest = sample = Sample(
            self._publisher.session_id,
            self._sequence,
            round((now + self._wall_offset) * 1_000_000),
            elapsed_ms,
            self._node,
            self._app,
            self._name,
            labels["stream"],
            labels["key"],
            video_bytes,
            audio_bytes,
            reading.data_bytes - before.data_bytes,
            wire_bytes,
            round(video_bytes * per_ms, 3),
            round(audio_bytes * per_ms, 3),
            round(wire_bytes * per_ms, 3),
            reading.video_frames - before.video_frames,
            reading.audio_frames - before.audio_frames,
            reading.keyframes - before.keyframes,
            None if fps is None else round(fps, 2),
            None if fps_media is None else round(fps_media, 2),
            intervals[-1] if intervals else None,
            self._longest_interval,
            None if age is None else round(age, 3),
            None if drift is None else round(drift, 1),
            None if drift_dev is None else round(drift_dev, 1) + 0.0,
            second.av_skew,
            reading.ts_gap - before.ts_gap,
            reading.ts_regress - before.ts_regress,
            reading.missing_frames_est - before.missing_frames_est,
            reading.media_faults - before.media_faults,
            round(second.idle_s * 1000),
            second.rtt_ms,
            second.retrans,
            audience.players,
            out_bytes,
            round(out_bytes * per_ms, 3),
            audience.slow_players,
            reading.dropped_frames - before.dropped_frames,
            health,
            self._encoder,
            target_kbps,
        )
        return sample

    @property
    def totals(self) -> Totals:
        """Of the session up to the latest sample: exactly what the samples add up to."""
        read = self.second.reading
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
        ask = self._publisher.socket
        return ask() if ask else SocketFigures(0)
