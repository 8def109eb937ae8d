"""Chunks built by hand, field by field, with none of the project's code (RTMP 1.0, section 5.3)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.rtmpdecode import Decoded

Sent = Decoded
"""A message that a test sends; it has the form of one that the independent decoder reads."""


h = bytes.fromhex


def ids(rows: Iterable[Any]) -> list[str]:
    """The names of a table's rows, which stand first in each."""
    return [row[0] for row in rows]


def basic(kind: int, csid: int, *, long_form: bool = False) -> bytes:
    """The basic header. `long_form` takes three bytes also for ids (from 64 on) that fit into two."""
    if csid < 64:
        return bytes([kind << 6 | csid])
    if csid < 320 and not long_form:
        return bytes([kind << 6, csid - 64])
    return bytes([kind << 6 | 1]) + (csid - 64).to_bytes(2, "little")


def time_field(time: int) -> tuple[bytes, bytes]:
    """The 24-bit field, and the extended timestamp where it needs one."""
    if time < 0xFFFFFF:
        return time.to_bytes(3, "big"), b""
    return b"\xff\xff\xff", time.to_bytes(4, "big")


def _headed(kind: int, csid: int, time: int, rest: bytes, data: bytes) -> bytes:
    short, extended = time_field(time)
    return basic(kind, csid) + short + rest + extended + data


def _length(data: bytes, length: int | None) -> bytes:
    return (len(data) if length is None else length).to_bytes(3, "big")


def type0(csid: int, time: int, type_id: int, stream_id: int, data: bytes, length: int | None = None) -> bytes:
    rest = _length(data, length) + bytes([type_id]) + stream_id.to_bytes(4, "little")
    return _headed(0, csid, time, rest, data)


def type1(csid: int, delta: int, type_id: int, data: bytes, length: int | None = None) -> bytes:
    return _headed(1, csid, delta, _length(data, length) + bytes([type_id]), data)


def type2(csid: int, delta: int, data: bytes) -> bytes:
    return _headed(2, csid, delta, b"", data)


def type3(csid: int, data: bytes, extended: int | None = None) -> bytes:
    return basic(3, csid) + (b"" if extended is None else extended.to_bytes(4, "big")) + data


def set_chunk_size(size: int, current: int = 128) -> bytes:
    """The four bytes of this message are cut by the `current` chunk size, too."""
    value = size.to_bytes(4, "big")
    rest = b"".join(type3(2, value[at : at + current]) for at in range(current, 4, current))
    return type0(2, 0, 1, 0, value[:current], 4) + rest


def abort(csid: int) -> bytes:
    return type0(2, 0, 2, 0, csid.to_bytes(4, "big"))


@dataclass
class Sender:
    """One chunk stream of a sender. It begins messages with any possible header type, and returns chunk by chunk."""

    csid: int
    repeats: bool = True
    """True if type 3 chunks repeat the extended timestamp."""
    last: Sent | None = None
    step: int = 0
    """The value of the last time field, which a type 3 chunk adds to the timestamp."""
    rest: bytes = b""
    extended: bytes = field(default=b"", repr=False)

    def kinds(self, message: Sent) -> list[int]:
        """The header types that can begin the message."""
        if self.last is None or self.last.stream_id != message.stream_id:
            return [0]
        if (self.last.type_id, len(self.last.payload)) != (message.type_id, len(message.payload)):
            return [0, 1]
        is_in_step = (message.timestamp - self.last.timestamp) % 2**32 == self.step
        return [0, 1, 2, 3] if is_in_step else [0, 1, 2]

    def begin(self, message: Sent, kind: int, chunk_size: int) -> bytes:
        delta = (message.timestamp - self.last.timestamp) % 2**32 if self.last else 0
        self.last, self.rest = message, message.payload
        if kind == 3:
            return self.proceed(chunk_size)
        return self._headed(message, kind, message.timestamp if kind == 0 else delta, chunk_size)

    def repeat(self, kind: int, chunk_size: int) -> bytes:
        """Proceed with a header that repeats the first one: of type 0, or of type 1 or 2 with a delta of 0."""
        assert self.last is not None
        return self._headed(self.last, kind, self.last.timestamp if kind == 0 else 0, chunk_size)

    def proceed(self, chunk_size: int) -> bytes:
        return basic(3, self.csid) + (self.extended if self.repeats else b"") + self._take(chunk_size)

    def _headed(self, message: Sent, kind: int, step: int, chunk_size: int) -> bytes:
        self.step, self.extended = step, time_field(step)[1]
        data, length = self._take(chunk_size), len(message.payload)
        if kind == 0:
            return type0(self.csid, step, message.type_id, message.stream_id, data, length)
        return type1(self.csid, step, message.type_id, data, length) if kind == 1 else type2(self.csid, step, data)

    def _take(self, chunk_size: int) -> bytes:
        data, self.rest = self.rest[:chunk_size], self.rest[chunk_size:]
        return data


def chunked(message: Sent, csid: int = 3, chunk_size: int = 128) -> bytes:
    """The message in chunks, of which the first has a type 0 header."""
    sender = Sender(csid)
    data = sender.begin(message, 0, chunk_size)
    while sender.rest:
        data += sender.proceed(chunk_size)
    return data
