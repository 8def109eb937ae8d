"""A clip's bytes on the wire, as an encoder sends them: made once, shared by all publishers.

Headers carry only what changed (timestamps as differences), so the bytes are the same for every publisher and every
round of the clip but the first. A watched publisher stamps each frame: the last 16 bytes of its payload become MAGIC
and the time of sending (two little-endian 64-bit numbers), from which players tell the delay and what is missing.
"""

import struct
from dataclasses import dataclass
from functools import cache
from typing import Final

from bench.load.clip import Clip, Media
from ingest.rtmp import Message, MessageType
from ingest.rtmp.chunk_writer import CSID_AUDIO, CSID_VIDEO, ChunkWriter

MAGIC: Final = 0x52544D504C4F4144
STAMP: Final = struct.Struct("<QQ")
"""MAGIC and CLOCK_MONOTONIC in ns."""

CHUNK_STREAMS: Final = {MessageType.AUDIO: CSID_AUDIO, MessageType.VIDEO: CSID_VIDEO}


@dataclass(frozen=True, slots=True)
class Packet:
    """One message as its chunks."""

    due_s: float
    """From the beginning of its round of the clip."""
    data: bytes
    stamp: tuple[tuple[int, int], ...]
    """Where the payload's last 16 bytes are in `data`, as (begin, end); several where a chunk ends among them."""

    def stamped(self, now_ns: int) -> bytes:
        stamp = STAMP.pack(MAGIC, now_ns)
        data = bytearray(self.data)
        taken = 0
        for begin, end in self.stamp:
            data[begin:end] = stamp[taken : taken + end - begin]
            taken += end - begin
        return bytes(data)


@dataclass(frozen=True, slots=True)
class Reel:
    opening: list[Packet]
    """The first round, with the sequence headers, which are not stamped."""
    repeat: list[Packet]
    """Every later round."""
    length_s: float


@cache
def reel(clip: Clip, chunk_size: int, stream_id: int) -> Reel:
    """`stream_id`: the message stream, which the first header of each kind names."""
    writer = ChunkWriter(compress=True)
    writer.chunk_size = chunk_size

    def packet(media: Media, start_ms: int) -> Packet:
        message = Message(media.type_id, start_ms + media.timestamp, stream_id, media.payload)
        data = writer.encode(message, CHUNK_STREAMS[MessageType(media.type_id)])
        stamp = () if media.is_header else _tail(len(data), len(media.payload), chunk_size)
        return Packet(media.timestamp / 1000, data, stamp)

    headers = [packet(media, 0) for media in clip.headers]
    opening = headers + [packet(media, 0) for media in clip.frames]
    repeat = [packet(media, clip.length_ms) for media in clip.frames]
    return Reel(opening, repeat, clip.length_ms / 1000)


def _tail(wire: int, payload: int, chunk_size: int) -> tuple[tuple[int, int], ...]:
    """Where a message's last 16 payload bytes are in its chunks; continuations have a header of one byte."""
    found: list[tuple[int, int]] = []
    left, end = STAMP.size, wire
    in_chunk = payload % chunk_size or chunk_size
    while left:
        size = min(left, in_chunk)
        found.append((end - size, end))
        left -= size
        end -= in_chunk + 1
        in_chunk = chunk_size
    return tuple(reversed(found))


def read_stamp(payload: bytes) -> int | None:
    """The time of sending in ns, or None for a message without a stamp."""
    if len(payload) < STAMP.size:
        return None
    magic, sent_ns = STAMP.unpack_from(payload, len(payload) - STAMP.size)
    return sent_ns if magic == MAGIC else None
