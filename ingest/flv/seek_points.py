"""What a file's tags tell while they pass in their order, as they are written or scanned: where to seek to,
which headers hold there, and how long the file is.

A file's time is its timestamps as milliseconds that go on, where they wrap and where an encoder began again."""

from bisect import bisect_right
from copy import copy
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple, Self

from ingest.flv.metadata import SeekPoint
from ingest.rtmp.limits import Limits
from ingest.rtmp.media import AudioMessage, ExtendedAudio, ExtendedVideo, VideoMessage, read_audio, read_video
from ingest.rtmp.media_tags import AAC, NO_TRACK, PACKETISED_VIDEO, AudioPacket, FrameType, VideoPacket
from ingest.rtmp.messages import MessageType, timestamp_difference

BACK_MS: Final = 3000
"""A step back over this is an encoder that began again; smaller ones are audio and video that are interleaved."""


@dataclass(slots=True, eq=False)
class FileClock:
    """Counts from the first tag of audio or video, which is 0 by the format (annex E.4.1) and need not be."""

    first: int | None = None
    timestamp: int = 0
    now: int = 0
    """ms."""

    def at(self, timestamp: int) -> int:
        """The time of the next tag in the file, ms; may be below 0 where the first one was not the earliest."""
        if self.first is None:
            self.first = self.timestamp = timestamp
        step = timestamp_difference(timestamp, self.timestamp)
        self.timestamp = timestamp
        if step >= -BACK_MS:
            self.now += step
        return self.now


MAX_POINTS: Final = 4096
"""Of a file: two hours of a keyframe every 2 s. Longer ones have every second keyframe, every fourth, and so on."""

AUDIO_POINT_STEP_MS: Final = 1000
"""Between the points of a file without video."""

MAX_HEADERS: Final = 4096
"""Of a file. A few are what encoders send; each change of an encoder's settings brings as many again. Files with more,
such as of two encoders in turn, have fewer points, so that the headers that hold at each are all known."""

MAX_SLOTS: Final = 256
"""Kinds of headers and tracks of a file; headers of further ones are not marked."""

DESCRIPTIONS: Final = (VideoPacket.METADATA, AudioPacket.MULTICHANNEL_CONFIG)
"""Packet types that hold until replaced, besides sequence headers."""

PLAIN_VIDEO_FRAMES: Final = frozenset(
    bytes((FrameType.INTER << 4 | codec, VideoPacket.CODED_FRAMES)) for codec in PACKETISED_VIDEO
)
PLAIN_AUDIO_FRAMES: Final = frozenset(bytes((AAC << 4 | rest, AudioPacket.CODED_FRAMES)) for rest in range(16))
"""How frames begin that need not be read: nearly all."""
PLAIN_BYTES: Final = 5
"""That such a video frame has at least: up to its composition time."""


class HeaderPosition(NamedTuple):
    offset: int
    slot: tuple[int, ...]
    """Which header it replaces: kind of tag, kind of header, track."""


