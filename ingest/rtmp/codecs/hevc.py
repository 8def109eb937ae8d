"""H.265: HEVCDecoderConfigurationRecord (ISO/IEC 14496-15, 8.3.3.1) and its sequence parameter set (H.265, 7.3.2.2)."""

from typing import Final

from ingest.rtmp.codecs.bits import BitReader
from ingest.rtmp.codecs.config import CHROMA, VideoConfig
from ingest.rtmp.codecs.nal import CROP_UNITS, find_unit, read_vui_start, unescaped

SPS: Final = 33
"""nal_unit_type."""

ARRAYS: Final = 22
"""Where the record's count of arrays stands."""

PROFILES: Final = {
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
SPACES: Final = ("", "A", "B", "C")


def read_record(config: VideoConfig, record: bytes) -> None:
    """Byte 1: profile space (2 bits), tier (1), profile (5). Then compatibility (4 bytes), constraints (6), level (1),
    and from byte 16 on: chroma format, depth of luma and of chroma (low bits), frames in 256 seconds (2 bytes)."""
    if len(record) < ARRAYS:
        raise ValueError("the record ends too early")
    _set_profile(config, record[1:13])
    config.chroma = CHROMA[record[16] & 3]
    config.bit_depth = 8 + (record[17] & 7)
    config.set_fps(int.from_bytes(record[19:21], "big"), 256)
    _read_sps(config, unescaped(find_unit(record, ARRAYS, SPS, type_bits=6)[2:]))


def _set_profile(config: VideoConfig, given: bytes) -> None:
    """`given`: general_profile_space to general_level_idc, 12 bytes. The string is 14496-15's, annex E.3."""
    space, high_tier, profile, level = given[0] >> 6, given[0] & 0x20, given[0] & 31, given[11]
    compatibility = int(f"{int.from_bytes(given[1:5], 'big'):032b}"[::-1], 2)
    constraints = "".join(f".{byte:X}" for byte in given[5:11].rstrip(b"\0"))
    tier = "H" if high_tier else "L"
    config.codec_string = f"hvc1.{SPACES[space]}{profile}.{compatibility:X}.{tier}{level}{constraints}"
    config.profile = PROFILES.get(profile, f"profile {profile}")
    config.level = f"{level // 30}.{level % 30 // 3}"


def _read_sps(config: VideoConfig, reader: BitReader) -> None:
    reader.skip(4)
    sub_layers = reader.bits(3)
    reader.skip(1)
    _skip_profile_tier_level(reader, sub_layers)
    reader.unsigned()  # Its id.
    chroma = reader.at_most(3)
    if chroma == 3:
        reader.skip(1)
    width, height = reader.unsigned(), reader.unsigned()
    if reader.flag():
        left, right, top, bottom = (reader.unsigned() for _ in range(4))
        unit_x, unit_y = CROP_UNITS[chroma]
        width, height = width - unit_x * (left + right), height - unit_y * (top + bottom)
    config.set_size(width, height)
    config.chroma = CHROMA[chroma]
    config.bit_depth = 8 + reader.at_most(8)
    _skip_to_vui(reader, sub_layers)
    if reader.flag():
        _read_vui(config, reader)


def _skip_profile_tier_level(reader: BitReader, sub_layers: int) -> None:
    """profile_tier_level(1, sub_layers) (7.3.3)."""
    reader.skip(96)
    present = [(reader.flag(), reader.flag()) for _ in range(sub_layers)]
    if sub_layers:
        reader.skip(2 * (8 - sub_layers))
    for profile, level in present:
        reader.skip(88 * profile + 8 * level)


def _skip_to_vui(reader: BitReader, sub_layers: int) -> None:
    """From bit_depth_chroma_minus8 to before vui_parameters_present_flag."""
    reader.unsigned()
    order_bits = reader.at_most(12) + 4
    all_layers = reader.flag()
    for _ in range(3 * (sub_layers + 1 if all_layers else 1)):
        reader.unsigned()
    for _ in range(6):  # Sizes of blocks, depths of their trees.
        reader.unsigned()
    if reader.flag() and reader.flag():
        _skip_scaling_lists(reader)
    reader.skip(2)
    if reader.flag():  # Pulse code modulation.
        reader.skip(8)
        reader.unsigned()
        reader.unsigned()
        reader.skip(1)
    pictures = 0
    for index in range(reader.at_most(64)):
        pictures = _skip_reference_set(reader, index, pictures)
    if reader.flag():
        for _ in range(reader.at_most(32)):
            reader.skip(order_bits + 1)
    reader.skip(2)


def _skip_scaling_lists(reader: BitReader) -> None:
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


def _skip_reference_set(reader: BitReader, index: int, pictures: int) -> int:
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


def _read_vui(config: VideoConfig, reader: BitReader) -> None:
    """vui_parameters() (E.2.1) as far as their timing."""
    config.sample_aspect = read_vui_start(reader)
    reader.skip(3)
    if reader.flag():  # Default display window.
        for _ in range(4):
            reader.unsigned()
    if reader.flag():
        tick, scale = reader.bits(32), reader.bits(32)
        config.set_fps(scale, tick)
