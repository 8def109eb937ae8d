"""A second decoder of RTMP byte streams, to check the project's own against: slow, simple, and sharing no code with it.

It reads one direction of a whole connection, handshake included.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

HANDSHAKE_BYTES = 1 + 1536 + 1536


Raw = tuple[int, int, int, bytes]
"""A message as the chunk reader gives it: type, timestamp, message stream, payload."""


@dataclass
class Decoded:
    type_id: int
    timestamp: int
    stream_id: int
    payload: bytes
    end: int = field(default=0, compare=False)
    """The offset of the bytes after the message."""

    @property
    def raw(self) -> Raw:
        return (self.type_id, self.timestamp, self.stream_id, self.payload)


class _Cursor(BytesIO):
    def take(self, count: int) -> bytes:
        piece = self.read(count)
        if len(piece) < count:
            raise EOFError
        return piece

    def big(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def little(self, count: int) -> int:
        return int.from_bytes(self.take(count), "little")


def decode_stream(data: bytes, at: int = HANDSHAKE_BYTES, chunk_size: int = 128) -> list[Decoded]:
    """The complete messages. We drop an unfinished one at the end."""
    cursor = _Cursor(data)
    cursor.seek(at)
    channels: dict[int, dict[str, Any]] = {}
    done: list[Decoded] = []
    with suppress(EOFError):
        while cursor.tell() < len(data):
            basic = cursor.big(1)
            kind, channel_id = divmod(basic, 64)
            if channel_id == 0:
                channel_id = 64 + cursor.big(1)
            elif channel_id == 1:
                channel_id = 64 + cursor.little(2)
            channel = channels.setdefault(channel_id, {"time": 0, "stream": 0, "pending": None, "extended": None})
            if kind == 3:
                if channel["extended"] is not None and data.startswith(channel["extended"], cursor.tell()):
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
                done.append(Decoded(channel["type"], channel["time"], channel["stream"], payload, cursor.tell()))
                if channel["type"] == 1:
                    chunk_size = int.from_bytes(payload, "big") % 2**31
                elif channel["type"] == 2:
                    channels.get(int.from_bytes(payload, "big"), {}).update(pending=None)
    return done


def parts_of(aggregate: Decoded) -> list[Decoded]:
    """The messages within a message of type 22, as a reader of FLV tags sees them, moved to the aggregate's time."""
    cursor = _Cursor(aggregate.payload)
    parts: list[Decoded] = []
    with suppress(EOFError):
        while cursor.tell() < len(aggregate.payload):
            type_id, size = cursor.big(1), cursor.big(3)
            low, high = cursor.big(3), cursor.big(1)
            cursor.take(3)
            parts.append(Decoded(type_id, high * 2**24 + low, aggregate.stream_id, cursor.take(size)))
            cursor.take(4)
    began = parts[0].timestamp if parts else 0
    for part in parts:
        part.timestamp = (part.timestamp - began + aggregate.timestamp) % 2**32
    return parts


def messages_of(clip: Path) -> list[Decoded]:
    """Audio, video and data of an FLV file: after 13 bytes it is like the body of an aggregate (type 22)."""
    return parts_of(Decoded(22, 0, 0, clip.read_bytes()[13:]))
