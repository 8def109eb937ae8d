"""Writes an FLV file that plays at any moment, also when its writer is killed, and that players can seek in at the end.

    writer = FlvWriter.begin(stream, metadata)
    writer.write(tag.type_id, tag.timestamp, tag.payload)
    writer.finish()

`finish` moves nothing: onMetaData stands first with room behind its properties, into which duration, size and index go.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Self

from ingest.flv import tags
from ingest.flv.index import OnProgress, index_for_appending
from ingest.flv.metadata import FILE_PROPERTIES, FILLER, SeekPoint, encode_metadata, keyframes_property
from ingest.flv.seek_points import MAX_POINTS, SeekIndex
from ingest.rtmp.limits import DEFAULT_LIMITS, Limits
from ingest.rtmp.messages import MessageType

VERSION: Final = 1
ROOM_BYTES: Final = 256 + 18 * MAX_POINTS
"""Behind the properties of a new file: two numbers of 9 bytes for each point, names and other figures."""


@dataclass(eq=False, repr=False)
class FlvWriter:
    """Writes to a binary stream that can seek, and that writes whole what it is given (no raw file).

    `begin` and `resume` make it. Each tag is one `write`. What the stream raises (OSError: a full disk) is passed on;
    then the file may end in the middle of a tag, and only `resume` writes to it again.
    """

    _stream: BinaryIO
    _index: SeekIndex
    _metadata: Mapping[str, Any]
    _metadata_at: int
    _room: int
    """Bytes of the metadata's payload, which is patched."""
    size: int
    """Bytes of the file so far."""

    @classmethod
    def begin(cls, stream: BinaryIO, metadata: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS) -> Self:
        """A new file in an empty stream. `metadata`: the properties of the publisher's onMetaData."""
        properties = _without_file_properties(metadata)
        room = len(encode_metadata(properties)) + ROOM_BYTES
        flags = tags.HAS_AUDIO | tags.HAS_VIDEO
        header = tags.FILE_HEADER.pack(tags.SIGNATURE, VERSION, flags, tags.FILE_HEADER.size)
        start = header + bytes(tags.POINTER_BYTES)
        written = start + tags.tag_bytes(MessageType.DATA_AMF0, 0, encode_metadata(properties, room))
        stream.write(written)
        at = len(start) + tags.TAG_HEADER_BYTES
        return cls(stream, SeekIndex(limits), properties, at, room, len(written))

    @classmethod
    def resume(
        cls, stream: BinaryIO, limits: Limits = DEFAULT_LIMITS, *, on_progress: OnProgress | None = None
    ) -> Self:
        """Goes on behind the last whole tag of a file, which is scanned where its metadata don't tell; what
        follows that tag is cut off.

        Raises FlvError where it is no FLV file at all.
        """
        index = index_for_appending(stream, limits, on_progress=on_progress)
        tag = index.metadata_tag
        # In the metadata of others there may be no room; what was encoded otherwise is not written over.
        has_room = tag is not None and tag.type_id == MessageType.DATA_AMF0 and not tag.is_encrypted
        stream.seek(index.end)
        stream.truncate()
        stream.write(tags.tag_size(index.last.size) if index.last else bytes(tags.POINTER_BYTES))
        return cls(
            stream,
            index,
            _without_file_properties(index.metadata),
            tag.offset + tags.TAG_HEADER_BYTES if tag else 0,
            tag.size if tag and has_room else 0,
            index.end + tags.POINTER_BYTES,
        )

    @property
    def duration_ms(self) -> int:
        return self._index.duration_ms

    @property
    def last_timestamp(self) -> int:
        """Of the latest audio or video: what is appended goes on from there."""
        return self._index.clock.timestamp

    def write(self, type_id: int, timestamp: int, payload: bytes) -> None:
        """A tag, of a message's type, time and payload. ValueError for a payload over 16,777,215 bytes."""
        written = tags.tag_bytes(type_id, timestamp, payload)
        self._stream.write(written)
        self._index.add(type_id, timestamp, payload, self.size)
        self.size += len(written)

    def finish(self) -> None:
        """Puts duration, size and index of the file into its metadata, as far as there is room, and what it holds.

        The index is left out where it can't be true for every player: timestamps that wrap or begin again, headers
        that change on the way. `read_index` scans such a file.
        """
        stream, index = self._stream, self._index
        properties = {**self._metadata, "duration": index.duration_ms / 1000, "filesize": self.size}
        points = index.points if index.has_video and index.index_is_complete else []
        payload = encode_metadata(_with_index(properties, points, index))
        while len(payload) > self._room and points:
            points = points[::2] if len(points) > 1 else []
            payload = encode_metadata(_with_index(properties, points, index))
        if len(payload) <= self._room:
            stream.seek(self._metadata_at)
            stream.write(payload.ljust(self._room, FILLER))
        stream.seek(tags.FLAGS_OFFSET)
        stream.write(bytes((tags.HAS_AUDIO * index.has_audio | tags.HAS_VIDEO * index.has_video,)))
        stream.seek(self.size)


def _without_file_properties(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name not in FILE_PROPERTIES}


def _with_index(properties: Mapping[str, Any], points: list[SeekPoint], index: SeekIndex) -> dict[str, Any]:
    if not points:
        return {**properties}
    return {**properties, "keyframes": keyframes_property(points, index.clock.first or 0)}
