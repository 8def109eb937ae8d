"""H.264, H.265 and H.266: the decoder configuration record, and the sequence parameter set in it.

| codec       | record (ISO/IEC 14496-15)                 | sequence parameter set |
|-------------|-------------------------------------------|------------------------|
| H.264, AVC  | AVCDecoderConfigurationRecord, 5.3.3.1    | H.264, 7.3.2.1.1       |
| H.265, HEVC | HEVCDecoderConfigurationRecord, 8.3.3.1   | H.265, 7.3.2.2         |
| H.266, VVC  | VVCDecoderConfigurationRecord, 11.2.4.2   | H.266, 7.3.2.4         |"""

from base64 import b32encode
from typing import Final

from ingest.rtmp.codecs.bitstream import (
    MAX_SPS_BYTES,
    BitReader,
    find_nal_unit,
    read_cropping,
    read_vui_start,
    unescaped,
)
from ingest.rtmp.codecs.config import CHROMA, VideoConfig

AVC_SPS: Final = 7

AVC_PROFILES: Final = {
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
AVC_CONSTRAINED: Final = {66: "Constrained Baseline"}
"""With constraint_set1_flag."""
AVC_INTRA: Final = {110: "High 10 Intra", 122: "High 4:2:2 Intra", 244: "High 4:4:4 Intra"}
"""With constraint_set3_flag."""

AVC_CHROMA_PROFILES: Final = (44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244)
"""Profiles whose parameter sets tell the chroma format."""


def read_avc_record(config: VideoConfig, record: bytes) -> None:
    """version, profile, compatibility, level, length size (1 byte each), number of sets (low 5 bits), size (2), set."""
    if len(record) < 4:
        raise ValueError("the record ends too early")
    _set_avc_profile(config, *record[1:4])
    if len(record) < 9 or record[5] & 31 == 0 or record[8] & 31 != AVC_SPS:
        raise ValueError("no sequence parameter set")
    size = int.from_bytes(record[6:8], "big")
    _read_avc_sps(config, unescaped(record[9 : min(8 + size, 9 + MAX_SPS_BYTES)]))


def _set_avc_profile(config: VideoConfig, profile: int, constraints: int, level: int) -> None:
    config.codec_string = f"avc1.{profile:02x}{constraints:02x}{level:02x}"
    name = AVC_PROFILES.get(profile, f"profile {profile}")
    if constraints & 0x40:
        name = AVC_CONSTRAINED.get(profile, name)
    if constraints & 0x10:
        name = AVC_INTRA.get(profile, name)
    config.profile = name
    is_1b = level == 9 or (level == 11 and profile in (66, 77, 88) and constraints & 0x10)
    config.level = "1b" if is_1b else f"{level // 10}.{level % 10}"


def _read_avc_sps(config: VideoConfig, reader: BitReader) -> None:
    """seq_parameter_set_data()."""
    profile = reader.bits(8)
    _set_avc_profile(config, profile, reader.bits(8), reader.bits(8))
    reader.unsigned()  # Its id.
    chroma, depth = 1, 8
    if profile in AVC_CHROMA_PROFILES:
        chroma = reader.at_most(3)
        if chroma == 3:
            reader.skip(1)
        depth = 8 + reader.at_most(6)
        reader.unsigned()
        reader.skip(1)
        if reader.flag():
            for index in range(12 if chroma == 3 else 8):
                if reader.flag():
                    _skip_avc_scaling_list(reader, 16 if index < 6 else 64)
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
    cropped_x, cropped_y = read_cropping(reader, chroma)
    config.set_size(across * 16 - cropped_x, fields * (down * 16 - cropped_y))
    if reader.flag():
        config.sample_aspect = read_vui_start(reader)
        if reader.flag():
            tick, scale = reader.bits(32), reader.bits(32)
            config.set_fps(scale, 2 * tick)  # A tick is a field's time.


def _skip_avc_scaling_list(reader: BitReader, size: int) -> None:
    """scaling_list() (7.3.2.1.1.1): a difference each, until the scale becomes 0."""
    scale = 8
    for _ in range(size):
        scale = (scale + reader.signed()) % 256
        if scale == 0:
            return


HEVC_SPS: Final = 33

HEVC_ARRAYS: Final = 22
"""Where the record's count of arrays stands."""

HEVC_PROFILES: Final = {
    1: "Main",
    2: "Main 10",
    3: "Main Still Picture",
    4: "Range Extensions",
    5: "High Throughput",
    6: "Multiview Main",
    7: "Scalable Main",
    8: "3D Main",
    9: "Screen Content",
    10: "Scalable Range Extensions",
    11: "High Throughput Screen Content",
}
HEVC_PROFILE_SPACES: Final = ("", "A", "B", "C")


def read_hevc_record(config: VideoConfig, record: bytes) -> None:
    """Byte 1: profile space (2 bits), tier (1), profile (5). Then compatibility (4 bytes), constraints (6), level (1),
    and from byte 16 on: chroma format, depth of luma and of chroma (low bits), frames in 256 seconds (2 bytes)."""
    if len(record) < HEVC_ARRAYS:
        raise ValueError("the record ends too early")
    _set_hevc_profile(config, record[1:13])
    config.chroma = CHROMA[record[16] & 3]
    config.bit_depth = 8 + (record[17] & 7)
    config.set_fps(int.from_bytes(record[19:21], "big"), 256)
    _read_hevc_sps(config, unescaped(find_nal_unit(record, HEVC_ARRAYS, HEVC_SPS, type_bits=6)[2:]))


def _set_hevc_profile(config: VideoConfig, given: bytes) -> None:
    """`given`: general_profile_space to general_level_idc, 12 bytes. The string is 14496-15's, annex E.3."""
    space, high_tier, profile, level = given[0] >> 6, given[0] & 0x20, given[0] & 31, given[11]
    compatibility = int(f"{int.from_bytes(given[1:5], 'big'):032b}"[::-1], 2)
    constraints = "".join(f".{byte:X}" for byte in given[5:11].rstrip(b"\0"))
    tier = "H" if high_tier else "L"
    config.codec_string = f"hvc1.{HEVC_PROFILE_SPACES[space]}{profile}.{compatibility:X}.{tier}{level}{constraints}"
    config.profile = HEVC_PROFILES.get(profile, f"profile {profile}")
    config.level = f"{level // 30}.{level % 30 // 3}"


def _read_hevc_sps(config: VideoConfig, reader: BitReader) -> None:
    reader.skip(4)
    sub_layers = reader.bits(3)
    reader.skip(1)
    _skip_hevc_profile_tier_level(reader, sub_layers)
    reader.unsigned()  # Its id.
    chroma = reader.at_most(3)
    if chroma == 3:
        reader.skip(1)
    _read_size(config, reader, chroma)
    config.chroma = CHROMA[chroma]
    config.bit_depth = 8 + reader.at_most(8)
    _skip_to_hevc_vui(reader, sub_layers)
    if reader.flag():
        _read_hevc_vui(config, reader)


def _read_size(config: VideoConfig, reader: BitReader, chroma: int) -> None:
    """Of H.265 and H.266."""
    width, height = reader.unsigned(), reader.unsigned()
    cropped_x, cropped_y = read_cropping(reader, chroma)
    config.set_size(width - cropped_x, height - cropped_y)


def _skip_hevc_profile_tier_level(reader: BitReader, sub_layers: int) -> None:
    """profile_tier_level(1, sub_layers) (7.3.3)."""
    reader.skip(96)
    present = [(reader.flag(), reader.flag()) for _ in range(sub_layers)]
    if sub_layers:
        reader.skip(2 * (8 - sub_layers))
    for profile, level in present:
        reader.skip(88 * profile + 8 * level)


def _skip_to_hevc_vui(reader: BitReader, sub_layers: int) -> None:
    """From bit_depth_chroma_minus8 to before vui_parameters_present_flag."""
    reader.unsigned()
    order_bits = reader.at_most(12) + 4
    all_layers = reader.flag()
    for _ in range(3 * (sub_layers + 1 if all_layers else 1)):
        reader.unsigned()
    for _ in range(6):  # Sizes of blocks, depths of their trees.
        reader.unsigned()
    if reader.flag() and reader.flag():
        _skip_hevc_scaling_lists(reader)
    reader.skip(2)
    if reader.flag():  # Pulse code modulation.
        reader.skip(8)
        reader.unsigned()
        reader.unsigned()
        reader.skip(1)
    pictures = 0
    for index in range(reader.at_most(64)):
        pictures = _skip_hevc_reference_set(reader, index, pictures)
    if reader.flag():
        for _ in range(reader.at_most(32)):
            reader.skip(order_bits + 1)
    reader.skip(2)


def _skip_hevc_scaling_lists(reader: BitReader) -> None:
    """scaling_list_data() (7.3.4)."""
    for size in range(4):
        for _ in range(2 if size == 3 else 6):
            if not reader.flag():
                reader.unsigned()
                continue
            if size > 1:
                reader.signed()
            for _ in range(min(64, 1 << (4 + 2 * size))):
                reader.signed()


def _skip_hevc_reference_set(reader: BitReader, index: int, pictures: int) -> int:
    """st_ref_pic_set() (7.3.7): how many pictures the set has; `pictures` are those of the set before."""
    if index and reader.flag():
        reader.skip(1)
        reader.unsigned()
        # used_by_curr_pic_flag, or else use_delta_flag.
        return sum(reader.flag() or reader.flag() for _ in range(pictures + 1))
    count = reader.at_most(16) + reader.at_most(16)
    for _ in range(count):
        reader.unsigned()
        reader.skip(1)
    return count


def _read_hevc_vui(config: VideoConfig, reader: BitReader) -> None:
    """vui_parameters() (E.2.1) as far as their timing."""
    config.sample_aspect = read_vui_start(reader)
    reader.skip(3)
    if reader.flag():  # Default display window.
        for _ in range(4):
            reader.unsigned()
    if reader.flag():
        tick, scale = reader.bits(32), reader.bits(32)
        config.set_fps(scale, tick)


VVC_OPI, VVC_DCI, VVC_SPS = 12, 13, 15
"""nal_unit_type. The first two stand alone in their arrays."""

VVC_PROFILES: Final = {
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

VVC_MAX_HEAD_BYTES: Final = 2048
"""Of a record before its NAL units; all that its counts can say takes under 1,200."""

VVC_CONSTRAINT_BITS: Final = 71
"""Flags and small numbers of general_constraints_info(), before its additional bits (7.3.3.2)."""


def read_vvc_record(config: VideoConfig, record: bytes) -> None:
    """Bits: 5 reserved, length size - 1 (2), profile follows (1). If so: output layer set (9), sublayers (3), constant
    rate (2), chroma (2), depth - 8 (3), 5 reserved, profile, largest width, height, frames in 256 seconds (16 each)."""
    record = record[4:] if record[:4] == b"\0\0\0\0" else record  # The version and flags of a vvcC box.
    head = record[:VVC_MAX_HEAD_BYTES]
    reader = BitReader(head)
    reader.skip(7)
    if reader.flag():
        reader.skip(9)
        sublayers = reader.bits(3)
        reader.skip(2)
        config.chroma = CHROMA[reader.bits(2)]
        config.bit_depth = 8 + reader.bits(3)
        reader.skip(5)
        _read_vvc_profile_record(config, reader, sublayers)
        config.set_size(reader.bits(16), reader.bits(16))
        config.set_fps(reader.bits(16), 256)
    at = len(head) - reader.left // 8
    _read_vvc_sps(config, unescaped(find_nal_unit(record, at, VVC_SPS, type_bits=5, alone=(VVC_OPI, VVC_DCI))[2:]))


def _read_vvc_profile_record(config: VideoConfig, reader: BitReader, sublayers: int) -> None:
    """VvcPTLRecord: 2 reserved, bytes of constraints (6), profile (7), tier (1), level (8), constraints, sublayers."""
    reader.skip(2)
    size = reader.bits(6)
    profile, high_tier, level = reader.bits(7), reader.flag(), reader.bits(8)
    _set_vvc_profile(
        config, profile, level, high_tier=high_tier, constraints=reader.bits(8 * size).to_bytes(size, "big")
    )
    if sublayers > 1:
        present = sum(reader.flag() for _ in range(sublayers - 1))
        reader.skip(9 - sublayers)
        reader.skip(8 * present)
    reader.skip(32 * reader.bits(8))


def _set_vvc_profile(
    config: VideoConfig, profile: int, level: int, *, high_tier: bool, constraints: bytes = b""
) -> None:
    """The string is 14496-15's, annex E.6. `constraints` begin with the flags for frames only and for more layers."""
    tier = "H" if high_tier else "L"
    config.codec_string = f"vvc1.{profile}.{tier}{level}"
    if flags := constraints.rstrip(b"\0"):
        config.codec_string += ".C" + b32encode(flags).decode().rstrip("=")
    config.profile = VVC_PROFILES.get(profile, f"profile {profile}")
    config.level = f"{level // 16}.{level % 16 // 3}"


def _read_vvc_sps(config: VideoConfig, reader: BitReader) -> None:
    reader.skip(8)  # Ids of this set and of the video's.
    sublayers = reader.bits(3)
    chroma = reader.bits(2)
    config.chroma = CHROMA[chroma]
    reader.skip(2)
    if reader.flag():
        _read_vvc_profile_tier_level(config, reader, sublayers)
    reader.skip(1)
    if reader.flag():  # Reference pictures may be of other sizes.
        reader.skip(1)
    _read_size(config, reader, chroma)
    if not reader.flag():  # With subpictures, their places would come first.
        config.bit_depth = 8 + reader.at_most(8)


def _read_vvc_profile_tier_level(config: VideoConfig, reader: BitReader, sublayers: int) -> None:
    """profile_tier_level(1, sublayers) (7.3.3.1)."""
    profile, high_tier, level = reader.bits(7), reader.flag(), reader.bits(8)
    if config.codec_string is None:
        _set_vvc_profile(config, profile, level, high_tier=high_tier)
    reader.skip(2)
    if reader.flag():
        reader.skip(VVC_CONSTRAINT_BITS)
        reader.skip(reader.bits(8))
    reader.align()
    present = sum(reader.flag() for _ in range(sublayers))
    reader.align()
    reader.skip(8 * present)
    reader.skip(32 * reader.bits(8))
