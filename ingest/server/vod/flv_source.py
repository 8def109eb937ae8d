"""A recording as a thread reads it: what its index tells, and the messages of a part of it, in batches.

`Span` is that part: from where, how far, and what of it the player has already.

All here may wait for a disk, so it runs in the threads of `library` only. What it raises: OSError; FlvError where
the file is none, or has become another."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple

from ingest.flv import FlvError, FlvIndex, Tag, TagReader, read_index
from ingest.flv.metadata import FILE_PROPERTIES, encode_metadata
from ingest.flv.recording import CpuShare
from ingest.flv.seek_points import BACK_MS, FileClock
from ingest.flv.tags import DATA_TYPES
from ingest.live import media
from ingest.live.message import ALL_EXTENSIONS, Kind, plain_payload
from ingest.rtmp.errors import RemoteProtocolError
from ingest.rtmp.limits import Limits
from ingest.rtmp.media_tags import NO_TRACK
from ingest.rtmp.messages import MessageType
from ingest.rtmp.messages.commands import decode_data

AUDIO: Final = int(MessageType.AUDIO)
VIDEO: Final = int(MessageType.VIDEO)
MOST_MS: Final = 2**53
"""Up to here a double counts whole numbers; peers may ask for any."""

UNIT_MS: Final[dict[Literal["ms", "s"], int]] = {"ms": 1, "s": 1000}


@dataclass(frozen=True, slots=True)
class Span:
    """Times are milliseconds of the file's clock, which begins at 0."""

    start_ms: int = 0
    """What is sent begins with the keyframe at or before it; 0 and below: with the file's first tag."""
    stop_ms: int | None = None
    """Nothing from here on; None: to the end."""
    is_single: bool = False
    """One frame, that which stands at `start_ms`, and what decoding it needs."""
    had_ms: dict[int, int] = field(default_factory=dict)
    """By message type: what the player has had up to this time, so that no frame before it is sent again. What has to
    come once more for decoding counts as of the latest of these times: the player's time goes on."""

    @property
    def floor_ms(self) -> int:
        """Of the times that are sent."""
        return max(self.had_ms.values(), default=0)

    def takes(self, type_id: int, time_ms: int, *, is_frame: bool) -> bool:
        if self.stop_ms is not None and time_ms >= self.stop_ms:
            return False
        return not is_frame or time_ms >= self.had_ms.get(type_id, time_ms)


def asked_span(start: float, duration: float, unit: Literal["ms", "s"]) -> Span:
    """By the arguments of `play` (section 7.2.2.1). A duration below 0 is all, 0 a single frame.

    What decoding needs of the time before a start counts as of that; of the sound it needs nothing.
    """
    scale = UNIT_MS[unit]
    start_ms = _milliseconds(start * scale)
    had_ms = {AUDIO: start_ms} if start_ms else {}
    if duration == 0:
        return Span(start_ms, is_single=True, had_ms=had_ms)
    stop_ms = _milliseconds(start_ms + duration * scale) if duration > 0 else None
    return Span(start_ms, stop_ms, had_ms=had_ms)


def _milliseconds(value: float) -> int:
    return round(min(max(value, 0), MOST_MS))


READ_BYTES: Final = 128 * 1024
"""Of a file at once. A batch has the messages that are whole then, one at least."""
NEAR_MS: Final = 1000
"""So far behind the end a single frame that is asked for is the last one: clients round a length up, and a file's last
tag has a duration of its own."""
READS: Final = 64
"""For one batch, as far as nothing in them is to be sent; then another player has its turn."""

DATA_AMF0: Final = int(MessageType.DATA_AMF0)


class RecordedMessage(NamedTuple):
    type_id: int
    """8, 9 or 18."""
    time_ms: int
    payload: bytes
    is_frame: bool
    is_keyframe: bool


class Batch(NamedTuple):
    pieces: list[RecordedMessage]
    size: int
    """Bytes of all payloads."""
    is_last: bool
    fault: str = ""
    """Why the file can't be read beyond these; they are the last then."""


