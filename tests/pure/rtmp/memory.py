"""How much memory an object holds, and a connection may hold by its limits; and messages that are short on the wire and
long once read: what stands for much is said once and referred to often.

`VALUES` are values in AMF3, of some length in bytes, by what they make of it; `AMF0` the same in AMF0."""

import gc
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from struct import pack
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from ingest.rtmp import Limits, Message
from ingest.rtmp.amf import amf0
from ingest.rtmp.messages import AggregatePart
from tests.rtmp_client import encode_aggregate

SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, Enum, Limits)
"""What is there once for all connections."""


def held_bytes(root: Any) -> int:
    """Of the object and of all that it refers to, as Python counts it; nothing of it needs to be known by name."""
    seen = {id(root)}
    found = [root]
    total = 0
    while found:
        each = found.pop()
        total += sys.getsizeof(each)
        for inner in gc.get_referents(each):
            if id(inner) not in seen and not isinstance(inner, SHARED):
                seen.add(id(inner))
                found.append(inner)
    return total


EMPTY: int = 64 * 1024
"""A connection with all that it needs and no message, with room to spare: it is about 5 KiB."""
STREAM: int = 2 * 1024
"""What is kept of a chunk stream or message stream besides payload and names."""
GROWTH: float = 1.25
"""A bytearray has an eighth in reserve, and some more when it is small."""
CHARACTER: int = 4
"""Bytes of each character of a text that was one byte each on the wire, but for one that makes all of them wide."""
HEADER: int = 18


def reader_bytes(limits: Limits) -> int:
    """What a chunk reader may hold between reads: messages under way, and of one chunk all but its last byte."""
    longest = max(
        limits.media_message_bytes,
        limits.command_message_bytes,
        limits.data_message_bytes,
        limits.control_message_bytes,
        limits.other_message_bytes,
    )
    chunk = HEADER + longest
    return EMPTY + limits.chunk_streams * STREAM + int(GROWTH * (limits.partial_bytes + chunk))


def connection_bytes(limits: Limits) -> int:
    """What a connection may hold whose events and output were taken: the reader's, names of streams that play or
    publish, names that FCPublish announced, and what has come for streams that await a decision, with the message by
    which that is too much.
    """
    streams = limits.message_streams * (STREAM + 2 * CHARACTER * limits.stream_name_bytes)
    longest = max(limits.media_message_bytes, limits.command_message_bytes, limits.data_message_bytes)
    return reader_bytes(limits) + streams + limits.held_bytes + longest


WIDE = "\U0001f600".encode()
"""The longest character, of which one makes all of a text wide in memory."""


def u29(number: int) -> bytes:
    """AMF3 1.3.1."""
    if number < 0x80:
        return bytes([number])
    if number < 0x4000:
        return bytes([number >> 7 | 0x80, number & 0x7F])
    if number < 0x200000:
        return bytes([number >> 14 | 0x80, number >> 7 & 0x7F | 0x80, number & 0x7F])
    return bytes([number >> 22 | 0x80, number >> 15 & 0x7F | 0x80, number >> 8 & 0x7F | 0x80, number & 0xFF])


def text(value: bytes) -> bytes:
    return u29(len(value) << 1 | 1) + value


def array(items: list[bytes]) -> bytes:
    return b"\x09" + u29(len(items) << 1 | 1) + b"\x01" + b"".join(items)


