"""Sorenson H.263 and Screen video, whose frames tell their size (FLV 10.1, annex E.4.3.2 and Screen video's own)."""

from typing import Final

from ingest.rtmp.codecs.bits import BitReader
from ingest.rtmp.codecs.config import VideoConfig

HEADER_BYTES: Final = 12
SIZES: Final = {2: (352, 288), 3: (176, 144), 4: (128, 96), 5: (320, 240), 6: (160, 120)}
"""PictureSize; with 0 and 1 width and height follow, of 8 and of 16 bits."""


def read_h263_frame(config: VideoConfig, frame: bytes) -> None:
    """start code (17 bits, the last one 1), version (5), time (8), size (3) [width, height]."""
    reader = BitReader(frame[:HEADER_BYTES])
    if reader.bits(17) != 1:
        raise ValueError("no start code")
    reader.skip(13)
    config.bit_depth, config.chroma = 8, "4:2:0"
    size = reader.bits(3)
    if size in SIZES:
        config.set_size(*SIZES[size])
    elif size < 2:
        bits = 8 << size
        config.set_size(reader.bits(bits), reader.bits(bits))


def read_screen_frame(config: VideoConfig, frame: bytes) -> None:
    """block width / 16 - 1 (4 bits), width (12), block height / 16 - 1 (4), height (12)."""
    reader = BitReader(frame[:4])
    reader.skip(4)
    width = reader.bits(12)
    reader.skip(4)
    config.set_size(width, reader.bits(12))
    config.bit_depth, config.chroma = 8, "4:4:4"
