"""The memory that an object holds, and the most that a connection may hold by its limits."""

import gc
import sys
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from ingest.rtmp import Limits

SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, Enum, Limits)
"""Types of objects that all connections share."""


def held_bytes(root: Any) -> int:
    """The bytes of the object and of all objects that it refers to, as Python counts them."""
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
"""A connection without messages. It takes about 5 KiB, so this leaves room."""
STREAM: int = 2 * 1024
"""The state of a chunk stream or message stream, without payload and names."""
GROWTH: float = 1.25
"""A bytearray has an eighth in reserve, and some more when it is small."""
CHARACTER: int = 4
"""Bytes of each character if one makes all of a text wide. On the wire, each other one takes one byte."""


def reader_bytes(limits: Limits) -> int:
    """The most that a chunk reader may hold between reads: messages under way, and one chunk without its last byte."""
    kinds = ("media", "command", "data", "control", "other")
    chunk = 18 + max(getattr(limits, f"{kind}_message_bytes") for kind in kinds)  # The longest header and message.
    return EMPTY + limits.chunk_streams * STREAM + int(GROWTH * (limits.partial_bytes + chunk))


def connection_bytes(limits: Limits) -> int:
    """The most that a connection may hold once its events and output are taken.

    It holds the reader, names of streams that play or publish or were announced by FCPublish, and held messages.
    """
    streams = limits.message_streams * (STREAM + 2 * CHARACTER * limits.stream_name_bytes)
    longest = max(limits.media_message_bytes, limits.command_message_bytes, limits.data_message_bytes)
    return reader_bytes(limits) + streams + limits.held_bytes + longest