def objects(name: bytes, sealed: list[bytes], size: int) -> bytes:
    """Objects of one class, without values but null, as many as make `size` bytes."""
    traits = u29(len(sealed) << 4 | 3) + text(name) + b"".join(map(text, sealed))
    nothing = b"\x01" * len(sealed)
    again = b"\x0a\x01" + nothing
    return array([b"\x0a" + traits + nothing, *[again] * ((size - len(traits)) // len(again))])


def repeated(first: bytes, again: bytes, size: int) -> bytes:
    return array([first, *[again] * (max(size - len(first), 0) // len(again))])


def doubled(size: int) -> bytes:
    """Each array holds the one before twice."""
    value = array([b"\x01"])
    for index in range(1, size // 4):
        value = b"\x09\x05\x01" + value + b"\x09" + u29((index - 1) << 1)
        if index == 30:
            break
    return value


def dictionary(keys: Iterator[bytes], size: int) -> bytes:
    pairs: list[bytes] = []
    while size > 0:
        pairs.append(next(keys) + b"\x01")
        size -= len(pairs[-1])
    return b"\x11" + u29(len(pairs) << 1 | 1) + b"\x00" + b"".join(pairs)


def doubles() -> Iterator[bytes]:
    """Numbers that are long in writing."""
    for index in range(10**6):
        yield b"\x05" + pack(">d", 1e308 * (1 + index * 1e-7) / 2)


def members(size: int) -> bytes:
    """Objects whose members' names are references to a long one."""
    first = b"\x0a\x0b\x01" + text(b"n" * (size // 2)) + b"\x01\x01"
    return repeated(first, b"\x0a\x01\x00\x01\x01", size)


VALUES: dict[str, Callable[[int], bytes]] = {
    "a class": lambda size: objects(b"c" * (size // 2), [], size),
    "a class just within an element": lambda size: objects(b"c" * 63, [], size),
    "a class of wide characters": lambda size: objects(WIDE * 63, [], size),
    "a class of bytes that are no text": lambda size: objects(b"\xff" * 63, [], size),
    "a sealed member": lambda size: objects(b"", [b"m" * (size // 2)], size),
    "sealed members": lambda size: objects(b"", [b"%05d" % index * 12 for index in range(size // 300)], size),
    "sealed members that quote keys": lambda size: objects(b"", [b"?key=%41bcdefgh" * (size // 30)], size),
    "a member": members,
    "a text": lambda size: repeated(b"\x06" + text(b"t" * (size // 2)), b"\x06\x00", size),
    "a text just within an element": lambda size: repeated(b"\x06" + text(b"t" * 63), b"\x06\x00", size),
    "a wide text": lambda size: repeated(b"\x06" + text(WIDE * 15), b"\x06\x00", size),
    "a long text that is wide by one character": lambda size: b"\x06" + text(b"t" * size + WIDE),
    "bytes that are no text": lambda size: b"\x06" + text(b"\xff" * size),
    "XML": lambda size: repeated(b"\x0b" + text(b"x" * (size // 2)), b"\x0b\x02", size),
    "bytes": lambda size: repeated(b"\x0c" + text(b"x" * (size // 2)), b"\x0c\x02", size),
    "a vector": lambda size: repeated(
        b"\x0d" + u29((size // 8) << 1 | 1) + b"\0" + bytes(size // 8 * 4), b"\x0d\x02", size
    ),
    "a vector's type": lambda size: repeated(b"\x10\x01\x00" + text(b"t" * (size // 2)), b"\x10\x01\x00\x00", size),
    "an array": lambda size: repeated(array([b"\x01"] * (size // 2)), b"\x09\x02", size),
    "arrays doubled": doubled,
    "nulls": lambda size: array([b"\x01"] * size),
    "empty arrays": lambda size: array([b"\x09\x01\x01"] * (size // 3)),
    "empty objects": lambda size: repeated(b"\x0a\x0b\x01\x01", b"\x0a\x01\x01", size),
    "numbers": lambda size: array([b"\x04\x01"] * (size // 2)),
    "a dictionary of long numbers": lambda size: dictionary(doubles(), size),
    "a dictionary of texts": lambda size: dictionary((b"\x06" + text(b"%07d" % i) for i in range(10**6)), size),
    "wrappers": lambda size: repeated(
        b"\x0a\x07" + text(b"flex.messaging.io.ObjectProxy") + b"\x01", b"\x0a\x01\x01", size
    ),
}
"""By a size in bytes, of which they are at most a little more."""

AMF0: dict[str, Callable[[int], bytes]] = {
    "AMF0: nulls": lambda size: b"\x0a" + pack(">I", size) + b"\x05" * size,
    "AMF0: empty arrays": lambda size: b"\x0a" + pack(">I", size // 5) + b"\x0a\0\0\0\0" * (size // 5),
    "AMF0: empty objects": lambda size: b"\x0a" + pack(">I", size // 4) + b"\x03\0\0\x09" * (size // 4),
    "AMF0: an array": lambda size: (
        b"\x0a" + pack(">I", size // 6) + b"\x0a" + pack(">I", size // 2) + b"\x05" * (size // 2)
        + b"\x07\0\1" * (size // 6 - 1)
    ),
    "AMF0: an object of a class": lambda size: (
        b"\x0a" + pack(">I", size // 6) + b"\x10" + pack(">H", min(size // 2, 65_535)) + b"c" * min(size // 2, 65_535)
        + b"\0\0\x09" + b"\x07\0\1" * (size // 6 - 1)
    ),
    "AMF0: numbers": lambda size: b"\0\x3f\xf0\0\0\0\0\0\0" * (size // 9),
    "AMF0: empty texts": lambda size: b"\x02\0\0" * (size // 3),
    "AMF0: members": lambda size: (
        b"\x03" + b"".join(b"\0\4%04x\5" % (index & 0xFFFF) for index in range(size // 7)) + b"\0\0\x09"
    ),
    "AMF0: long text, wide by one character": lambda size: b"\x0c" + pack(">I", size) + b"t" * (size - 4) + WIDE,
}  # fmt: skip


def shared_object(name: bytes, event: int, body: bytes, *, amf3: bool) -> bytes:
    head = pack(">H", len(name)) + name + bytes(12)
    return (b"\0" if amf3 else b"") + head + bytes([event]) + pack(">I", len(body)) + body


def messages(value: bytes, stream_id: int) -> dict[str, Message]:
    """Each kind of message that holds values, with this one: AMF0, or AMF3 behind its marker."""
    metadata = amf0.encode("@setDataFrame", "onMetaData") + value
    parts = [AggregatePart(18, 0, metadata), AggregatePart(15, 0, b"\0" + metadata)]
    return {
        "command (20)": Message(20, 0, 0, amf0.encode("call", 2.0, None) + value),
        "command (17)": Message(17, 0, 0, b"\0" + amf0.encode("call", 2.0, None) + value),
        "data (18)": Message(18, 0, stream_id, metadata),
        "data (15)": Message(15, 0, stream_id, b"\0" + metadata),
        "shared object (19)": Message(19, 0, 0, shared_object(b"s", 4, b"\0\1a" + value, amf3=False)),
        "shared object (16)": Message(16, 0, 0, shared_object(b"s", 4, b"\0\1a" + value, amf3=True)),
        "aggregate (22)": encode_aggregate(stream_id, parts),
    }


def connect(value: bytes, **properties: Any) -> Message:
    """With the value as argument, once more after the command object."""
    return Message(20, 0, 0, amf0.encode("connect", 1.0, {"app": "live", **properties}) + value)
