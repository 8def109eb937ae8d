"""H.264: AVCDecoderConfigurationRecord (ISO/IEC 14496-15, 5.3.3.1), its sequence parameter set (H.264, 7.3.2.1.1)."""

from typing import Final

from ingest.rtmp.codecs.bits import BitReader
from ingest.rtmp.codecs.config import CHROMA, VideoConfig
from ingest.rtmp.codecs.nal import CROP_UNITS, MAX_SPS_BYTES, read_vui_start, unescaped

SPS: Final = 7
"""nal_unit_type."""

PROFILES: Final = {
    44: "CAVLC 4:4:4 Intra",
    66: "Baseline",
    77: "Main",
    83: "Scalable Baseline",
    86: "Scalable High",
    88: "Extended",
    100: "High",
    110: "High 10",
    118: "Multiview High",
    122: "High 4:2:2",
    128: "Stereo High",
    244: "High 4:4:4 Predictive",
}
CONSTRAINED: Final = {66: "Constrained Baseline"}
"""With constraint_set1_flag."""
INTRA: Final = {110: "High 10 Intra", 122: "High 4:2:2 Intra", 244: "High 4:4:4 Intra"}
"""With constraint_set3_flag."""

CHROMA_PROFILES: Final = (44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244)
"""Profiles whose parameter sets tell the chroma format."""


def read_record(config: VideoConfig, record: bytes) -> None:
    """version, profile, compatibility, level, length size (1 byte each), number of sets (low 5 bits), size (2), set."""
    if len(record) < 4:
        raise ValueError("the record ends too early")
    _set_profile(config, *record[1:4])
    if len(record) < 9 or record[5] & 31 == 0 or record[8] & 31 != SPS:
        raise ValueError("no sequence parameter set")
    size = int.from_bytes(record[6:8], "big")
    _read_sps(config, unescaped(record[9 : min(8 + size, 9 + MAX_SPS_BYTES)]))


def _set_profile(config: VideoConfig, profile: int, constraints: int, level: int) -> None:
    config.codec_string = f"avc1.{profile:02x}{constraints:02x}{level:02x}"
    name = PROFILES.get(profile, f"profile {profile}")
    if constraints & 0x40:
        name = CONSTRAINED.get(profile, name)
    if constraints & 0x10:
        name = INTRA.get(profile, name)
    config.profile = name
    is_1b = level == 9 or (level == 11 and profile in (66, 77, 88) and constraints & 0x10)
    config.level = "1b" if is_1b else f"{level // 10}.{level % 10}"


def _read_sps(config: VideoConfig, reader: BitReader) -> None:
    """seq_parameter_set_data()."""
    profile = reader.bits(8)
    _set_profile(config, profile, reader.bits(8), reader.bits(8))
    reader.unsigned()  # Its id.
    chroma, depth = 1, 8
    if profile in CHROMA_PROFILES:
        chroma = reader.at_most(3)
        if chroma == 3:
            reader.skip(1)
        depth = 8 + reader.at_most(6)
        reader.unsigned()
        reader.skip(1)
        if reader.flag():
            for index in range(12 if chroma == 3 else 8):
                if reader.flag():
                    _skip_scaling_list(reader, 16 if index < 6 else 64)
    config.chroma, config.bit_depth = CHROMA[chroma], depth
    reader.unsigned()  # log2_max_frame_num_minus4
    order = reader.unsigned()
    if order == 0:
        reader.unsigned()
    elif order == 1:
        reader.skip(1)
        reader.signed()
        reader.signed()
        for _ in range(reader.at_most(255)):
            reader.signed()
    reader.unsigned()  # max_num_ref_frames
    reader.skip(1)
    across, down = reader.unsigned() + 1, reader.unsigned() + 1
    fields = 2 - reader.bits(1)  # 2 where pictures may be coded as fields.
    if fields == 2:
        reader.skip(1)
    reader.skip(1)
    left = right = top = bottom = 0
    if reader.flag():
        left, right, top, bottom = (reader.unsigned() for _ in range(4))
    unit_x, unit_y = CROP_UNITS[chroma]
    width = across * 16 - unit_x * (left + right)
    config.set_size(width, down * 16 * fields - unit_y * fields * (top + bottom))
    if reader.flag():
        config.sample_aspect = read_vui_start(reader)
        if reader.flag():
            tick, scale = reader.bits(32), reader.bits(32)
            config.set_fps(scale, 2 * tick)  # A tick is a field's time.


def _skip_scaling_list(reader: BitReader, size: int) -> None:
    """scaling_list() (7.3.2.1.1.1): a difference each, until the scale becomes 0."""
    scale = 8
    for _ in range(size):
        scale = (scale + reader.signed()) % 256
        if scale == 0:
            return
