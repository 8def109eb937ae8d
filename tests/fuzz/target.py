"""What a target is, where an input is cut, and limits that a fuzzer gets to."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple
from zlib import crc32

from ingest.rtmp import Limits


class Target(NamedTuple):
    run: Callable[[bytes], None]
    """Takes any bytes. Whatever it raises is a find."""
    seeds: Callable[[], Iterable[bytes]]
    longest: int = 2048
    """Bytes of the longest input."""


def pieces(data: bytes) -> Sequence[bytes]:
    """Three."""
    size = len(data) + 1
    first, second = sorted((crc32(data) % size, crc32(data, 1) % size))
    return data[:first], data[first:second], data[second:]


LIMITS: Final = Limits(
    media_message_bytes=1500,
    command_message_bytes=1024,
    data_message_bytes=1200,
    other_message_bytes=600,
    chunk_streams=8,
    partial_bytes=2500,
    unadmitted_chunk_streams=6,
    unadmitted_partial_bytes=2000,
    held_bytes=10_000,
    message_streams=4,
    stream_name_bytes=100,
    messages_per_read=1_000_000,
    chunks_per_read=1_000_000,
    ignored_messages=20,
    amf_depth=8,
    amf_elements=512,
    command_amf_elements=256,
    amf_string_bytes=1000,
    tracks_per_message=4,
    mod_ex_per_message=3,
)
