"""What the sequence headers say: resolution and profile, sample rate and channels (contracts.MediaInfo).

Headers come from a peer. One that can't be read gives the codec alone; nothing here raises.
"""

from contextlib import suppress
from typing import Final

from ingest.contracts import MediaInfo
from ingest.live.bits import BitReader
from ingest.live.media import AAC, EX_AUDIO, Tag

MAX_SPS_BYTES: Final = 1024
"""Of a sequence parameter set; real ones have under 100 bytes."""

MAX_AUDIO_HEADER_BYTES: Final = 64
"""Where the figures are read from."""

PROFILES: Final = {
    44: "CAVLC 4:4:4",
    66: "Baseline",
    77: "Main",
    88: "Extended",
    100: "High",
    110: "High 10",
    118: "Multiview High",
    122: "High 4:2:2",
    128: "Stereo High",
    244: "High 4:4:4",
}
CHROMA_PROFILES: Final = (44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244)
"""Profiles whose parameter sets tell the chroma format (H.264, 7.3.2.1.1)."""

CROP_UNITS: Final = {0: (1, 1), 1: (2, 2), 2: (2, 1), 3: (1, 1)}
"""Samples across and down that one unit of cropping stands for, by chroma format (H.264, table 6-1)."""

AAC_RATES: Final = (96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350)
AAC_CHANNELS: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 8, 11: 7, 12: 8, 14: 8}
AAC_NAMES: Final = {1: "AAC Main", 2: "AAC-LC", 3: "AAC SSR", 4: "AAC LTP", 5: "HE-AAC", 29: "HE-AACv2", 42: "xHE-AAC"}
ESCAPE, SBR, PS = 31, 5, 29
"""Audio object types of ISO/IEC 14496-3: one that says it follows, spectral band replication, parametric stereo."""

FLV_RATES: Final = (5512, 11025, 22050, 44100)
FIXED_RATES: Final = {4: 16000, 5: 8000, 7: 8000, 8: 8000, 11: 16000, 14: 8000}
"""FLV sound formats whose rate field says nothing (annex E.4.2.1)."""


def describe_video(tag: Tag, payload: bytes) -> MediaInfo:
    """From a video sequence header, or from a frame of a codec that has none."""
    info = MediaInfo(video_codec=tag.codec)
    if tag.is_sequence_start and tag.codec == "H.264":
        with suppress(ValueError, IndexError):
            info.update(_avc(payload[tag.body : tag.body + MAX_SPS_BYTES]))
    return info


def describe_audio(tag: Tag, payload: bytes) -> MediaInfo:
    """From an audio sequence header, or from a frame of a codec that has none."""
    info = MediaInfo(audio_codec=tag.codec)
    if tag.is_sequence_start:
        read = AUDIO_HEADERS.get(tag.codec)
        if read:
            with suppress(ValueError, IndexError):
                info.update(read(payload[tag.body : tag.body + MAX_AUDIO_HEADER_BYTES]))
    elif payload and payload[0] >> 4 not in (AAC, EX_AUDIO):
        first = payload[0]
        info["sample_rate"] = FIXED_RATES.get(first >> 4, FLV_RATES[first >> 2 & 3])
        info["channels"] = 1 + (first & 1)
    return info


def _avc(record: bytes) -> MediaInfo:
    """AVCDecoderConfigurationRecord (ISO/IEC 14496-15, 5.2.4.1): its first sequence parameter set.

    version, profile, compatibility, level, length size (1 byte each), number of sets (low 5 bits), size (2), set
    """
    size = int.from_bytes(record[6:8], "big")
    if record[5] & 31 == 0 or record[8] & 31 != 7:
        raise ValueError("no sequence parameter set")
    return _sps(record[9 : 8 + size].replace(b"\0\0\3", b"\0\0"))


