"""Chunks built by hand, field by field, with none of the project's code: what the tests of the chunk layer are fed; and
hypothesis strategies for what a sender may put on the wire: any messages, by any headers, interleaved anyhow."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

EXTENDED = 0xFFFFFF


def h(text: str) -> bytes:
    return bytes.fromhex(text)


def ids(rows: Iterable[Any]) -> list[str]:
    """Of a table's rows, which have their name first."""
    return [row[0] for row in rows]


def basic(kind: int, csid: int, *, long_form: bool = False) -> bytes:
    """The basic header; `long_form` takes the three-byte form also where a shorter one would do (ids from 64 on)."""
    if csid < 64:
        return bytes([kind << 6 | csid])
    if csid < 320 and not long_form:
        return bytes([kind << 6, csid - 64])
    return bytes([kind << 6 | 1]) + (csid - 64).to_bytes(2, "little")


def time_field(time: int) -> tuple[bytes, bytes]:
    """The 24-bit field, and the extended timestamp where it needs one."""
    if time < EXTENDED:
        return time.to_bytes(3, "big"), b""
    return b"\xff\xff\xff", time.to_bytes(4, "big")


def type0(csid: int, time: int, type_id: int, stream_id: int, data: bytes, length: int | None = None) -> bytes:
    short, extended = time_field(time)
    size = len(data) if length is None else length
    header = short + size.to_bytes(3, "big") + bytes([type_id]) + stream_id.to_bytes(4, "little")
    return basic(0, csid) + header + extended + data


def type1(csid: int, delta: int, type_id: int, data: bytes, length: int | None = None) -> bytes:
    short, extended = time_field(delta)
    size = len(data) if length is None else length
    return basic(1, csid) + short + size.to_bytes(3, "big") + bytes([type_id]) + extended + data


def type2(csid: int, delta: int, data: bytes) -> bytes:
    short, extended = time_field(delta)
    return basic(2, csid) + short + extended + data


def type3(csid: int, data: bytes, extended: int | None = None) -> bytes:
    return basic(3, csid) + (b"" if extended is None else extended.to_bytes(4, "big")) + data


def set_chunk_size(size: int, current: int = 128) -> bytes:
    """Its own four bytes are cut by the chunk size that is in force."""
    value = size.to_bytes(4, "big")
    rest = b"".join(type3(2, value[at : at + current]) for at in range(current, 4, current))
    return type0(2, 0, 1, 0, value[:current], 4) + rest


def abort(csid: int) -> bytes:
    return type0(2, 0, 2, 0, csid.to_bytes(4, "big"))


@dataclass
class Sent:
    """A message, in the order of its fields as the reader gives them."""

    type_id: int
    timestamp: int
    stream_id: int
    payload: bytes

    @property
    def raw(self) -> tuple[int, int, int, bytes]:
        return (self.type_id, self.timestamp, self.stream_id, self.payload)


@dataclass
class Sender:
    """One chunk stream of a sender: begins messages with any header type that can say it, and gives chunk by chunk."""

    csid: int
    repeats: bool = True
    """Whether type 3 chunks repeat the extended timestamp."""
    last: Sent | None = None
    step: int = 0
    """The value of the last time field: what a type 3 chunk adds."""
    rest: bytes = b""
    extended: bytes = field(default=b"", repr=False)

    def kinds(self, message: Sent) -> list[int]:
        """The header types that can begin the message."""
        kinds = [0]
        if self.last is not None and self.last.stream_id == message.stream_id:
            kinds.append(1)
            if (self.last.type_id, len(self.last.payload)) == (message.type_id, len(message.payload)):
                kinds.append(2)
                if (message.timestamp - self.last.timestamp) % 2**32 == self.step:
                    kinds.append(3)
        return kinds

    def begin(self, message: Sent, kind: int, chunk_size: int) -> bytes:
        delta = (message.timestamp - self.last.timestamp) % 2**32 if self.last else 0
        data, self.rest = message.payload[:chunk_size], message.payload[chunk_size:]
        self.last = message
        if kind == 3:
            return basic(3, self.csid) + (self.extended if self.repeats else b"") + data
        self.step = message.timestamp if kind == 0 else delta
        self.extended = time_field(self.step)[1]
        if kind == 0:
            return type0(self.csid, self.step, message.type_id, message.stream_id, data, len(message.payload))
        if kind == 1:
            return type1(self.csid, delta, message.type_id, data, len(message.payload))
        return type2(self.csid, delta, data)

    def repeat(self, kind: int, chunk_size: int) -> bytes:
        """As `proceed`, but by a header of type 0 that says the same, or of type 1 or 2 with no time since the last."""
        assert self.last is not None
        data, self.rest = self.rest[:chunk_size], self.rest[chunk_size:]
        self.step = self.last.timestamp if kind == 0 else 0
        self.extended = time_field(self.step)[1]
        length = len(self.last.payload)
        if kind == 0:
            return type0(self.csid, self.step, self.last.type_id, self.last.stream_id, data, length)
        return type1(self.csid, 0, self.last.type_id, data, length) if kind == 1 else type2(self.csid, 0, data)

    def proceed(self, chunk_size: int) -> bytes:
        data, self.rest = self.rest[:chunk_size], self.rest[chunk_size:]
        return basic(3, self.csid) + (self.extended if self.repeats else b"") + data


def chunked(message: Sent, csid: int = 3, chunk_size: int = 128) -> bytes:
    """The message in chunks, the first under a header that says all."""
    sender = Sender(csid)
    data = sender.begin(message, 0, chunk_size)
    while sender.rest:
        data += sender.proceed(chunk_size)
    return data


Raw = tuple[int, int, int, bytes]
