"""Opus: the identification header (RFC 7845, section 5.1). An empty one is allowed, and says nothing."""

from typing import Final

from ingest.rtmp.codecs.config import AudioConfig

MAGIC: Final = b"OpusHead"
RATE: Final = 48_000
"""Decoders put out 48 kHz whatever the input was."""


def read_head(config: AudioConfig, head: bytes) -> None:
    """ "OpusHead" (8 bytes), version (1), channels (1), ..."""
    config.set_rate(RATE)
    if head and (len(head) < 10 or not head.startswith(MAGIC) or head[8] >> 4):
        raise ValueError("no OpusHead of version 0")
    if head:
        config.set_channels(head[9])