def _sps(data: bytes) -> MediaInfo:
    """seq_parameter_set_data() (H.264, 7.3.2.1.1), after the NAL unit's header and without emulation prevention."""
    reader = BitReader(data)
    profile, constraints, level = reader.bits(8), reader.bits(8), reader.bits(8)
    reader.unsigned()  # Its id.
    chroma = 1
    if profile in CHROMA_PROFILES:
        chroma = reader.unsigned()
        if chroma == 3:
            reader.bits(1)
        reader.unsigned()  # Bit depths.
        reader.unsigned()
        reader.bits(1)
        if reader.bits(1):
            for index in range(12 if chroma == 3 else 8):
                if reader.bits(1):
                    _skip_scaling_list(reader, 16 if index < 6 else 64)
    reader.unsigned()  # log2_max_frame_num_minus4
    order = reader.unsigned()
    if order == 0:
        reader.unsigned()
    elif order == 1:
        reader.bits(1)
        reader.signed()
        reader.signed()
        for _ in range(min(reader.unsigned(), 255)):
            reader.signed()
    reader.unsigned()  # max_num_ref_frames
    reader.bits(1)
    across, down = reader.unsigned() + 1, reader.unsigned() + 1
    fields = 2 - reader.bits(1)  # 2 where pictures may be coded as fields.
    if fields == 2:
        reader.bits(1)
    reader.bits(1)
    left = right = top = bottom = 0
    if reader.bits(1):
        left, right, top, bottom = (reader.unsigned() for _ in range(4))
    unit_x, unit_y = CROP_UNITS.get(chroma, (1, 1))
    width = across * 16 - unit_x * (left + right)
    height = down * 16 * fields - unit_y * fields * (top + bottom)
    info = MediaInfo(profile=_profile(profile, constraints, level))
    if 0 < width <= 16384 and 0 < height <= 16384:
        info["width"], info["height"] = width, height
    return info


def _skip_scaling_list(reader: BitReader, size: int) -> None:
    """scaling_list() (H.264, 7.3.2.1.1.1): a difference each, until the scale becomes 0."""
    scale = 8
    for _ in range(size):
        scale = (scale + reader.signed()) % 256
        if scale == 0:
            return


def _profile(profile: int, constraints: int, level: int) -> str:
    """As encoders name it: "High 4.1"."""
    name = PROFILES.get(profile, f"profile {profile}")
    if profile == 66 and constraints & 0x40:
        name = "Constrained Baseline"
    if level == 9 or (level == 11 and profile in (66, 77, 88) and constraints & 0x10):
        return f"{name} 1b"
    return f"{name} {level // 10}.{level % 10}"


def _aac(config: bytes) -> MediaInfo:
    """AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1): object type, sampling frequency, channel configuration."""
    reader = BitReader(config)
    kind = _object_type(reader)
    rate = _frequency(reader)
    channels = AAC_CHANNELS.get(reader.bits(4))
    if kind in (SBR, PS):
        rate = _frequency(reader)  # What the decoder puts out.
        channels = 2 if kind == PS else channels
    info = MediaInfo(sample_rate=rate, audio_codec=AAC_NAMES.get(kind, "AAC"))
    if channels is not None:
        info["channels"] = channels
    return info


def _object_type(reader: BitReader) -> int:
    kind = reader.bits(5)
    return 32 + reader.bits(6) if kind == ESCAPE else kind


def _frequency(reader: BitReader) -> int:
    index = reader.bits(4)
    return reader.bits(24) if index == 15 else AAC_RATES[index]


def _opus(head: bytes) -> MediaInfo:
    """OpusHead (RFC 7845, section 5.1): channels at byte 9. Decoders put out 48 kHz whatever the input was."""
    if not head.startswith(b"OpusHead"):
        raise ValueError("no OpusHead")
    return MediaInfo(sample_rate=48000, channels=head[9])


def _flac(header: bytes) -> MediaInfo:
    """STREAMINFO (RFC 9639, section 8.2): sample rate (20 bits) and channels - 1 (3) from byte 10 on.

    Enhanced RTMP puts "fLaC" and a block header (4 bytes) before it; FFmpeg sends it bare.
    """
    start = 8 if header.startswith(b"fLaC") else 0
    field = int.from_bytes(header[start + 10 : start + 13], "big")
    if len(header) < start + 13:
        raise ValueError("STREAMINFO is cut off")
    return MediaInfo(sample_rate=field >> 4, channels=(field >> 1 & 7) + 1)


AUDIO_HEADERS: Final = {"AAC": _aac, "Opus": _opus, "FLAC": _flac}
