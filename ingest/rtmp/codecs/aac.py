"""AAC: AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1), with spectral band replication (SBR) and parametric stereo (PS)
told in front, or behind for decoders that don't know them."""

from typing import Final

from ingest.rtmp.codecs.bits import BitReader
from ingest.rtmp.codecs.config import AudioConfig

MAX_CONFIG_BYTES: Final = 512
"""A program config element with the longest comment has under 400."""

RATES: Final = (96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350)
CHANNELS: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 8, 11: 7, 12: 8, 13: 24, 14: 8}
"""channelConfiguration; 0 stands for a program config element."""

LC, SBR, PS, ESCAPE = 2, 5, 29, 31
"""Audio object types; the last says that a longer one follows."""
NAMES: Final = {1: "AAC Main", 2: "AAC-LC", 3: "AAC SSR", 4: "AAC LTP", 5: "HE-AAC", 29: "HE-AACv2", 42: "xHE-AAC"}
SCALABLE: Final = (6, 20)
ER_TYPES: Final = (17, 19, 20, 23)
"""Error resilient ones, with flags of their own."""
GENERAL: Final = (1, 2, 3, 4, 6, 7, 17, 19, 20, 21, 22, 23)
"""Types whose configuration is GASpecificConfig()."""
BSAC: Final = 22

SBR_SYNC, PS_SYNC = 0x2B7, 0x548
"""syncExtensionType, 11 bits each."""


def read_config(config: AudioConfig, data: bytes) -> None:
    reader = BitReader(data[:MAX_CONFIG_BYTES])
    kind = _read_type(reader)
    _set_type(config, kind)
    rate = _read_rate(reader)
    layout = reader.bits(4)
    channels = CHANNELS.get(layout, 0)
    core = kind
    if kind in (SBR, PS):
        rate = _read_rate(reader)  # What the decoder puts out.
        channels = 2 if kind == PS else channels
        core = _read_type(reader)
        if core == BSAC:
            reader.skip(4)
    config.set_rate(rate)
    config.set_channels(channels)
    if core not in GENERAL:
        return
    elements = _read_general(reader, core, layout)
    config.set_channels(elements if elements and kind != PS else channels)
    if kind not in (SBR, PS):
        _read_extension(config, reader)


def _set_type(config: AudioConfig, kind: int) -> None:
    """The string is RFC 6381's, 3.3: mp4a, MPEG-4 audio (0x40), the object type."""
    config.codec_string = f"mp4a.40.{kind}"
    config.profile = NAMES.get(kind)


def _read_type(reader: BitReader) -> int:
    kind = reader.bits(5)
    return 32 + reader.bits(6) if kind == ESCAPE else kind


def _read_rate(reader: BitReader) -> int:
    index = reader.bits(4)
    if index == 15:
        return reader.bits(24)
    if index >= len(RATES):
        raise ValueError("a reserved sampling frequency")
    return RATES[index]


def _read_general(reader: BitReader, kind: int, layout: int) -> int:
    """GASpecificConfig() (4.4.1): the channels of its program config element, or 0."""
    reader.skip(1)
    if reader.flag():
        reader.skip(14)
    is_extended = reader.flag()
    channels = 0 if layout else _read_elements(reader)
    if kind in SCALABLE:
        reader.skip(3)
    if is_extended:
        reader.skip(16 if kind == BSAC else 0)
        reader.skip(3 if kind in ER_TYPES else 0)
        reader.skip(1)
    return channels


def _read_elements(reader: BitReader) -> int:
    """program_config_element() (4.4.1.1): how many channels its elements have."""
    reader.skip(10)
    front, side, back, low = reader.bits(4), reader.bits(4), reader.bits(4), reader.bits(2)
    data, coupling = reader.bits(3), reader.bits(4)
    for bits in (4, 4, 3):  # Mixdowns.
        if reader.flag():
            reader.skip(bits)
    channels = low
    for _ in range(front + side + back):
        channels += 1 + reader.bits(1)
        reader.skip(4)
    reader.skip(4 * (low + data) + 5 * coupling)
    reader.align()
    reader.skip(8 * reader.bits(8))
    return channels


def _read_extension(config: AudioConfig, reader: BitReader) -> None:
    """What is told behind, where older decoders don't look: (1.6.6.1.1)."""
    if reader.left < 16 or reader.bits(11) != SBR_SYNC or _read_type(reader) != SBR or not reader.flag():
        return
    config.set_rate(_read_rate(reader))
    _set_type(config, SBR)
    if reader.left >= 12 and reader.bits(11) == PS_SYNC and reader.flag():
        _set_type(config, PS)
        config.set_channels(2)