@dataclass(frozen=True, slots=True)
class RecordingInfo:
    """What is known of a file: kept, and shared by its players."""

    identity: tuple[int, int]
    """Device and inode."""
    version: tuple[int, int]
    """Size and time of the latest change."""
    index: FlvIndex
    metadata: bytes
    checked_at: float
    """When that was true, by the process's clock."""

    @property
    def duration_ms(self) -> int:
        return self.index.duration_ms


def identify(stream: BinaryIO) -> tuple[tuple[int, int], tuple[int, int]]:
    """Identity and version of an open file, as a RecordingInfo has them."""
    found = os.fstat(stream.fileno())
    return (found.st_dev, found.st_ino), (found.st_size, found.st_mtime_ns)


def read_info(path: Path, known: RecordingInfo | None, limits: Limits, *, fresh_s: float = 0.0) -> RecordingInfo:
    """What is known, if it is still true; else the file is looked at, which takes time by its size at worst.

    Of one that has only grown, what is `fresh_s` old is still true enough, and then what was added is looked at.
    """
    with path.open("rb") as stream:
        identity, version = identify(stream)
        has_grown = known is not None and known.identity == identity and known.version[0] <= version[0]
        if known is not None and (known.identity, known.version) == (identity, version):
            return known
        if known is not None and has_grown and time.monotonic() - known.checked_at < fresh_s:
            return known
        index = read_index(
            stream, limits, previous=known.index if known and has_grown else None, on_progress=CpuShare()
        )
    index.metadata = {name: value for name, value in index.metadata.items() if name not in FILE_PROPERTIES}
    metadata = encode_metadata({"duration": index.duration_ms / 1000, **index.metadata})
    return RecordingInfo(identity, version, index, metadata, time.monotonic())


def _describe(tag: Tag) -> media.Tag:
    return media.video_tag(tag.payload) if tag.type_id == VIDEO else media.audio_tag(tag.payload)


def tag_at(stream: BinaryIO, offset: int, limits: Limits) -> Tag | None:
    """None where the file has become shorter."""
    stream.seek(offset)
    return next(TagReader(limits, at=offset).read(stream), None)


