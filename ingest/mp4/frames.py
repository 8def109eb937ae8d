"""The index of an FLV file's frames: where each stands, how long it is, when it is decoded and shown, and by which
configuration. A sequence header belongs to the frames behind it, until another comes.

Reads the headers of tags and the first bytes of what is in them: some 1.2 us a tag of the usual codecs. A file ends
where it can't be read any further, as one does whose writer was killed. Times are its own, as `FlvIndex` has them.
"""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from io import SEEK_END
from typing import BinaryIO, Final, Literal, NamedTuple, TypeVar

from ingest.flv.index import head_suffices
from ingest.flv.seek_points import FileClock
from ingest.flv.tags import (
    BEFORE_TAG_BYTES,
    FILE_HEADER,
    POINTER_BYTES,
    FlvError,
    read_file_header,
    read_tag_header,
)
from ingest.mp4.limits import Mp4Limits, Unplayable
from ingest.rtmp.codecs import AudioConfig, VideoConfig, audio_config, video_config
from ingest.rtmp.limits import Limits
from ingest.rtmp.media import AudioMessage, ExtendedAudio, ExtendedVideo, VideoMessage, read_audio, read_video
from ingest.rtmp.media_tags import (
    AAC,
    AUDIO_CODECS,
    COMPOSITION_FOURCC,
    VIDEO_CODECS,
    AudioPacket,
    LegacyAudio,
    LegacyVideo,
    MultitrackType,
    VideoPacket,
    codec_name,
)
from ingest.rtmp.messages import MAX_U24, TAG_HEADER, TIMESTAMP_HALF, MessageType

Kind = Literal["video", "audio"]

BLOCK_BYTES: Final = 32 * 1024
"""Read at once: some frames of a usual bitrate. Larger frames are passed over."""
HEAD_BYTES: Final = 64
"""Of each payload. What they don't tell is read whole."""
TAGS_PER_CALLBACK: Final = 256
"""After so many, under a millisecond's work, whoever scans may rest."""

AUDIO_TAG: Final = int(MessageType.AUDIO)
VIDEO_TAG: Final = int(MessageType.VIDEO)

BY_HEADER: Final = {"H.264", "H.265", "AV1", "AAC", "Opus", "FLAC"}
"""Whose frames are of no use before a sequence header. Of VP8 and VP9 a keyframe tells, too."""
BY_FRAME: Final = {"MP3", "AC-3", "E-AC-3"}
"""Each of whose frames says what it is. What FFmpeg sends as their header is empty."""
CARRIED: Final[dict[Kind, set[str]]] = {
    "video": {"H.264", "H.265", "AV1", "VP8", "VP9"},
    "audio": {"AAC", "MP3", "Opus", "FLAC", "AC-3", "E-AC-3"},
}

AVC_HEAD, AAC_HEAD = 5, 2
"""Bytes before the frame itself, in plain messages of the usual codecs."""
KEY_AVC, INTER_AVC = b"\x17\x01", b"\x27\x01"
AVC_STARTS: Final = frozenset((KEY_AVC, INTER_AVC))
AAC_STARTS: Final = frozenset(bytes((AAC << 4 | rest, AudioPacket.CODED_FRAMES)) for rest in range(16))
PLAIN: Final[dict[Kind, str]] = {"video": "H.264", "audio": "AAC"}


@dataclass(frozen=True, slots=True)
class Configuration:
    codec: str
    header: bytes
    """Of the codec's sequence header; else the first frame's beginning, if that tells what a header would."""
    config: VideoConfig | AudioConfig


@dataclass(eq=False)
class Track:
    kind: Kind
    track_id: int
    offsets: "array[int]" = field(default_factory=lambda: array("Q"))
    """Of each frame, from the file's beginning."""
    sizes: "array[int]" = field(default_factory=lambda: array("I"))
    times: "array[int]" = field(default_factory=lambda: array("q"))
    """When it is decoded, ms; may go back a little."""
    compositions: "array[int]" = field(default_factory=lambda: array("i"))
    """Of video: how much later it is shown, ms."""
    keys: "array[int]" = field(default_factory=lambda: array("I"))
    """Of video: the numbers of the keyframes, from 0."""
    configurations: list[Configuration] = field(default_factory=list)
    changes: list[tuple[int, int]] = field(default_factory=list)
    """(number of a frame, number of the configuration from there on)."""
    pending: Configuration | None = None
    """By the latest header; the next frame begins it."""
    foreign: str = ""
    """A codec of its frames that MP4 doesn't take."""
    is_plain: bool = False
    """The next frame, if it is one of the usual codec, needs no further look."""

    @property
    def active(self) -> Configuration | None:
        """Of the next frame; None before any can be used."""
        return self.pending or (self.configurations[self.changes[-1][1]] if self.changes else None)


