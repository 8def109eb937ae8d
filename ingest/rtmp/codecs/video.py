"""Video beside H.26x:

- AV1: AV1CodecConfigurationRecord (AV1 in ISO base media files, 2.3.3), the video descriptor of MPEG-2 transport
streams, which begins alike, and the sequence header (AV1, 5.5)
- VP8 and VP9: VPCodecConfigurationRecord (VP codecs in ISO base media files), and the headers of key frames, which
alone tell the resolution (RFC 6386, 9.1; VP9 bitstream, 6.2 and 7.2)
- Sorenson H.263 and Screen video, whose frames tell their size (FLV 10.1, annex E.4.3.2 and Screen video's own)"""

from typing import Final

from ingest.rtmp.codecs.bitstream import BitReader, leb128
from ingest.rtmp.codecs.config import VideoConfig

SUBSAMPLED: Final = {(True, True): "4:2:0", (True, False): "4:2:2", (False, True): "4:4:0", (False, False): "4:4:4"}
"""Chroma, by whether it is subsampled across and down."""

AV1_MARKER: Final = 0x81
"""marker and version of a record."""
AV1_DESCRIPTOR: Final = 0x80
"""descriptor_tag of MPEG-2 TS; its length follows, then what a record has."""

AV1_SEQUENCE_HEADER: Final = 1
AV1_MAX_OBUS: Final = 16
"""That are searched for a sequence header. It stands first, or after a temporal delimiter."""
AV1_MAX_SEQUENCE_BYTES: Final = 512
"""With timing for 32 operating points it has under 400."""

AV1_PROFILES: Final = {0: "Main", 1: "High", 2: "Professional"}
AV1_SRGB: Final = (1, 13, 0)
"""Primaries, transfer and matrix that mean 4:4:4."""


def read_av1_record(config: VideoConfig, record: bytes) -> None:
    """marker and version (8 bits), profile (3), level (5), tier, over 8 bits, 12 bits, monochrome, subsampling across,
    down (1 each), 10 more; then OBUs."""
    if record[:1] == bytes((AV1_DESCRIPTOR,)):
        record = record[2:]
    reader = BitReader(record[:4])
    if reader.bits(8) != AV1_MARKER:
        raise ValueError("no configuration record of version 1")
    profile, level, high_tier = reader.bits(3), reader.bits(5), reader.flag()
    over_8, twelve, mono, across, down = (reader.flag() for _ in range(5))
    config.bit_depth = 12 if over_8 and twelve else 10 if over_8 else 8
    config.chroma = _av1_chroma(mono=mono, across=across, down=down)
    _set_av1_profile(config, profile, level, high_tier=high_tier)
    read_av1_units(config, record[4:])


def read_av1_units(config: VideoConfig, data: bytes) -> None:
    """A run of OBUs (5.3): a record's, or a frame's, which holds a sequence header where a keyframe begins."""
    at = 0
    for _ in range(AV1_MAX_OBUS):
        if at >= len(data):
            return
        header = data[at]
        at += 2 if header & 4 else 1  # With an extension.
        size, at = leb128(data, at) if header & 2 else (len(data) - at, at)
        if header >> 3 & 15 == AV1_SEQUENCE_HEADER:
            _read_av1_sequence(config, BitReader(data[at : at + min(size, AV1_MAX_SEQUENCE_BYTES)]))
            return
        at += size


def _set_av1_profile(config: VideoConfig, profile: int, level: int, *, high_tier: bool) -> None:
    """The string is that of AV1 in ISO base media files, section 5."""
    tier = "H" if high_tier else "M"
    config.codec_string = f"av01.{profile}.{level:02d}{tier}.{config.bit_depth or 8:02d}"
    config.profile = AV1_PROFILES.get(profile, f"profile {profile}")
    config.level = "any" if level == 31 else f"{2 + (level >> 2)}.{level & 3}"


def _av1_chroma(*, mono: bool, across: bool, down: bool) -> str:
    return "4:0:0" if mono else SUBSAMPLED[across, down]


def _read_av1_sequence(config: VideoConfig, reader: BitReader) -> None:
    """sequence_header_obu() (5.5.1)."""
    profile = reader.bits(3)
    reader.skip(1)
    is_reduced = reader.flag()
    level, high_tier = (reader.bits(5), False) if is_reduced else _read_av1_operation(config, reader)
    width_bits, height_bits = reader.bits(4) + 1, reader.bits(4) + 1
    config.set_size(reader.bits(width_bits) + 1, reader.bits(height_bits) + 1)
    if not is_reduced and reader.flag():  # Frame ids.
        reader.skip(7)
    reader.skip(3)
    if not is_reduced:
        _skip_av1_tools(reader)
    reader.skip(3)
    _read_av1_colour(config, reader, profile)
    _set_av1_profile(config, profile, level, high_tier=high_tier)


def _read_av1_operation(config: VideoConfig, reader: BitReader) -> tuple[int, bool]:
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
        _read_av1_point(reader, delay_bits if has_model else None, has_display_delay=has_display_delay)
        for _ in range(reader.bits(5) + 1)
    ]
    return points[0]