class FlvSource:
    """An open file, from which one player is fed: by one thread at a time, whichever it is."""

    def __init__(self, path: Path, info: RecordingInfo, limits: Limits, takes: int = ALL_EXTENSIONS) -> None:
        """`takes`: which messages the player understands beside plain ones, as flags of CapsEx."""
        self.info = info
        self._limits = limits
        self._takes = takes
        self._main = {AUDIO: NO_TRACK, VIDEO: NO_TRACK}
        """By message type: the lowest track so far, which stands for the others."""
        self._clock = FileClock()
        self._span = Span()
        self._reader = TagReader(limits)
        self._is_over = True
        self._stream: BinaryIO = path.open("rb", buffering=0)
        try:
            if identify(self._stream)[0] != info.identity:
                raise FlvError("the file was replaced by another one meanwhile")
        except BaseException:
            self._stream.close()
            raise

    def close(self) -> None:
        self._stream.close()

    def begin(self, span: Span) -> Batch:
        """From now on the span is read. The first batch has its metadata and headers, too."""
        self._span = span
        self._is_over = False
        pieces = [RecordedMessage(DATA_AMF0, self._first_ms(span), self.info.metadata, False, False)]
        pieces += self._find(span)
        return self._batch(pieces)

    def read(self) -> Batch:
        return self._batch([])

    # --- Where it begins ---

    def _first_ms(self, span: Span) -> int:
        point = self.info.index.at_or_before(span.start_ms)
        first_ms = point.time_ms if point is not None and not self._is_from_the_start(span) else 0
        return max(first_ms, span.floor_ms)

    def _is_from_the_start(self, span: Span) -> bool:
        """What stands before the first keyframe, such as sound, is played too."""
        index = self.info.index
        return not span.is_single and (not index.points or span.start_ms <= index.points[0].time_ms)

    def _find(self, span: Span) -> list[RecordedMessage]:
        """Puts the reader where the span begins: the headers that hold there."""
        index = self.info.index
        self._clock = FileClock()
        point = index.at_or_before(span.start_ms)
        most_ms = index.duration_ms + NEAR_MS * span.is_single
        if span.start_ms > most_ms or (point is None and span.is_single):
            self._is_over = True
            return []
        if point is None or self._is_from_the_start(span):
            self._stream.seek(0)
            self._reader = TagReader(self._limits)
            return []
        time_ms = self._first_ms(span)
        found = (self._header_at(offset, time_ms) for offset in index.headers_at(point.offset))
        headers = [header for header in found if header is not None]
        self._clock.now = point.time_ms
        self._stream.seek(point.offset)
        self._reader = TagReader(self._limits, at=point.offset)
        return headers

    def _header_at(self, offset: int, time_ms: int) -> RecordedMessage | None:
        """None for one that isn't sent."""
        tag = tag_at(self._stream, offset, self._limits)
        if tag is None or tag.type_id not in (AUDIO, VIDEO):
            raise FlvError(f"the file has no header at byte {offset} any more")
        payload = self._fitting(tag, _describe(tag))
        return None if payload is None else RecordedMessage(tag.type_id, time_ms, payload, False, False)

    def _fitting(self, tag: Tag, parsed: media.Tag) -> bytes | None:
        """The message as the player takes it, as in `ingest.live.message`; None: it has nothing for it."""
        if not parsed.is_faulty and parsed.track < self._main[tag.type_id]:
            self._main[tag.type_id] = parsed.track
        lacking = parsed.needs & ~self._takes
        if not lacking:
            return tag.payload
        kind: Kind = "video" if tag.type_id == VIDEO else "audio"
        return plain_payload(kind, tag.payload, lacking, self._main[tag.type_id])

    # --- What follows ---

    def _batch(self, pieces: list[RecordedMessage]) -> Batch:
        fault = ""
        reads = 0
        had = len(pieces)
        while not self._is_over and len(pieces) == had and reads < READS:
            reads += 1
            try:
                data = self._stream.read(READ_BYTES)
                if not data:
                    self._is_over = True
                    fault = self._fault_at_end()
                # All of the tags are taken, also behind the span's end; those before a fault stay in the list.
                pieces.extend(
                    piece
                    for tag in self._reader.feed(data)
                    if not self._is_over and (piece := self._piece(tag)) is not None
                )
            except FlvError as error:
                self._is_over = True
                fault = str(error)
        return Batch(pieces, sum(len(piece.payload) for piece in pieces), self._is_over, fault)

    def _fault_at_end(self) -> str:
        """A file may have grown since it was looked at, and end in the middle: it plays as far as it is written."""
        end, (size, _) = self._stream.tell(), self.info.version
        if end < size:
            return f"the file ends at byte {end}, and had {size} before"
        return ""

    def _piece(self, tag: Tag) -> RecordedMessage | None:
        """None for a tag that isn't sent."""
        span = self._span
        if tag.type_id in DATA_TYPES:
            return self._data(tag)
        time_ms = max(self._clock.at(tag.timestamp), 0)
        if span.stop_ms is not None and time_ms >= span.stop_ms + BACK_MS:  # Audio and video are interleaved.
            self._is_over = True
            return None
        parsed = _describe(tag)
        if tag.is_encrypted or not span.takes(tag.type_id, time_ms, is_frame=parsed.is_frame):
            return None
        is_wanted = parsed.is_frame and tag.type_id == (VIDEO if self.info.index.has_video else AUDIO)
        if span.is_single and not is_wanted:
            return None
        payload = self._fitting(tag, parsed)
        if payload is None:
            return None
        self._is_over = span.is_single
        return RecordedMessage(tag.type_id, max(time_ms, span.floor_ms), payload, parsed.is_frame, parsed.is_keyframe)

    def _data(self, tag: Tag) -> RecordedMessage | None:
        """Not what was said of the file, which was sent first. Players are given AMF0, as FFmpeg knows no more."""
        metadata = self.info.index.metadata_tag
        time_ms = max(self._clock.now, self._span.floor_ms)
        if metadata is not None and tag.offset == metadata.offset:
            return None
        if tag.is_encrypted or self._span.is_single or not self._span.takes(DATA_AMF0, time_ms, is_frame=False):
            return None
        try:
            return RecordedMessage(DATA_AMF0, time_ms, decode_data(tag.payload, self._limits).payload, False, False)
        except RemoteProtocolError:
            return None
