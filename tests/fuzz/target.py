"""The form of a target and of its inputs, the places where inputs are cut, and limits that a fuzzer reaches."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple
from zlib import crc32

from ingest.rtmp import Limits

ACCEPTED, ASKED = b"\x00", b"\x01"
"""The first byte of an input for the client: its connect is accepted before the rest of the input, or is not."""


class Target(NamedTuple):
    run: Callable[[bytes], None]
    """Takes any bytes. Each exception is a find."""
    seeds: Callable[[], Iterable[bytes]]
    max_input_bytes: int = 2048


def record(type_id: int, stream_id: int, payload: bytes) -> bytes:
    """A message of an input: type, message stream and length in a byte each, then the payload."""
    return bytes((type_id, stream_id, len(payload))) + payload


def pieces(data: bytes) -> Sequence[bytes]:
    """Three pieces, cut at places that depend on the data alone."""
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
