"""Where to begin in a file, and how long it is: by its metadata where these are true, else by looking it through.

    index = read_index(stream)
    point = index.at_or_before(60_000)
    first = [*index.headers_at(point.offset)]      # What a decoder needs before the tags from point.offset on.

Looking through reads the headers of tags and of what is in them, not the media: about 6 us a tag. Of a file that has
grown since it was looked at, what was added is enough.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from io import SEEK_END
from typing import Any, BinaryIO, Final

from ingest.flv.metadata import MAX_EXACT_NUMBER, SeekPoint, claimed_index, decode_metadata
from ingest.flv.seek_points import BACK_MS, SeekIndex
from ingest.flv.tags import (
    BEFORE_TAG_BYTES,
    DATA_TYPES,
    FILE_HEADER,
    FLAGS_OFFSET,
    HAS_AUDIO,
    POINTER_BYTES,
    FlvError,
    TagHeader,
    read_file_header,
    read_tag_header,
)
from ingest.rtmp.limits import DEFAULT_LIMITS, Limits
from ingest.rtmp.media import read_video
from ingest.rtmp.media_tags import EX_AUDIO, VideoPacket
from ingest.rtmp.messages import MessageType

HEAD_BYTES: Final = 64
"""Of each tag's payload. What they don't tell (`_is_told`) is read whole."""

TOLD: Final = (VideoPacket.CODED_FRAMES, VideoPacket.SEQUENCE_END, VideoPacket.CODED_FRAMES_X)
"""Packet types of extended messages, audio and video alike, that hold frames or nothing."""

FIRST_TAGS: Final = 100
"""Among which metadata and headers are looked for where the metadata has the index."""

CHECKED_POINTS: Final = 16
"""Of an index in the metadata, spread over all of it."""
TAGS_PER_CALLBACK: Final = 64
"""After so many, under a millisecond's work, whoever looks through may rest: other threads go on meanwhile."""
TOLERANCE_MS: Final = 1
"""Times in metadata are seconds, which writers have rounded or cut."""


@dataclass(slots=True)
class FlvIndex:
    marks: SeekIndex
    metadata: dict[str, Any] = field(default_factory=dict)
    """Of the first onMetaData."""
    metadata_tag: TagHeader | None = None
    last: TagHeader | None = None
    """The last tag that was looked at: with metadata that are true, one of the first."""
    end: int = 0
    """Where that ends, or else the file's header."""
    fault: str = ""
    """Why the file can't be read beyond `end`."""
    is_cut: bool = False
    """The file ends in the middle: its writer was killed."""

    @property
    def duration_ms(self) -> int:
        return self.marks.duration_ms

    def at_or_before(self, time_ms: int) -> SeekPoint | None:
        """The keyframe to begin with for a time from the file's beginning; None where the file has no media.

        For a time before all it is the first. Files without video have points in their audio.
        """
        return self.marks.at_or_before(time_ms)

    def headers_at(self, offset: int) -> list[int]:
        """Where the headers stand that hold at a point's place, in the file's order."""
        return self.marks.headers_at(offset)


ProgressCallback = Callable[[], object]
"""Called every REST_TAGS tags while a file is looked through, by the thread that does it."""


def no_progress() -> None:
    """No rest: nobody else needs this process."""


def read_index(
    stream: BinaryIO,
    limits: Limits = DEFAULT_LIMITS,
    *,
    known: FlvIndex | None = None,
    rest: ProgressCallback = no_progress,
) -> FlvIndex:
    """Of a stream that can seek. `known`: of the same file when it was shorter; stays as it is.

    Raises FlvError where it is no FLV file at all.
    """
    if known is not None and _still_holds(stream, known, limits):
        grown = replace(known, marks=known.marks.copy(), fault="")
        return _walk(stream, grown, limits, None, rest)
    index = _walk(stream, _begin(stream, limits), limits, FIRST_TAGS, rest)
    claimed = claimed_index(index.metadata)
    size = stream.seek(0, SEEK_END)
    if index.metadata.get("filesize") != size or not claimed or not _is_true(stream, claimed, limits):
        return _walk(stream, index, limits, None, rest)
    marks = index.marks
    marks.take([SeekPoint(time - (marks.clock.first or 0), offset) for time, offset in claimed])
    duration = index.metadata.get("duration")
    if isinstance(duration, int | float) and 0 < duration < MAX_EXACT_NUMBER:
        marks.duration_ms = max(marks.duration_ms, round(duration * 1000))
    index.is_cut = False
    return index


def scan(stream: BinaryIO, limits: Limits = DEFAULT_LIMITS, *, rest: ProgressCallback = no_progress) -> FlvIndex:
    """By looking through all of the file, which may take hours for one of many gigabytes in small tags: nothing for a
    request's own time. Raises FlvError where it is no FLV file at all.
    """
    return _walk(stream, _begin(stream, limits), limits, None, rest)


