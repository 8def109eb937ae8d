"""onMetaData of a file (FLV 10.1, annex E.4.4 and E.5), with the index of keyframes that players seek by.

The index is no part of the specification, but what FFmpeg and others write and read: an object `keyframes` of two
arrays, `times` in seconds and `filepositions`, where the tag of each begins.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import inf, nextafter
from typing import Any, Final, NamedTuple

from ingest.rtmp.amf import EcmaArray, amf0
from ingest.rtmp.errors import LocalProtocolError, RemoteProtocolError
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages.commands import FORMAT_BYTE

ON_METADATA: Final = "onMetaData"

FILE_PROPERTIES: Final = (
    *("duration", "filesize", "keyframes", "hasKeyframes", "canSeekToEnd", "datasize", "videosize", "audiosize"),
    *("lasttimestamp", "lastkeyframetimestamp", "lastkeyframelocation"),
)
"""Properties that are true of one file alone, so never taken over from a publisher or into another file."""

FILLER: Final = b"\x05"
"""AMF0's null. As many as it takes stand behind the properties, as further arguments: room to patch in."""

MAX_EXACT_NUMBER: Final = 2**53
"""Up to here a double counts whole numbers."""


class SeekPoint(NamedTuple):
    time_ms: int
    """By the file's `FileClock`."""
    offset: int


def encode_metadata(properties: Mapping[str, Any], room: int = 0) -> bytes:
    """The payload of a data tag, filled up to `room` bytes. Properties that AMF0 can't say are left out."""
    try:
        payload = amf0.encode(ON_METADATA, EcmaArray(properties))
    except LocalProtocolError:
        encodable = {name: value for name, value in properties.items() if _is_encodable(name, value)}
        payload = amf0.encode(ON_METADATA, EcmaArray(encodable))
    return payload.ljust(room, FILLER)


def _is_encodable(name: str, value: Any) -> bool:
    """What a peer sent may not be: values in AMF3, references into what a later property of that name replaced."""
    try:
        amf0.encode({name: value})
    except LocalProtocolError:
        return False
    return True


def decode_metadata(payload: bytes, limits: Limits) -> dict[str, Any] | None:
    """The properties; None where the tag holds something else, or nothing that can be read."""
    try:
        name, after = amf0.decode(payload, 1 if payload.startswith(FORMAT_BYTE) else 0, limits)
        if name != ON_METADATA:
            return None
        values, _ = amf0.decode(payload, after, limits)
    except RemoteProtocolError:
        return None
    return values if isinstance(values, dict) else None


def keyframes_property(points: Iterable[SeekPoint], first_timestamp: int) -> dict[str, list[float]]:
    """The property `keyframes`. Players compare its times with the tags' timestamps."""
    found = list(points)
    return {
        "times": [_seconds(point.time_ms + first_timestamp) for point in found],
        "filepositions": [float(point.offset) for point in found],
    }


def _seconds(milliseconds: int) -> float:
    """FFmpeg cuts what it multiplies by 1000, and forgets the index where that isn't the tag's timestamp."""
    seconds = milliseconds / 1000
    return seconds if int(seconds * 1000) == milliseconds else nextafter(seconds, inf)


def declared_index(properties: Mapping[str, Any]) -> list[tuple[int, int]]:
    """(timestamp in ms, offset) of each keyframe by the metadata, ascending; empty where these make no sense."""
    index = properties.get("keyframes")
    if not isinstance(index, dict):
        return []
    times, offsets = index.get("times"), index.get("filepositions")
    if not isinstance(times, list) or not isinstance(offsets, list) or len(times) != len(offsets):
        return []
    if not all(type(value) in (int, float) and 0 <= value < MAX_EXACT_NUMBER for value in (*times, *offsets)):
        return []
    found = [(round(time * 1000), int(offset)) for time, offset in zip(times, offsets, strict=True)]
    ascends = all(before[0] < after[0] and before[1] < after[1] for before, after in pairwise(found))
    return found if ascends else []