@dataclass
class Frames:
    tracks: list[Track]
    """The first video track, then all of audio, each with frames."""
    end: int
    """Of the last whole tag, in the FLV file."""


def scan_frames(
    stream: BinaryIO,
    limits: Limits,
    mp4_limits: Mp4Limits,
    *,
    on_progress: Callable[[], object] | None = None,
) -> Frames:
    """Of a stream that can seek. Raises FlvError where it is no FLV file at all, Unplayable."""
    return _Scan(stream, limits, mp4_limits, on_progress or (lambda: None)).run()


class _Piece(NamedTuple):
    """A frame within a tag's payload, or a header."""

    codec: str
    track_id: int
    start: int
    size: int
    body: bytes
    """As much of it as was read."""
    composition_ms: int


class _Scan:
    def __init__(
        self, stream: BinaryIO, limits: Limits, mp4_limits: Mp4Limits, on_progress: Callable[[], object]
    ) -> None:
        self._stream = stream
        self._limits = limits
        self._mp4 = mp4_limits
        self._on_progress = on_progress
        self._tracks: dict[tuple[Kind, int], Track] = {}
        self._has_encrypted = False
        self._has_frames = False

    def run(self) -> Frames:
        self._stream.seek(0)
        start = self._stream.read(FILE_HEADER.size)
        if len(start) < FILE_HEADER.size:
            raise FlvError("no FLV file: it ends within FLV's header")
        end = self._scan(read_file_header(start))
        self._check_size()
        return Frames(self._chosen(), end)

    def _scan(self, end: int) -> int:
        """From the size of a tag before on; where the last whole tag ends. Most are told by their first bytes."""
        size = self._stream.seek(0, SEEK_END)
        unpack, clock = TAG_HEADER.unpack_from, FileClock()
        video, audio = self._track("video", 0), self._track("audio", 0)
        block, block_at, count = b"", 0, 0
        while True:
            relative = end - block_at
            if relative + BEFORE_TAG_BYTES + HEAD_BYTES > len(block):
                self._stream.seek(end)
                block, block_at, relative = self._stream.read(BLOCK_BYTES), end, 0
                if len(block) < BEFORE_TAG_BYTES:
                    return end
            type_and_size, middle, low, high = unpack(block, relative + POINTER_BYTES)
            length, kind = type_and_size & MAX_U24, type_and_size >> 24
            at, body = end + BEFORE_TAG_BYTES, relative + BEFORE_TAG_BYTES
            if at + length > size:
                return end
            count += 1
            if count % TAGS_PER_CALLBACK == 0:
                self._check_size()
                self._on_progress()
            timestamp = high << 24 | middle << 8 | low
            if kind in (VIDEO_TAG, AUDIO_TAG):
                if length > self._limits.media_message_bytes:
                    return end
                if clock.first is not None and 0 <= timestamp - clock.timestamp < TIMESTAMP_HALF:
                    clock.now += timestamp - clock.timestamp
                    clock.timestamp = timestamp
                else:
                    clock.at(timestamp)
                start = block[body : body + 2]
                if kind == VIDEO_TAG and video.is_plain and start in AVC_STARTS and length > AVC_HEAD:
                    if start == KEY_AVC:
                        video.keys.append(len(video.offsets))
                    composition = (block[body + 2] ^ 0x80) - 0x80 << 16 | block[body + 3] << 8 | block[body + 4]
                    video.compositions.append(composition)
                    video.offsets.append(at + AVC_HEAD)
                    video.sizes.append(length - AVC_HEAD)
                    video.times.append(clock.now)
                elif kind == AUDIO_TAG and audio.is_plain and start in AAC_STARTS and length > AAC_HEAD:
                    audio.offsets.append(at + AAC_HEAD)
                    audio.sizes.append(length - AAC_HEAD)
                    audio.times.append(clock.now)
                elif length:
                    self._message(kind, at, length, block[body : body + min(length, HEAD_BYTES)], clock.now)
            else:
                try:
                    header = read_tag_header(block, relative, end + POINTER_BYTES, self._limits)
                except FlvError:
                    return end
                self._has_encrypted = self._has_encrypted or header.is_encrypted
            end = at + length

    # --- What isn't told by its first bytes ---

    def _message(self, kind: int, at: int, length: int, head: bytes, time_ms: int) -> None:
        payload = head
        if len(head) < length and not head_suffices(kind, head):
            self._stream.seek(at)
            payload = self._stream.read(length)
        if kind == VIDEO_TAG:
            self._video(read_video(payload, self._limits), at, length, payload, time_ms)
        else:
            self._audio(read_audio(payload, self._limits), at, length, payload, time_ms)

    def _video(self, message: VideoMessage | None, at: int, length: int, payload: bytes, time_ms: int) -> None:
        if message is None or message.fault or message.command is not None:
            return
        is_header = message.packet_type == VideoPacket.SEQUENCE_START
        if not is_header and message.packet_type not in VIDEO_FRAMES:
            return
        for number, piece in enumerate(_pieces(message, at, length, payload)):
            track = self._track("video", piece.track_id)
            config = video_config(_only(message, number))
            if not isinstance(config, VideoConfig):
                continue
            if is_header:
                self._begin(track, piece, config)
            elif self._takes(track, piece, config, is_key=message.is_keyframe):
                if message.is_keyframe:
                    track.keys.append(len(track.offsets))
                track.compositions.append(piece.composition_ms)
                self._add(track, piece, time_ms)

    def _audio(self, message: AudioMessage | None, at: int, length: int, payload: bytes, time_ms: int) -> None:
        if message is None or message.fault:
            return
        is_header = message.is_sequence_start
        if not is_header and message.packet_type not in AUDIO_FRAMES:
            return
        for number, piece in enumerate(_pieces(message, at, length, payload)):
            track = self._track("audio", piece.track_id)
            config = audio_config(_only(message, number))
            if not isinstance(config, AudioConfig):
                continue
            if is_header:
                self._begin(track, piece, config)
            elif self._takes(track, piece, config, is_key=True):
                self._add(track, piece, time_ms)

    def _begin(self, track: Track, header: _Piece, config: VideoConfig | AudioConfig) -> None:
        """By a sequence header. The same again changes nothing."""
        active = track.active
        if active is not None and (active.codec, active.header) == (header.codec, header.body):
            return
        if header.codec not in CARRIED[track.kind]:
            self._refuse(track, header.codec)
        elif header.codec not in BY_FRAME and header.size <= self._mp4.configuration_bytes:
            track.pending = Configuration(header.codec, header.body, config)
            track.is_plain = False

    def _takes(self, track: Track, frame: _Piece, config: VideoConfig | AudioConfig, *, is_key: bool) -> bool:
        """Whether the frame can be decoded, as far as that is known. The first one behind a header begins its time."""
        if not frame.size:
            return False
        self._has_frames = True
        active = track.active
        if active is None or active.codec != frame.codec:
            if frame.codec not in CARRIED[track.kind]:
                self._refuse(track, frame.codec)
                return False
            if frame.codec in BY_HEADER or not is_key:
                return False
            active = track.pending = Configuration(frame.codec, frame.body[:HEAD_BYTES], config)
        if isinstance(active.config, VideoConfig) and isinstance(config, VideoConfig) and active.config.width is None:
            active.config.width, active.config.height = config.width, config.height
        if track.pending is not None:
            self._change(track, track.pending)
        return True

    def _change(self, track: Track, to: Configuration) -> None:
        known = [(each.codec, each.header) for each in track.configurations]
        if (to.codec, to.header) not in known:
            track.configurations.append(to)
            known.append((to.codec, to.header))
        if len(known) > self._mp4.configurations or len(track.changes) >= self._mp4.changes:
            raise Unplayable("Its encoder changed its settings too often for an MP4.")
        track.changes.append((len(track.offsets), known.index((to.codec, to.header))))
        track.pending = None
        track.is_plain = to.codec == PLAIN[track.kind]

    def _add(self, track: Track, piece: _Piece, time_ms: int) -> None:
        track.offsets.append(piece.start)
        track.sizes.append(piece.size)
        track.times.append(time_ms)

    def _track(self, kind: Kind, track_id: int) -> Track:
        track = self._tracks.get((kind, track_id))
        if track is None:
            if sum(1 for each, _ in self._tracks if each == kind) >= self._mp4.tracks:
                raise Unplayable(f"It has more than {self._mp4.tracks} tracks of {kind}.")
            track = self._tracks[kind, track_id] = Track(kind, track_id)
        return track

    def _refuse(self, track: Track, codec: str) -> None:
        track.foreign = codec
        if track.track_id == 0:  # It is the first of its kind, whatever others there are.
            raise Unplayable(_foreign(track))

    def _check_size(self) -> None:
        if sum(len(track.offsets) for track in self._tracks.values()) > self._mp4.frames:
            raise Unplayable(f"It has over {self._mp4.frames:,} frames, more than an MP4 is made for.")

    def _chosen(self) -> list[Track]:
        found = [track for _, track in sorted(self._tracks.items()) if track.offsets or track.foreign]
        chosen = [track for track in found if track.kind == "video"][:1]
        chosen += [track for track in found if track.kind == "audio"]
        for track in chosen:
            if track.foreign:
                raise Unplayable(_foreign(track))
        if not chosen:
            raise Unplayable(self._why_empty())
        return chosen

    def _why_empty(self) -> str:
        if self._has_encrypted:
            return "Its media are encrypted."
        if self._has_frames:
            return "Nothing in it can be decoded: the headers that its codecs need are missing."
        return "It has neither picture nor sound."


