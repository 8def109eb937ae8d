"""H.266: VVCDecoderConfigurationRecord (ISO/IEC 14496-15, 11.2.4.2) and its sequence parameter set (H.266, 7.3.2.4)."""

from base64 import b32encode
from typing import Final

from ingest.rtmp.codecs.bits import BitReader
from ingest.rtmp.codecs.config import CHROMA, VideoConfig
from ingest.rtmp.codecs.nal import CROP_UNITS, find_unit, unescaped

OPI, DCI, SPS = 12, 13, 15
"""nal_unit_type. The first two stand alone in their arrays."""

PROFILES: Final = {
    1: "Main 10",
    2: "Main 12",
    10: "Main 12 Intra",
    17: "Multilayer Main 10",
    33: "Main 10 4:4:4",
    34: "Main 12 4:4:4",
    36: "Main 16 4:4:4",
    42: "Main 12 4:4:4 Intra",
    44: "Main 16 4:4:4 Intra",
    49: "Multilayer Main 10 4:4:4",
    65: "Main 10 Still Picture",
    66: "Main 12 Still Picture",
    97: "Main 10 4:4:4 Still Picture",
    98: "Main 12 4:4:4 Still Picture",
    100: "Main 16 4:4:4 Still Picture",
}

MAX_HEAD_BYTES: Final = 2048
"""Of a record before its NAL units; all that its counts can say takes under 1,200."""

CONSTRAINT_BITS: Final = 71
"""Flags and small numbers of general_constraints_info(), before its additional bits (7.3.3.2)."""


def read_record(config: VideoConfig, record: bytes) -> None:
    """Bits: 5 reserved, length size - 1 (2), profile follows (1). If so: output layer set (9), sublayers (3), constant
    rate (2), chroma (2), depth - 8 (3), 5 reserved, profile, largest width, height, frames in 256 seconds (16 each)."""
    record = record[4:] if record[:4] == b"\0\0\0\0" else record  # The version and flags of a vvcC box.
    head = record[:MAX_HEAD_BYTES]
    reader = BitReader(head)
    reader.skip(7)
    if reader.flag():
        reader.skip(9)
        sublayers = reader.bits(3)
        reader.skip(2)
        config.chroma = CHROMA[reader.bits(2)]
        config.bit_depth = 8 + reader.bits(3)
        reader.skip(5)
        _read_profile_record(config, reader, sublayers)
        config.set_size(reader.bits(16), reader.bits(16))
        config.set_fps(reader.bits(16), 256)
    at = len(head) - reader.left // 8
    _read_sps(config, unescaped(find_unit(record, at, SPS, type_bits=5, alone=(OPI, DCI))[2:]))


def _read_profile_record(config: VideoConfig, reader: BitReader, sublayers: int) -> None:
    """VvcPTLRecord: 2 reserved, bytes of constraints (6), profile (7), tier (1), level (8), constraints, sublayers."""
    reader.skip(2)
    size = reader.bits(6)
    profile, high_tier, level = reader.bits(7), reader.flag(), reader.bits(8)
    _set_profile(config, profile, level, high_tier=high_tier, constraints=reader.bits(8 * size).to_bytes(size, "big"))
    if sublayers > 1:
        present = sum(reader.flag() for _ in range(sublayers - 1))
        reader.skip(9 - sublayers)
        reader.skip(8 * present)
    reader.skip(32 * reader.bits(8))


def _set_profile(config: VideoConfig, profile: int, level: int, *, high_tier: bool, constraints: bytes = b"") -> None:
    """The string is 14496-15's, annex E.6. `constraints` begin with the flags for frames only and for more layers."""
    tier = "H" if high_tier else "L"
    config.codec_string = f"vvc1.{profile}.{tier}{level}"
    if told := constraints.rstrip(b"\0"):
        config.codec_string += ".C" + b32encode(told).decode().rstrip("=")
    config.profile = PROFILES.get(profile, f"profile {profile}")
    config.level = f"{level // 16}.{level % 16 // 3}"


def _read_sps(config: VideoConfig, reader: BitReader) -> None:
    reader.skip(8)  # Ids of this set and of the video's.
    sublayers = reader.bits(3)
    chroma = reader.bits(2)
    config.chroma = CHROMA[chroma]
    reader.skip(2)
    if reader.flag():
        _read_profile_tier_level(config, reader, sublayers)
    reader.skip(1)
    if reader.flag():  # Reference pictures may be of other sizes.
        reader.skip(1)
    width, height = reader.unsigned(), reader.unsigned()
    if reader.flag():
        left, right, top, bottom = (reader.unsigned() for _ in range(4))
        unit_x, unit_y = CROP_UNITS[chroma]
        width, height = width - unit_x * (left + right), height - unit_y * (top + bottom)
    config.set_size(width, height)
    if not reader.flag():  # With subpictures, their places would come first.
        config.bit_depth = 8 + reader.at_most(8)


def _read_profile_tier_level(config: VideoConfig, reader: BitReader, sublayers: int) -> None:
    """profile_tier_level(1, sublayers) (7.3.3.1)."""
    profile, high_tier, level = reader.bits(7), reader.flag(), reader.bits(8)
    if config.codec_string is None:
        _set_profile(config, profile, level, high_tier=high_tier)
    reader.skip(2)
    if reader.flag():
        reader.skip(CONSTRAINT_BITS)
        reader.skip(reader.bits(8))
    reader.align()
    present = sum(reader.flag() for _ in range(sublayers))
    reader.align()
    reader.skip(8 * present)
    reader.skip(32 * reader.bits(8))