def _read_av1_point(reader: BitReader, delay_bits: int | None, *, has_display_delay: bool) -> tuple[int, bool]:
    """One operating point; `delay_bits` where there is a decoder model."""
    reader.skip(12)
    level = reader.bits(5)
    high_tier = level > 7 and reader.flag()
    if delay_bits is not None and reader.flag():
        reader.skip(2 * delay_bits + 1)
    if has_display_delay and reader.flag():
        reader.skip(4)
    return level, high_tier


def _skip_av1_tools(reader: BitReader) -> None:
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


def _read_av1_colour(config: VideoConfig, reader: BitReader, profile: int) -> None:
    """color_config() (5.5.2)."""
    over_8 = reader.flag()
    twelve = over_8 and profile == 2 and reader.flag()
    config.bit_depth = 12 if twelve else 10 if over_8 else 8
    mono = profile != 1 and reader.flag()
    described = (reader.bits(8), reader.bits(8), reader.bits(8)) if reader.flag() else None
    across, down = profile != 1, profile != 1
    if mono or described != AV1_SRGB:
        reader.skip(1)  # The range.
        if not mono and profile == 2:
            across = reader.flag() if twelve else True
            down = reader.flag() if twelve and across else False
    else:
        across = down = False
    config.chroma = _av1_chroma(mono=mono, across=across, down=down)


VPX_RECORD_BYTES: Final = 8
VPX_NO_FLAGS: Final = b"\0\0\0"
"""Of a vpcC box, whose version and flags FFmpeg sends before the record. A record has its depth there."""
VPX_DEPTHS: Final = (8, 10, 12)

VP9_HEADER_BYTES: Final = 16
"""Within which a key frame tells its size."""

VP8_START: Final = b"\x9d\x01\x2a"
VP9_SYNC: Final = 0x498342
VP9_RGB: Final = 7

VPX_CHROMA: Final = {0: "4:2:0", 1: "4:2:0", 2: "4:2:2", 3: "4:4:4", 4: "4:4:0"}
"""chromaSubsampling of a record: 0 and 1 differ in where the samples lie."""


VPX_FOURCC: Final = {"VP8": "vp08", "VP9": "vp09"}


def read_vpx_record(config: VideoConfig, record: bytes) -> None:
    """profile, level (1 byte each), depth (4 bits), chroma (3), range (1), primaries, transfer, matrix (1 each)."""
    if record[1:4] == VPX_NO_FLAGS:
        record = record[4:]
    if len(record) < VPX_RECORD_BYTES or record[2] >> 4 not in VPX_DEPTHS:
        raise ValueError("no such record")
    profile, level, depth = record[0], record[1], record[2] >> 4
    config.codec_string = f"{VPX_FOURCC[config.codec]}.{profile:02d}.{level:02d}.{depth:02d}"
    config.profile = f"Profile {profile}"
    config.level = f"{level // 10}.{level % 10}" if level else None
    config.bit_depth = depth
    config.chroma = VPX_CHROMA.get(record[2] >> 1 & 7)


def read_vp8_frame(config: VideoConfig, frame: bytes) -> None:
    """Frame tag (3 bytes, little endian, lowest bit 0 in key frames), start code (3), width, height (14 bits of 2)."""
    if len(frame) < 10 or frame[0] & 1 or frame[3:6] != VP8_START:
        raise ValueError("no key frame")
    config.bit_depth, config.chroma = 8, "4:2:0"
    config.set_size(*(int.from_bytes(frame[at : at + 2], "little") & 0x3FFF for at in (6, 8)))


def read_vp9_frame(config: VideoConfig, frame: bytes) -> None:
    """uncompressed_header() of a key frame, as far as its size."""
    reader = BitReader(frame[:VP9_HEADER_BYTES])
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
    is_rgb = reader.bits(3) == VP9_RGB
    if not is_rgb:
        reader.skip(1)  # The range.
    config.chroma = "4:4:4" if is_rgb else "4:2:0"
    if profile & 1:
        if not is_rgb:
            config.chroma = SUBSAMPLED[reader.flag(), reader.flag()]
        reader.skip(1)
    config.set_size(reader.bits(16) + 1, reader.bits(16) + 1)


H263_HEADER_BYTES: Final = 12
H263_SIZES: Final = {2: (352, 288), 3: (176, 144), 4: (128, 96), 5: (320, 240), 6: (160, 120)}
"""PictureSize; with 0 and 1 width and height follow, of 8 and of 16 bits."""


def read_h263_frame(config: VideoConfig, frame: bytes) -> None:
    """start code (17 bits, the last one 1), version (5), time (8), size (3) [width, height]."""
    reader = BitReader(frame[:H263_HEADER_BYTES])
    if reader.bits(17) != 1:
        raise ValueError("no start code")
    reader.skip(13)
    config.bit_depth, config.chroma = 8, "4:2:0"
    size = reader.bits(3)
    if size in H263_SIZES:
        config.set_size(*H263_SIZES[size])
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
