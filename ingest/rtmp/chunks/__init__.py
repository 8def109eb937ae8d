"""The chunk stream (RTMP 1.0, section 5.3): messages cut into chunks of several interleaved chunk streams."""

from typing import Final

DEFAULT_CHUNK_SIZE: Final = 128
"""Bytes of payload in a chunk until Set Chunk Size says otherwise (section 5.4.1)."""

MAX_MESSAGE_SIZE: Final = 0xFFFFFF
"""The message length field has 24 bits."""

EXTENDED: Final = 0xFFFFFF
"""In the timestamp field: the value follows in 4 bytes of its own (section 5.3.1.3)."""

# The chunk streams that we send on. Only 2 has a fixed meaning; the others are what servers and encoders commonly use.
CSID_CONTROL: Final = 2
CSID_COMMAND: Final = 3
CSID_AUDIO: Final = 4
CSID_DATA: Final = 4
CSID_STATUS: Final = 5
CSID_VIDEO: Final = 6


def basic_header(chunk_type: int, chunk_stream_id: int) -> bytes:
    """1, 2 or 3 bytes, the shortest that holds the id (section 5.3.1.1). Ids are 2 to 65599."""
    form = chunk_type << 6
    if chunk_stream_id < 64:
        return bytes((form | chunk_stream_id,))
    rest = chunk_stream_id - 64
    if rest < 256:
        return bytes((form, rest))
    return bytes((form | 1, rest & 0xFF, rest >> 8))
