"""VP8 and VP9: VPCodecConfigurationRecord (VP codecs in ISO base media files), and the headers of key frames, which
alone tell the resolution (RFC 6386, 9.1; VP9 bitstream, 6.2 and 7.2)."""

from typing import Final

from ingest.rtmp.codecs.bits import BitReader
from ingest.rtmp.codecs.config import VideoConfig

RECORD_BYTES: Final = 8
NO_FLAGS: Final = b"\0\0\0"
"""Of a vpcC box, whose version and flags FFmpeg sends before the record. A record has its depth there."""
DEPTHS: Final = (8, 10, 12)

HEADER_BYTES: Final = 16
"""Within which a key frame tells its size."""

VP8_START: Final = b"\x9d\x01\x2a"
VP9_SYNC: Final = 0x498342
RGB: Final = 7
"""color_space of VP9."""

CHROMA: Final = {0: "4:2:0", 1: "4:2:0", 2: "4:2:2", 3: "4:4:4", 4: "4:4:0"}
"""chromaSubsampling of a record: 0 and 1 differ in where the samples lie."""
VP9_CHROMA: Final = {(True, True): "4:2:0", (True, False): "4:2:2", (False, True): "4:4:0", (False, False): "4:4:4"}
"""By subsampling across and down."""


FOURCC: Final = {"VP8": "vp08", "VP9": "vp09"}


def read_record(config: VideoConfig, record: bytes) -> None:
    """profile, level (1 byte each), depth (4 bits), chroma (3), range (1), primaries, transfer, matrix (1 each)."""
    if record[1:4] == NO_FLAGS:
        record = record[4:]
    if len(record) < RECORD_BYTES or record[2] >> 4 not in DEPTHS:
        raise ValueError("no such record")
    profile, level, depth = record[0], record[1], record[2] >> 4
    config.codec_string = f"{FOURCC[config.codec]}.{profile:02d}.{level:02d}.{depth:02d}"
    config.profile = f"Profile {profile}"
    config.level = f"{level // 10}.{level % 10}" if level else None
    config.bit_depth = depth
    config.chroma = CHROMA.get(record[2] >> 1 & 7)


def read_vp8_frame(config: VideoConfig, frame: bytes) -> None:
    """Frame tag (3 bytes, little endian, lowest bit 0 in key frames), start code (3), width, height (14 bits of 2)."""
    if len(frame) < 10 or frame[0] & 1 or frame[3:6] != VP8_START:
        raise ValueError("no key frame")
    config.bit_depth, config.chroma = 8, "4:2:0"
    config.set_size(*(int.from_bytes(frame[at : at + 2], "little") & 0x3FFF for at in (6, 8)))


def read_vp9_frame(config: VideoConfig, frame: bytes) -> None:
    """uncompressed_header() of a key frame, as far as its size."""
    reader = BitReader(frame[:HEADER_BYTES])
    if reader.bits(2) != 2:
        raise ValueError("no frame marker")
    profile = reader.bits(1) | reader.bits(1) << 1
    if profile == 3:
        reader.skip(1)
    is_repeated, is_inter = reader.flag(), reader.flag()
    reader.skip(2)
    if is_repeated or is_inter or reader.bits(24) != VP9_SYNC:
        raise ValueError("no key frame")
    config.profile = f"Profile {profile}"
    config.bit_depth = (12 if reader.flag() else 10) if profile >= 2 else 8
    is_rgb = reader.bits(3) == RGB
    if not is_rgb:
        reader.skip(1)  # The range.
    config.chroma = "4:4:4" if is_rgb else "4:2:0"
    if profile & 1:
        if not is_rgb:
            config.chroma = VP9_CHROMA[reader.flag(), reader.flag()]
        reader.skip(1)
    config.set_size(reader.bits(16) + 1, reader.bits(16) + 1)
