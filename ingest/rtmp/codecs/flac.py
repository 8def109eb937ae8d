"""FLAC: STREAMINFO (RFC 9639, section 8.2)."""

from typing import Final

from ingest.rtmp.codecs.bits import BitReader
from ingest.rtmp.codecs.config import AudioConfig

MAGIC: Final = b"fLaC"
BLOCK_HEADER_BYTES: Final = 4
INFO_BYTES: Final = 34


def read_info(config: AudioConfig, header: bytes) -> None:
    """Block and frame sizes (10 bytes), sample rate (20 bits), channels - 1 (3), bits per sample - 1 (5), ...

    Enhanced RTMP puts "fLaC" and a block header before it; FFmpeg sends it bare.
    """
    start = len(MAGIC) + BLOCK_HEADER_BYTES if header.startswith(MAGIC) else 0
    reader = BitReader(header[start : start + INFO_BYTES])
    reader.skip(80)
    config.set_rate(reader.bits(20))
    config.set_channels(reader.bits(3) + 1)
    config.bit_depth = reader.bits(5) + 1
