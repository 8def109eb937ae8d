"""Counts what a publishing session sends and its players get, and makes a sample of it once a second.

A sample is the difference between two readings of counters that only grow, so samples always add up to the totals.
Each figure is defined where it is computed; `contracts.Sample` names the units.
"""

from collections import deque
from dataclasses import dataclass, replace
from typing import Final

from ingest import clean
from ingest.contracts import Health, MediaCounters, Sample, Totals
from ingest.live.counted import COUNTED, NOTHING_COUNTED, Audience, Counters
from ingest.live.metadata import MOST_ENCODER
from ingest.live.publisher import Publisher, SocketFigures
from ingest.live.timeline import Timeline
from ingest.live.windows import Mean, Rate, Slope, Total
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


@dataclass(slots=True)
class Second:
    """What the latest second brought, and the figures of its end; None: not measured (yet)."""

    grown: dict[str, int]
    audience: Audience
    rtt_ms: float | None
    retrans: int | None
    fps: float | None = None
    """Mean of 5 s, as `fps_media`."""
    fps_media: float | None = None
    drift: float | None = None
    drift_dev: float | None = None
    pace: float | None = None
    """Seconds of media a second, mean of 10 s."""


class Shown:
    """Means over the last 5 s, as cards and the API show them; and what players lost in the last minute."""

    __slots__ = ("audio", "dropped", "fps", "out", "video", "wire")

    def __init__(self) -> None:
        self.video, self.audio, self.wire, self.out = (Rate(SHOWN_SECONDS) for _ in range(4))
        self.fps = Rate(SHOWN_SECONDS)
        self.dropped = Total(DROPPED_SECONDS)


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
        self.keyframe_intervals: deque[float] = deque(maxlen=2 * KEYFRAME_INTERVALS)
        """Seconds of DTS."""
        self.is_paused = False
        """By the publisher's wish: what doesn't come is not missed."""
        self.latest: Sample | None = None
        self.shown = Shown()
        self._publisher = publisher
        self._encoder = ""
        self.call(publisher.encoder)
        self._counters = Counters()
        self._read = Counters()
        self._audience = audience
        self._socket = self._ask_socket()
        self._idle_from = now
        self._idle_before_s = 0.0
        """Its silence when its latest pause began."""
        self._first_video = now
        self._first_audio = now
        self._keyframe_dts = 0
        self._drifts = Mean(DRIFT_SECONDS)
        self._media_rate = Slope(SHOWN_SECONDS)
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

    def advance_video(self, timestamp: int, steps: list[int], size: int, now: float) -> None:
        """Several frames of the main track, `size` payload bytes together, none of them a keyframe or irregular, nor
        the first."""
        self._counters.video_bytes += size
        self.video_line.advance(timestamp, steps)
        self.last_media = self.last_video = now

    def advance_audio(self, timestamp: int, steps: list[int], size: int, now: float) -> None:
        """The same of sound."""
        self._counters.audio_bytes += size
        self.audio_line.advance(timestamp, steps)
        self.last_media = self.last_audio = now

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
    def lacks_keyframes(self) -> bool:
        """Pictures come, and a keyframe is not to be waited for: as with intra refresh, which renews them by parts."""
        age, intervals = self.open_gop_s, self.keyframe_intervals
        if age is None:
            return False
        return age >= max(LONG_LACKING_S, 2 * max(intervals)) if intervals else age >= LACKING_S

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
    def behind_ms(self) -> float | None:
        """The drift without clocks that were set: how far media is behind real time, since the session began."""
        drift = self.drift
        return None if drift is None else drift + self._main_line.jumped

    @property
    def is_ahead(self) -> bool:
        """More time of media has come than has passed."""
        behind = self.behind_ms
        return behind is not None and behind < 0

    @property
    def _main_line(self) -> Timeline:
        return self.audio_line if self.last_video is None else self.video_line

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

    def begin_anew(self) -> None:
        """Nothing came for a while: what drifts, and how fast, is measured from here on."""
        self._drifts.clear()
        self._pace.clear()

    def measure(self, now: float, audience: Audience, claimed_fps: float | None) -> Second:
        """What happened since the last time, which may be less than a second ago when the session ends."""
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
        shown.dropped.add(grown["dropped_frames"])
        line = self.video_line
        line.settle(claimed_fps)
        second = Second(grown, audience, socket.rtt_ms, retrans)
        if line.frames:
            # The time before the first frame is no time without frames.
            shown.fps.add(grown["video_frames"], min(elapsed_ms, round((now - self._first_video) * 1000)))
            second.fps = shown.fps.per_second
            second.fps_media = self._media_rate.add(line.frames, line.dts / 1000)
        behind = self.behind_ms
        if behind is not None:
            second.drift = self.drift
            second.drift_dev = behind - self._drifts.add(behind)
            main = self._main_line
            second.pace = self._pace.add((main.dts - main.jumped) / 1000, now)
        return second

    def sample(
        self,
        now: float,
        second: Second,
        *,
        node: str,
        app: str,
        name: str,
        health: Health,
        target_kbps: int | None,
    ) -> Sample:
        """Of the second that was measured just now."""
        grown, audience, drift_dev = second.grown, second.audience, second.drift_dev
        elapsed_ms = grown["elapsed_ms"]
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
            fps=_rounded(second.fps, 2),
            fps_media=_rounded(second.fps_media, 2),
            keyframe_interval=intervals[-1] if intervals else None,
            keyframe_interval_max=max(list(intervals)[-KEYFRAME_INTERVALS:], default=None),
            open_gop_age=_rounded(self.open_gop_age(now), 3),
            drift=_rounded(second.drift, 1),
            drift_dev=None if drift_dev is None else round(drift_dev, 1) + 0.0,
            av_skew=self.av_skew,
            idle_ms=round(self.idle_s(now) * 1000),
            rtt_ms=second.rtt_ms,
            retrans=second.retrans,
            players=audience.players,
            slow_players=audience.slow_players,
            out_kbps=_kbps(grown["out_bytes"], elapsed_ms),
            health=health,
            encoder=self._encoder,
            target_kbps=target_kbps,
            **grown,
        )
        return self.latest

    @property
    def received(self) -> MediaCounters:
        """Of the session up to the latest sample, without its players."""
        totals = self.totals
        return {
            **NOTHING_COUNTED,
            "received_bytes": totals["bytes_in"],
            "video_frames": totals["video_frames"],
            "audio_frames": totals["audio_frames"],
        }

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
