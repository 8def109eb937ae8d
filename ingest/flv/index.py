"""Where to begin in a file, and how long it is: by its metadata where these are true, else by looking it through.

    index = read_index(stream)
    point = index.at_or_before(60_000)
    first = [*index.headers_at(point.offset)]      # What a decoder needs before the tags from point.offset on.

Scanning reads the headers of tags and of what is in them, not the media: about 6 us a tag. Of a file that has
grown since it was looked at, what was added is enough.
"""

from collections.abc import Callable
from io import SEEK_END
from typing import Any, BinaryIO, Final

from ingest.flv import tags
from ingest.flv.metadata import MAX_EXACT_NUMBER, SeekPoint, declared_index, decode_metadata
from ingest.flv.seek_points import BACK_MS, SeekIndex
from ingest.rtmp.limits import DEFAULT_LIMITS, Limits
from ingest.rtmp.media import read_video
from ingest.rtmp.media_tags import EX_AUDIO, VideoPacket
from ingest.rtmp.messages import MessageType

HEAD_BYTES: Final = 64
"""Of each tag's payload. What they don't tell (`head_suffices`) is read whole."""

FRAME_PACKET_TYPES: Final = (VideoPacket.CODED_FRAMES, VideoPacket.SEQUENCE_END, VideoPacket.CODED_FRAMES_X)
"""Packet types of extended messages, audio and video alike, that hold frames or nothing."""

FIRST_TAGS: Final = 100
"""Among which metadata and headers are looked for where the metadata has the index."""

CHECKED_POINTS: Final = 16
"""Of an index in the metadata, spread over all of it."""
TAGS_PER_CALLBACK: Final = 64
"""After so many, under a millisecond's work, whoever scans may rest: other threads go on meanwhile."""
TOLERANCE_MS: Final = 1
"""Times in metadata are seconds, which writers have rounded or cut."""


class FlvIndex(SeekIndex):
    """Of one file. A time is one from the file's beginning."""

    def __init__(self, limits: Limits, end: int) -> None:
        super().__init__(limits)
        self.metadata: dict[str, Any] = {}
        """Of the first onMetaData."""
        self.metadata_tag: tags.TagHeader | None = None
        self.last: tags.TagHeader | None = None
        """The last tag that was read: with metadata that are true, one of the first."""
        self.end = end
        """Where that ends, or else the file's header."""
        self.fault = ""
        """Why the file can't be read beyond `end`."""
        self.is_truncated = False
        """The file ends in the middle: its writer was killed."""


OnProgress = Callable[[], object]
"""Called every TAGS_PER_CALLBACK tags while a file is scanned, by the thread that does it. Without one there is
no rest: nobody else needs this process."""


def read_index(
    stream: BinaryIO,
    limits: Limits = DEFAULT_LIMITS,
    *,
    previous: FlvIndex | None = None,
    on_progress: OnProgress | None = None,
) -> FlvIndex:
    """Of a stream that can seek. `previous`: of the same file when it was shorter; stays as it is.

    Raises FlvError where it is no FLV file at all.
    """
    if previous is not None and _is_unchanged(stream, previous, limits):
        grown = previous.copy()
        grown.fault = ""
        return _scan_tags(stream, grown, limits, None, on_progress)
    index = _scan_tags(stream, _empty_index(stream, limits), limits, FIRST_TAGS, on_progress)
    declared = declared_index(index.metadata)
    size = stream.seek(0, SEEK_END)
    if index.metadata.get("filesize") != size or not declared or not _index_matches(stream, declared, limits):
        return _scan_tags(stream, index, limits, None, on_progress)
    index.use_keyframes([SeekPoint(time - (index.clock.first or 0), offset) for time, offset in declared])
    duration = index.metadata.get("duration")
    if isinstance(duration, int | float) and 0 < duration < MAX_EXACT_NUMBER:
        index.duration_ms = max(index.duration_ms, round(duration * 1000))
    index.is_truncated = False
    return index


def scan(stream: BinaryIO, limits: Limits = DEFAULT_LIMITS, *, on_progress: OnProgress | None = None) -> FlvIndex:
    """By scanning all of the file, which may take hours for one of many gigabytes in small tags: nothing for a
    request's own time. Raises FlvError where it is no FLV file at all.
    """
    return _scan_tags(stream, _empty_index(stream, limits), limits, None, on_progress)


def index_for_appending(
    stream: BinaryIO, limits: Limits = DEFAULT_LIMITS, *, on_progress: OnProgress | None = None
) -> FlvIndex:
    """For who goes on behind the last tag: by the metadata of a file that was finished, with its last tags, else as
    `scan`. Raises FlvError where it is no FLV file at all.
    """
    index = read_index(stream, limits, on_progress=on_progress)
    size = stream.seek(0, SEEK_END)
    if index.fault or index.is_truncated or index.end + tags.POINTER_BYTES == size:
        return index
    end = size - tags.POINTER_BYTES
    last: tags.TagHeader | None = None
    for _ in range(FIRST_TAGS):
        header = _tag_before(stream, end, limits)
        if header is None or header.is_encrypted:
            break
        last = last or header
        end = header.offset - tags.POINTER_BYTES
        if header.type_id not in tags.DATA_TYPES:
            now = header.timestamp - (index.clock.first or 0)
            if not index.index_is_complete or abs(index.duration_ms - now) > BACK_MS:
                break
            index.clock.timestamp, index.clock.now = header.timestamp, now
            stream.seek(tags.FLAGS_OFFSET)
            index.has_audio = index.has_audio or bool(stream.read(1)[0] & tags.HAS_AUDIO)
            index.last, index.end = last, last.end
            return index
    return scan(stream, limits, on_progress=on_progress)