def index_for_appending(
    stream: BinaryIO, limits: Limits = DEFAULT_LIMITS, *, rest: ProgressCallback = no_progress
) -> FlvIndex:
    """For who goes on behind the last tag: by the metadata of a file that was finished, with its last tags, else as
    `scan`. Raises FlvError where it is no FLV file at all.
    """
    index = read_index(stream, limits, rest=rest)
    size = stream.seek(0, SEEK_END)
    if index.fault or index.is_cut or index.end + POINTER_BYTES == size:
        return index
    marks = index.marks
    end = size - POINTER_BYTES
    last: TagHeader | None = None
    for _ in range(FIRST_TAGS):
        header = _tag_before(stream, end, limits)
        if header is None or header.is_encrypted:
            break
        last = last or header
        end = header.offset - POINTER_BYTES
        if header.type_id not in DATA_TYPES:
            now = header.timestamp - (marks.clock.first or 0)
            if not marks.is_plain or abs(marks.duration_ms - now) > BACK_MS:
                break
            marks.clock.timestamp, marks.clock.now = header.timestamp, now
            stream.seek(FLAGS_OFFSET)
            marks.has_audio = marks.has_audio or bool(stream.read(1)[0] & HAS_AUDIO)
            index.last, index.end = last, last.end
            return index
    return scan(stream, limits, rest=rest)


def _tag_before(stream: BinaryIO, end: int, limits: Limits) -> TagHeader | None:
    """The tag that ends there, by its size behind it; None where there is none."""
    stream.seek(end)
    offset = end - int.from_bytes(stream.read(POINTER_BYTES), "big")
    try:
        found = _tag_at(stream, offset, limits) if offset >= FILE_HEADER.size + POINTER_BYTES else None
    except FlvError:
        return None
    return found[0] if found is not None and found[0].end == end else None


def _begin(stream: BinaryIO, limits: Limits) -> FlvIndex:
    """Before the first tag."""
    size = stream.seek(0, SEEK_END)
    stream.seek(0)
    start = stream.read(FILE_HEADER.size)
    if len(start) < FILE_HEADER.size or read_file_header(start) > size:
        raise FlvError("no FLV file: it ends within FLV's header")
    return FlvIndex(SeekIndex(limits), end=read_file_header(start))


def _still_holds(stream: BinaryIO, known: FlvIndex, limits: Limits) -> bool:
    """The last tag that was looked at is still there."""
    last = known.last
    try:
        found = _tag_at(stream, last.offset, limits) if last is not None else None
    except FlvError:
        return False
    return found is not None and found[0] == last


def _walk(stream: BinaryIO, index: FlvIndex, limits: Limits, tags: int | None, rest: ProgressCallback) -> FlvIndex:
    """Goes on behind what the index has: by so many tags, or to the end."""
    size = stream.seek(0, SEEK_END)
    count = 0
    while tags is None or count < tags:
        count += 1
        if count % TAGS_PER_CALLBACK == 0:
            rest()
        try:
            found = _tag_at(stream, index.end + POINTER_BYTES, limits)
        except FlvError as error:
            index.fault = str(error)
            break
        if found is None or found[0].end > size:
            break
        header, payload = found
        if header.type_id in DATA_TYPES and index.metadata_tag is None:
            metadata = decode_metadata(payload, limits)
            if metadata is not None:
                index.metadata, index.metadata_tag = metadata, header
        if not header.is_encrypted:
            index.marks.add(header.type_id, header.timestamp, payload, header.offset)
        index.last, index.end = header, header.end
    index.is_cut = not index.fault and index.end + POINTER_BYTES != size
    return index


def _tag_at(stream: BinaryIO, offset: int, limits: Limits) -> tuple[TagHeader, bytes] | None:
    """A tag's header and as much of its payload as tells what it is; None where the file ends. Raises FlvError."""
    stream.seek(offset - POINTER_BYTES)
    head = stream.read(BEFORE_TAG_BYTES + HEAD_BYTES)
    if len(head) < BEFORE_TAG_BYTES:
        return None
    header = read_tag_header(head, 0, offset, limits)
    payload = head[BEFORE_TAG_BYTES : BEFORE_TAG_BYTES + header.size]
    if len(payload) < header.size and not _is_told(header.type_id, payload):
        payload += stream.read(header.size - len(payload))
    return header, payload


def _is_told(type_id: int, head: bytes) -> bool:
    """The first bytes tell that it is a frame, and of which kind. Extensions, tracks and headers take more of it."""
    if not head or type_id in DATA_TYPES:
        return False
    is_extended = head[0] & 0x80 if type_id == MessageType.VIDEO else head[0] >> 4 == EX_AUDIO
    return head[0] & 15 in TOLD if is_extended else head[1:2] != b"\0"


def _is_true(stream: BinaryIO, claimed: list[tuple[int, int]], limits: Limits) -> bool:
    """Whether keyframes stand where the metadata say, by some of them."""
    step = max(len(claimed) // CHECKED_POINTS, 1)
    for time_ms, offset in (*claimed[::step], claimed[-1]):
        try:
            found = _tag_at(stream, offset, limits) if offset >= FILE_HEADER.size + POINTER_BYTES else None
        except FlvError:
            return False
        if found is None or abs(found[0].timestamp - time_ms) > TOLERANCE_MS:
            return False
        header, payload = found
        message = read_video(payload, limits) if header.type_id == MessageType.VIDEO else None
        if header.is_encrypted or message is None or not message.is_keyframe:
            return False
    return True
