"""A second decoder of RTMP byte streams, to check the project's own against: slow, simple, and sharing no code with it.

It reads one direction of a whole connection, handshake included.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HANDSHAKE_BYTES = 1 + 1536 + 1536
FLV_HEADER_BYTES = 13
AGGREGATE = 22


@dataclass
class Decoded:
    type_id: int
    timestamp: int
    stream_id: int
    payload: bytes
    end: int = field(default=0, compare=False)
    """Where the bytes after it begin."""


class _Cursor:
    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def take(self, count: int) -> bytes:
        piece = self.data[self.at : self.at + count]
        if len(piece) < count:
            raise EOFError
        self.at += count
        return piece

    def big(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def little(self, count: int) -> int:
        return int.from_bytes(self.take(count), "little")


def decode_stream(data: bytes, at: int = HANDSHAKE_BYTES, chunk_size: int = 128) -> list[Decoded]:
    """The messages that are complete; an unfinished one at the end is dropped."""
    cursor = _Cursor(data, at)
    channels: dict[int, dict[str, Any]] = {}
    done: list[Decoded] = []
    try:
        while cursor.at < len(data):
            basic = cursor.big(1)
            kind, channel_id = divmod(basic, 64)
            if channel_id == 0:
                channel_id = 64 + cursor.big(1)
            elif channel_id == 1:
                channel_id = 64 + cursor.little(2)
            channel = channels.setdefault(channel_id, {"time": 0, "stream": 0, "pending": None, "extended": None})
            if kind == 3:
                if channel["extended"] is not None and data[cursor.at : cursor.at + 4] == channel["extended"]:
                    cursor.take(4)
                time = channel["step"]
            else:
                time = cursor.big(3)
                if kind < 2:
                    channel["length"] = cursor.big(3)
                    channel["type"] = cursor.big(1)
                if kind == 0:
                    channel["stream"] = cursor.little(4)
                channel["extended"] = cursor.take(4) if time == 0xFFFFFF else None
                if channel["extended"] is not None:
                    time = int.from_bytes(channel["extended"], "big")
                channel["step"] = time
            if channel["pending"] is None:
                channel["time"] = time if kind == 0 else (channel["time"] + time) % 2**32
                channel["pending"] = b""
            missing = channel["length"] - len(channel["pending"])
            channel["pending"] += cursor.take(min(missing, chunk_size))
            if len(channel["pending"]) == channel["length"]:
                payload, channel["pending"] = channel["pending"], None
                done.append(Decoded(channel["type"], channel["time"], channel["stream"], payload, cursor.at))
                if channel["type"] == 1:
                    chunk_size = int.from_bytes(payload, "big") % 2**31
                elif channel["type"] == 2:
                    aborted = channels.get(int.from_bytes(payload, "big"))
                    if aborted is not None:
                        aborted["pending"] = None
    except EOFError:
        pass
    return done


def parts_of(aggregate: Decoded) -> list[Decoded]:
    """The messages within a message of type 22, as a reader of FLV tags sees them, moved to the aggregate's time."""
    cursor = _Cursor(aggregate.payload, 0)
    parts: list[Decoded] = []
    try:
        while cursor.at < len(aggregate.payload):
            type_id, size = cursor.big(1), cursor.big(3)
            low, high = cursor.big(3), cursor.big(1)
            cursor.take(3)
            parts.append(Decoded(type_id, high * 2**24 + low, aggregate.stream_id, cursor.take(size)))
            cursor.take(4)
    except EOFError:
        pass
    began = parts[0].timestamp if parts else 0
    for part in parts:
        part.timestamp = (part.timestamp - began + aggregate.timestamp) % 2**32
    return parts


def messages_of(clip: Path) -> list[Decoded]:
    """Audio, video and data of an FLV file, whose tags are what an aggregate's body is."""
    return parts_of(Decoded(AGGREGATE, 0, 0, clip.read_bytes()[FLV_HEADER_BYTES:]))