class SeekPoints:
    """Seek points, ascending, thinned out as they grow too many."""

    def __init__(self, spacing_ms: int = 1) -> None:
        self.points: list[SeekPoint] = []
        self._spacing_ms = spacing_ms

    def copy(self) -> Self:
        found = copy(self)
        found.points = self.points.copy()
        return found

    def add(self, time_ms: int, offset: int) -> None:
        """Leaves out what does not go on in time, as a place before it leads there too."""
        points = self.points
        if points and time_ms - points[-1].time_ms < self._spacing_ms:
            return
        points.append(SeekPoint(time_ms, offset))
        if len(points) > MAX_POINTS:
            self.thin_out()

    def thin_out(self) -> None:
        """Every second one goes, and further ones will have as much time between them."""
        points = self.points
        del points[1::2]
        if points:
            self._spacing_ms = max(self._spacing_ms, (points[-1].time_ms - points[0].time_ms) // len(points))


class SeekIndex:
    """With video, points are the keyframes of its main track, which is that of the lowest id."""

    def __init__(self, limits: Limits) -> None:
        self.clock = FileClock()
        self.duration_ms = 0
        """The latest time of any tag."""
        self.has_audio = False
        self.has_video = False
        self.headers: list[HeaderPosition] = []
        """Sequence headers and what else decoding needs first, in the file's order. Repetitions are left out, and where
        there are many, those that hold at no point."""
        self.index_is_complete = True
        """The index alone says all: headers stand before the first frame, and times are the tags' own timestamps."""
        self._limits = limits
        self._keyframes = SeekPoints()
        self._audio_points = SeekPoints(AUDIO_POINT_STEP_MS)
        self._latest: dict[tuple[int, ...], int] = {}
        self._track = NO_TRACK
        self._has_frames = False

    def copy(self) -> Self:
        """One that goes on by itself, while others read this one."""
        copied = copy(self)
        copied.clock = copy(self.clock)
        copied.headers = self.headers.copy()
        copied._latest = self._latest.copy()
        copied._keyframes, copied._audio_points = self._keyframes.copy(), self._audio_points.copy()
        return copied

    @property
    def points(self) -> list[SeekPoint]:
        return self._active_points.points

    @property
    def _active_points(self) -> SeekPoints:
        return self._keyframes if self.has_video else self._audio_points

    def use_keyframes(self, keyframes: list[SeekPoint]) -> None:
        """Points that are known from elsewhere, in place of all so far."""
        self.has_video = True
        self._keyframes.points = keyframes

    def at_or_before(self, time_ms: int) -> SeekPoint | None:
        """The last point that is not after the time; the first one for a time before all; None without points."""
        points = self.points
        return points[max(bisect_right(points, time_ms, key=attrgetter("time_ms")) - 1, 0)] if points else None

    def headers_at(self, offset: int) -> list[int]:
        """Where the headers stand that hold at a point's place: what a player needs that begins there."""
        valid = {mark.slot: mark.offset for mark in self.headers if mark.offset < offset}
        return sorted(valid.values())

    def add(self, type_id: int, timestamp: int, payload: bytes, offset: int) -> None:
        """The next tag; of what is not audio or video, nothing is marked."""
        if type_id == MessageType.VIDEO:
            self._add_video(self._time(timestamp), payload, offset)
        elif type_id == MessageType.AUDIO:
            self._add_audio(self._time(timestamp), payload, offset)

    def _time(self, timestamp: int) -> int:
        clock = self.clock
        time_ms = clock.at(timestamp)
        self.index_is_complete = self.index_is_complete and time_ms + (clock.first or 0) == timestamp
        self.duration_ms = max(self.duration_ms, time_ms)
        return time_ms

    def _add_video(self, time_ms: int, payload: bytes, offset: int) -> None:
        if payload[:2] in PLAIN_VIDEO_FRAMES and len(payload) >= PLAIN_BYTES:
            self.has_video = self._has_frames = True
            return
        message = read_video(payload, self._limits)
        if message is None:
            return
        self.has_video = True
        if _is_header(message):
            self._add_header(MessageType.VIDEO, message, payload, offset)
            return
        self._has_frames = True
        track = _tracks(message)[-1]
        if message.is_keyframe and track <= self._track:
            self._track = track
            self._keyframes.add(time_ms, offset)

    def _add_audio(self, time_ms: int, payload: bytes, offset: int) -> None:
        self.has_audio = True
        message = None if payload[:2] in PLAIN_AUDIO_FRAMES else read_audio(payload, self._limits)
        if message and _is_header(message):
            self._add_header(MessageType.AUDIO, message, payload, offset)
            return
        self._has_frames = True
        self._audio_points.add(time_ms, offset)

    def _add_header(self, type_id: int, message: VideoMessage | AudioMessage, payload: bytes, offset: int) -> None:
        slot = (type_id, message.packet_type or 0, *_tracks(message))
        content = hash(payload)  # Not the payload itself: a peer may send long ones.
        latest = self._latest.get(slot)
        if latest == content or (latest is None and len(self._latest) >= MAX_SLOTS):
            return
        self._latest[slot] = content
        self.headers.append(HeaderPosition(offset, slot))
        if len(self.headers) > MAX_HEADERS:
            self._drop_headers()
        self.index_is_complete = self.index_is_complete and not self._has_frames

    def _drop_headers(self) -> None:
        """Those that hold at no point; and with every second point those that hold there only, until half are left."""
        while True:
            offsets = [point.offset for point in self.points]
            following: dict[tuple[int, ...], int] = {}
            kept = []
            for mark in reversed(self.headers):
                replaced = following.get(mark.slot)
                next_point = bisect_right(offsets, mark.offset)
                if replaced is None or (next_point < len(offsets) and offsets[next_point] <= replaced):
                    kept.append(mark)
                    following[mark.slot] = mark.offset
            self.headers = kept[::-1]
            if len(kept) <= MAX_HEADERS // 2:
                return
            self._active_points.thin_out()


def _is_header(message: VideoMessage | AudioMessage) -> bool:
    is_extended = isinstance(message, ExtendedVideo | ExtendedAudio)
    return message.is_sequence_start or (is_extended and message.packet_type in DESCRIPTIONS)


def _tracks(message: VideoMessage | AudioMessage) -> tuple[int, int]:
    """The form of multitrack, and the id of the first track."""
    if not isinstance(message, ExtendedVideo | ExtendedAudio) or not message.tracks:
        return (-1, 0)
    return (-1 if message.multitrack is None else message.multitrack, message.tracks[0].track_id)
