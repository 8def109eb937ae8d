"""How much memory an object holds, and how much a connection may hold by its limits."""

import gc
import sys
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from ingest.rtmp import Limits

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


def reader_bytes(limits: Limits) -> int:
    """What a chunk reader may hold between reads: messages under way, and of one chunk all but its last byte."""
    kinds = ("media", "command", "data", "control", "other")
    chunk = 18 + max(getattr(limits, f"{kind}_message_bytes") for kind in kinds)  # The longest header and message.
    return EMPTY + limits.chunk_streams * STREAM + int(GROWTH * (limits.partial_bytes + chunk))


def connection_bytes(limits: Limits) -> int:
    """What a connection may hold whose events and output were taken: the reader's, names of streams that play or
    publish, names that FCPublish announced, and what has come for streams that await a decision, with the message by
    which that is too much.
    """
    streams = limits.message_streams * (STREAM + 2 * CHARACTER * limits.stream_name_bytes)
    longest = max(limits.media_message_bytes, limits.command_message_bytes, limits.data_message_bytes)
    return reader_bytes(limits) + streams + limits.held_bytes + longest