def _tag_before(stream: BinaryIO, end: int, limits: Limits) -> tags.TagHeader | None:
    """The tag that ends there, by its size behind it; None where there is none."""
    stream.seek(end)
    found = _find_tag(stream, end - int.from_bytes(stream.read(tags.POINTER_BYTES), "big"), limits)
    return found[0] if found is not None and found[0].end == end else None


def _empty_index(stream: BinaryIO, limits: Limits) -> FlvIndex:
    size = stream.seek(0, SEEK_END)
    stream.seek(0)
    start = stream.read(tags.FILE_HEADER.size)
    if len(start) < tags.FILE_HEADER.size or tags.read_file_header(start) > size:
        raise tags.FlvError("no FLV file: it ends within FLV's header")
    return FlvIndex(limits, tags.read_file_header(start))


def _is_unchanged(stream: BinaryIO, previous: FlvIndex, limits: Limits) -> bool:
    """The last tag that was looked at is still there."""
    found = _find_tag(stream, previous.last.offset, limits) if previous.last is not None else None
    return found is not None and found[0] == previous.last


def _scan_tags(
    stream: BinaryIO, index: FlvIndex, limits: Limits, most: int | None, on_progress: OnProgress | None
) -> FlvIndex:
    """Goes on behind what the index has: by `most` tags, or to the end."""
    size = stream.seek(0, SEEK_END)
    count = 0
    while most is None or count < most:
        count += 1
        if on_progress and count % TAGS_PER_CALLBACK == 0:
            on_progress()
        try:
            found = _tag_at(stream, index.end + tags.POINTER_BYTES, limits)
        except tags.FlvError as error:
            index.fault = str(error)
            break
        if found is None or found[0].end > size:
            break
        header, payload = found
        if header.type_id in tags.DATA_TYPES and index.metadata_tag is None:
            metadata = decode_metadata(payload, limits)
            if metadata is not None:
                index.metadata, index.metadata_tag = metadata, header
        if not header.is_encrypted:
            index.add(header.type_id, header.timestamp, payload, header.offset)
        index.last, index.end = header, header.end
    index.is_truncated = not index.fault and index.end + tags.POINTER_BYTES != size
    return index


def _tag_at(stream: BinaryIO, offset: int, limits: Limits) -> tuple[tags.TagHeader, bytes] | None:
    """A tag's header and as much of its payload as tells what it is; None where the file ends. Raises FlvError."""
    stream.seek(offset - tags.POINTER_BYTES)
    head = stream.read(tags.BEFORE_TAG_BYTES + HEAD_BYTES)
    if len(head) < tags.BEFORE_TAG_BYTES:
        return None
    header = tags.read_tag_header(head, 0, offset, limits)
    payload = head[tags.BEFORE_TAG_BYTES : tags.BEFORE_TAG_BYTES + header.size]
    if len(payload) < header.size and not head_suffices(header.type_id, payload):
        payload += stream.read(header.size - len(payload))
    return header, payload


def _find_tag(stream: BinaryIO, offset: int, limits: Limits) -> tuple[tags.TagHeader, bytes] | None:
    """As `_tag_at`, and None as well where no tag can begin."""
    try:
        return _tag_at(stream, offset, limits) if offset >= tags.FILE_HEADER.size + tags.POINTER_BYTES else None
    except tags.FlvError:
        return None


def head_suffices(type_id: int, head: bytes) -> bool:
    """The first bytes tell that it is a frame, and of which kind. Extensions, tracks and headers take more of it."""
    if not head or type_id in tags.DATA_TYPES:
        return False
    is_extended = head[0] & 0x80 if type_id == MessageType.VIDEO else head[0] >> 4 == EX_AUDIO
    return head[0] & 15 in FRAME_PACKET_TYPES if is_extended else head[1:2] != b"\0"


def _index_matches(stream: BinaryIO, declared: list[tuple[int, int]], limits: Limits) -> bool:
    """Whether keyframes stand where the metadata say, by some of them."""
    step = max(len(declared) // CHECKED_POINTS, 1)
    for time_ms, offset in (*declared[::step], declared[-1]):
        found = _find_tag(stream, offset, limits)
        if found is None or abs(found[0].timestamp - time_ms) > TOLERANCE_MS:
            return False
        header, payload = found
        message = read_video(payload, limits) if header.type_id == MessageType.VIDEO else None
        if header.is_encrypted or message is None or not message.is_keyframe:
            return False
    return True
