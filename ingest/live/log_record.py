"""How messages stand in a stream's log, and how they are found there (see `stream_log`).

message   basic header (8 bits) timestamp (24) length (24) type (8) stream id (32, little endian) payload
record    kind and flags (8 bits) - (24) timestamp (32) arrived (64, float) where it begins (32) payload size (32)
"""

import struct
from typing import Final, NamedTuple

from ingest.live.shared import WIRE, Kind

STREAM_ID: Final = 1
"""Of the serialised messages."""

KINDS: Final[tuple[Kind, ...]] = ("data", "audio", "video")
NUMBERS: Final[dict[Kind, int]] = {kind: number for number, kind in enumerate(KINDS)}
KIND, FRAME, KEYFRAME, HEADER = 3, 4, 8, 16
"""Of a record's first byte: the kind's bits, and flags."""

AUDIO, VIDEO = NUMBERS["audio"], NUMBERS["video"]

MESSAGE: Final = struct.Struct(">BIHBI")
RECORD: Final = struct.Struct("<B3xIdII")
HEADER_BYTES: Final = MESSAGE.size
RECORD_BYTES: Final = RECORD.size
STREAM_ID_AT: Final = 8
"""In a message."""
STREAM_FIELD: Final = int.from_bytes(STREAM_ID.to_bytes(4, "little"), "big")
TYPES: Final = tuple((WIRE[kind][1], int(WIRE[kind][0])) for kind in KINDS)
"""Chunk stream and message type of each kind."""

TIMESTAMP: Final = struct.Struct(">I")
"""An extended one, behind the header; each chunk repeats it."""


class Span(NamedTuple):
    """A run of messages: records `first` to `stop`, bytes `start` to `end`."""

    first: int
    stop: int
    start: int
    end: int


class Place:
    """Up to where some of the readers have been given the log, while there are such readers."""

    __slots__ = ("at", "is_read", "record")

    def __init__(self) -> None:
        self.is_read = False
        self.record = self.at = 0