VIDEO_FRAMES: Final = (None, VideoPacket.CODED_FRAMES, VideoPacket.CODED_FRAMES_X)
AUDIO_FRAMES: Final = (None, AudioPacket.CODED_FRAMES)


def _foreign(track: Track) -> str:
    part = "picture" if track.kind == "video" else "sound"
    return f"Its {part} is {track.foreign}, which MP4 files and browsers don’t take."


M = TypeVar("M", VideoMessage, AudioMessage)


def _only(message: M, number: int) -> M:
    """The message with that track alone."""
    if isinstance(message, ExtendedVideo | ExtendedAudio):
        return replace(message, tracks=(message.tracks[number],))
    return message


def _pieces(message: VideoMessage | AudioMessage, at: int, length: int, payload: bytes) -> Iterator[_Piece]:
    """What the message holds of each track. `payload`: its beginning, or all of it where it has many tracks; it stands
    at `at` in the file, and has `length` bytes there."""
    if isinstance(message, LegacyVideo | LegacyAudio):
        head = len(payload) - len(message.body)
        if isinstance(message, LegacyVideo):
            codec, composition = VIDEO_CODECS.get(message.codec, "unknown"), message.composition_time_ms
        else:
            codec, composition = AUDIO_CODECS.get(message.sound_format, "unknown"), 0
        yield _Piece(codec, 0, at + head, length - head, message.body, composition)
        return
    for track, start in zip(message.tracks, _starts(message, payload), strict=True):
        is_last = message.multitrack in (None, MultitrackType.ONE_TRACK)
        size = length - start if is_last else len(track.body)
        composition = track.composition_time_ms
        yield _Piece(codec_name(track.fourcc), track.track_id, at + start, size, track.body, composition)


def _starts(message: ExtendedVideo | ExtendedAudio, payload: bytes) -> list[int]:
    """Where each track's body stands in the payload: they follow one another, and the last ends with it."""
    has_composition = isinstance(message, ExtendedVideo) and message.packet_type == VideoPacket.CODED_FRAMES
    own_codecs = message.multitrack == MultitrackType.MANY_TRACKS_MANY_CODECS
    end, starts = len(payload), []
    for track in reversed(message.tracks):
        starts.append(end - len(track.body))
        end = starts[-1] - TRACK_HEAD_BYTES - FOURCC_BYTES * own_codecs
        end -= COMPOSITION_BYTES * (has_composition and track.fourcc in COMPOSITION_FOURCC)
    return starts[::-1]


TRACK_HEAD_BYTES, FOURCC_BYTES, COMPOSITION_BYTES = 4, 4, 3
"""Of a track among many: its id and size; its codec, where each has its own; its composition time."""
