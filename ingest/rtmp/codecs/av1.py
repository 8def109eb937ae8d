"""AV1: AV1CodecConfigurationRecord (AV1 in ISO base media files, 2.3.3), the video descriptor of MPEG-2 transport
streams, which begins alike, and the sequence header (AV1, 5.5)."""

from typing import Final

from ingest.rtmp.codecs.bits import BitReader, leb128
from ingest.rtmp.codecs.config import VideoConfig

MARKER: Final = 0x81
"""marker and version of a record."""
DESCRIPTOR: Final = 0x80
"""descriptor_tag of MPEG-2 TS; its length follows, then what a record has."""

SEQUENCE_HEADER: Final = 1
"""obu_type."""
MAX_OBUS: Final = 16
"""That are looked through for a sequence header. It stands first, or after a temporal delimiter."""
MAX_SEQUENCE_BYTES: Final = 512
"""With timing for 32 operating points it has under 400."""

PROFILES: Final = {0: "Main", 1: "High", 2: "Professional"}
SRGB: Final = (1, 13, 0)
"""Primaries, transfer and matrix that mean 4:4:4."""


def read_record(config: VideoConfig, record: bytes) -> None:
    """marker and version (8 bits), profile (3), level (5), tier, over 8 bits, 12 bits, monochrome, subsampling across,
    down (1 each), 10 more; then OBUs."""
    if record[:1] == bytes((DESCRIPTOR,)):
        record = record[2:]
    reader = BitReader(record[:4])
    if reader.bits(8) != MARKER:
        raise ValueError("no configuration record of version 1")
    profile, level, high_tier = reader.bits(3), reader.bits(5), reader.flag()
    over_8, twelve, mono, across, down = (reader.flag() for _ in range(5))
    config.bit_depth = 12 if over_8 and twelve else 10 if over_8 else 8
    config.chroma = _chroma(mono=mono, across=across, down=down)
    _set_profile(config, profile, level, high_tier=high_tier)
    read_units(config, record[4:])


def read_units(config: VideoConfig, data: bytes) -> None:
    """A run of OBUs (5.3): a record's, or a frame's, which holds a sequence header where a keyframe begins."""
    at = 0
    for _ in range(MAX_OBUS):
        if at >= len(data):
            return
        header = data[at]
        at += 2 if header & 4 else 1  # With an extension.
        size, at = leb128(data, at) if header & 2 else (len(data) - at, at)
        if header >> 3 & 15 == SEQUENCE_HEADER:
            _read_sequence(config, BitReader(data[at : at + min(size, MAX_SEQUENCE_BYTES)]))
            return
        at += size


def _set_profile(config: VideoConfig, profile: int, level: int, *, high_tier: bool) -> None:
    """The string is that of AV1 in ISO base media files, section 5."""
    tier = "H" if high_tier else "M"
    config.codec_string = f"av01.{profile}.{level:02d}{tier}.{config.bit_depth or 8:02d}"
    config.profile = PROFILES.get(profile, f"profile {profile}")
    config.level = "any" if level == 31 else f"{2 + (level >> 2)}.{level & 3}"


def _chroma(*, mono: bool, across: bool, down: bool) -> str:
    if mono:
        return "4:0:0"
    return {(True, True): "4:2:0", (True, False): "4:2:2", (False, False): "4:4:4"}.get((across, down), "4:4:0")


def _read_sequence(config: VideoConfig, reader: BitReader) -> None:
    """sequence_header_obu() (5.5.1)."""
    profile = reader.bits(3)
    reader.skip(1)
    is_reduced = reader.flag()
    level, high_tier = (reader.bits(5), False) if is_reduced else _read_operation(config, reader)
    width_bits, height_bits = reader.bits(4) + 1, reader.bits(4) + 1
    config.set_size(reader.bits(width_bits) + 1, reader.bits(height_bits) + 1)
    if not is_reduced and reader.flag():  # Frame ids.
        reader.skip(7)
    reader.skip(3)
    if not is_reduced:
        _skip_tools(reader)
    reader.skip(3)
    _read_colour(config, reader, profile)
    _set_profile(config, profile, level, high_tier=high_tier)


def _read_operation(config: VideoConfig, reader: BitReader) -> tuple[int, bool]:
    """Timing and operating points: level and tier of the first."""
    delay_bits = 0
    has_model = False
    if reader.flag():
        ticks, scale = reader.bits(32), reader.bits(32)
        if reader.flag():  # Each picture takes as long.
            config.set_fps(scale, ticks * (reader.unsigned() + 1))
        has_model = reader.flag()
        if has_model:
            delay_bits = reader.bits(5) + 1
            reader.skip(42)
    has_display_delay = reader.flag()
    points = [
        _read_point(reader, delay_bits if has_model else None, has_display_delay=has_display_delay)
        for _ in range(reader.bits(5) + 1)
    ]
    return points[0]


def _read_point(reader: BitReader, delay_bits: int | None, *, has_display_delay: bool) -> tuple[int, bool]:
    """One operating point; `delay_bits` where there is a decoder model."""
    reader.skip(12)
    level = reader.bits(5)
    high_tier = level > 7 and reader.flag()
    if delay_bits is not None and reader.flag():
        reader.skip(2 * delay_bits + 1)
    if has_display_delay and reader.flag():
        reader.skip(4)
    return level, high_tier


def _skip_tools(reader: BitReader) -> None:
    """From enable_interintra_compound to order_hint_bits_minus_1."""
    reader.skip(4)
    has_order_hint = reader.flag()
    if has_order_hint:
        reader.skip(2)
    is_screen_content = reader.flag() or reader.flag()  # Chosen for each frame, or else forced on or off.
    if is_screen_content and not reader.flag():
        reader.skip(1)
    if has_order_hint:
        reader.skip(3)


def _read_colour(config: VideoConfig, reader: BitReader, profile: int) -> None:
    """color_config() (5.5.2)."""
    over_8 = reader.flag()
    twelve = over_8 and profile == 2 and reader.flag()
    config.bit_depth = 12 if twelve else 10 if over_8 else 8
    mono = profile != 1 and reader.flag()
    described = (reader.bits(8), reader.bits(8), reader.bits(8)) if reader.flag() else None
    across, down = profile != 1, profile != 1
    if mono or described != SRGB:
        reader.skip(1)  # The range.
        if not mono and profile == 2:
            across = reader.flag() if twelve else True
            down = reader.flag() if twelve and across else False
    else:
        across = down = False
    config.chroma = _chroma(mono=mono, across=across, down=down)
