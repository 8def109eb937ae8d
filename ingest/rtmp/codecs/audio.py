"""Audio, whatever the codec: what a header or a frame tells of rate, channels and profile.

- AAC: AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1), with spectral band replication (SBR) and parametric stereo (PS)
  told in front, or behind for decoders that don't know them
- AC-3 and E-AC-3: the start of a sync frame (ETSI TS 102 366, 4.3 and E.1.2). There is no other header
- MPEG audio: a frame's header (ISO/IEC 11172-3, 2.4.1.3, and 13818-3)
- FLAC: STREAMINFO (RFC 9639, section 8.2)
- Opus: the identification header (RFC 7845, section 5.1). An empty one is allowed, and says nothing
- MultichannelConfig: which speaker each channel is for (Enhanced RTMP v2, ExAudioTagBody):
  order (8 bits) channels (8) [speaker (8) of each channel: custom order] [flags (32): native order]"""

from typing import Final

from ingest.rtmp.codecs.bitstream import BitReader
from ingest.rtmp.codecs.config import AudioConfig

AAC_MAX_CONFIG_BYTES: Final = 512
"""A program config element with the longest comment has under 400."""

AAC_RATES: Final = (96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350)
AAC_CHANNELS: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 8, 11: 7, 12: 8, 13: 24, 14: 8}
"""channelConfiguration; 0 stands for a program config element."""

LC, SBR, PS, ESCAPE = 2, 5, 29, 31
"""Audio object types; the last says that a longer one follows."""
AAC_NAMES: Final = {1: "AAC Main", 2: "AAC-LC", 3: "AAC SSR", 4: "AAC LTP", 5: "HE-AAC", 29: "HE-AACv2", 42: "xHE-AAC"}
AAC_SCALABLE: Final = (6, 20)
AAC_ER_TYPES: Final = (17, 19, 20, 23)
"""Error resilient ones, with flags of their own."""
AAC_GENERAL: Final = (1, 2, 3, 4, 6, 7, 17, 19, 20, 21, 22, 23)
BSAC: Final = 22

SBR_SYNC, PS_SYNC = 0x2B7, 0x548
"""syncExtensionType, 11 bits each."""


def read_aac_config(config: AudioConfig, data: bytes) -> None:
    reader = BitReader(data[:AAC_MAX_CONFIG_BYTES])
    kind = _read_aac_type(reader)
    _set_aac_type(config, kind)
    rate = _read_aac_rate(reader)
    layout = reader.bits(4)
    channels = AAC_CHANNELS.get(layout, 0)
    core = kind
    if kind in (SBR, PS):
        rate = _read_aac_rate(reader)  # What the decoder puts out.
        channels = 2 if kind == PS else channels
        core = _read_aac_type(reader)
        if core == BSAC:
            reader.skip(4)
    config.set_rate(rate)
    config.set_channels(channels)
    if core not in AAC_GENERAL:
        return
    elements = _read_aac_general(reader, core, layout)
    config.set_channels(elements if elements and kind != PS else channels)
    if kind not in (SBR, PS):
        _read_aac_extension(config, reader)


def _set_aac_type(config: AudioConfig, kind: int) -> None:
    """The string is RFC 6381's, 3.3: mp4a, MPEG-4 audio (0x40), the object type."""
    config.codec_string = f"mp4a.40.{kind}"
    config.profile = AAC_NAMES.get(kind)


def _read_aac_type(reader: BitReader) -> int:
    kind = reader.bits(5)
    return 32 + reader.bits(6) if kind == ESCAPE else kind


def _read_aac_rate(reader: BitReader) -> int:
    index = reader.bits(4)
    if index == 15:
        return reader.bits(24)
    if index >= len(AAC_RATES):
        raise ValueError("a reserved sampling frequency")
    return AAC_RATES[index]


def _read_aac_general(reader: BitReader, kind: int, layout: int) -> int:
    """GASpecificConfig() (4.4.1): the channels of its program config element, or 0."""
    reader.skip(1)
    if reader.flag():
        reader.skip(14)
    is_extended = reader.flag()
    channels = 0 if layout else _read_aac_elements(reader)
    if kind in AAC_SCALABLE:
        reader.skip(3)
    if is_extended:
        reader.skip(16 if kind == BSAC else 0)
        reader.skip(3 if kind in AAC_ER_TYPES else 0)
        reader.skip(1)
    return channels


def _read_aac_elements(reader: BitReader) -> int:
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


def _read_aac_extension(config: AudioConfig, reader: BitReader) -> None:
    """What is told behind, where older decoders don't look: (1.6.6.1.1)."""
    if reader.left < 16 or reader.bits(11) != SBR_SYNC or _read_aac_type(reader) != SBR or not reader.flag():
        return
    config.set_rate(_read_aac_rate(reader))
    _set_aac_type(config, SBR)
    if reader.left >= 12 and reader.bits(11) == PS_SYNC and reader.flag():
        _set_aac_type(config, PS)
        config.set_channels(2)


AC3_SYNC: Final = 0x0B77
AC3_RATES: Final = (48000, 44100, 32000)
"""fscod; E-AC-3 has their halves too (fscod2)."""

AC3_HEADER_BYTES: Final = 32
"""Of a sync frame, within which all of this is told."""

FIRST_EAC3, LAST_EAC3 = 11, 16
"""bsid of E-AC-3. AC-3's own is 8 and less; 9 and 10 where the rate is a half or a quarter."""

EAC3_DEPENDENT: Final = 1
"""strmtyp of a frame that adds to the channels of those before it."""
EAC3_MAX_FRAMES: Final = 9
"""Of one message that are looked at: an independent substream and eight dependent ones."""

AC3_PLACES: Final = (
    ("L", "R"),
    ("C",),
    ("L", "R"),
    ("L", "C", "R"),
    ("L", "R", "Cs"),
    ("L", "C", "R", "Cs"),
    ("L", "R", "Ls", "Rs"),
    ("L", "C", "R", "Ls", "Rs"),
)
"""Where the channels of an acmod stand; the two programs of the first are played as left and right."""

EAC3_MAPPED: Final = (
    ("L",),
    ("C",),
    ("R",),
    ("Ls",),
    ("Rs",),
    ("Lc", "Rc"),
    ("Lrs", "Rrs"),
    ("Cs",),
    ("Ts",),
    ("Lsd", "Rsd"),
    ("Lw", "Rw"),
    ("Lvh", "Rvh"),
    ("Cvh",),
    ("Lts", "Rts"),
    ("LFE2",),
    ("LFE",),
)
"""chanmap of a dependent substream, from its first bit on (table E.1.4)."""


def read_ac3_frame(config: AudioConfig, frame: bytes) -> None:
    """The first sync frame of a message, and those that depend on it."""
    reader = BitReader(frame[:AC3_HEADER_BYTES])
    if reader.bits(16) != AC3_SYNC:
        raise ValueError("no sync word")
    # bsid stands at the same place in both.
    version = frame[5] >> 3 if len(frame) > 5 else LAST_EAC3 + 1
    if version > LAST_EAC3:
        raise ValueError("an unknown version")
    if version < FIRST_EAC3:
        _read_ac3(config, reader, version)
    else:
        _read_eac3(config, frame)


def _read_ac3(config: AudioConfig, reader: BitReader, version: int) -> None:
    """syncinfo() and bsi(): checksum (16 bits), rate (2), size (6), bsid (5), bsmod (3), acmod (3), [levels], lfeon."""
    reader.skip(16)
    rate = reader.bits(2)
    reader.skip(14)
    mode = reader.bits(3)
    if rate < len(AC3_RATES):
        config.set_rate(AC3_RATES[rate] >> max(version - 8, 0))
    if mode & 1 and mode != 1:
        reader.skip(2)
    if mode & 4:
        reader.skip(2)
    if mode == 2:
        reader.skip(2)
    config.set_channels(len(_ac3_places(mode, reader.bits(1))))


def _read_eac3(config: AudioConfig, frame: bytes) -> None:
    """Of the first program: an independent substream, then those that depend on it."""
    places: set[str] = set()
    at = 0
    for index in range(EAC3_MAX_FRAMES):
        reader = BitReader(frame[at : at + AC3_HEADER_BYTES])
        if reader.left == 0 or reader.bits(16) != AC3_SYNC:
            return
        kind = reader.bits(2)
        if index and kind != EAC3_DEPENDENT:
            return
        reader.skip(3)
        size = 2 * (reader.bits(11) + 1)
        rate = _read_eac3_rate(reader)
        mode, low = reader.bits(3), reader.bits(1)
        if not index:
            config.set_rate(rate)
        places |= _ac3_places(mode, low) if kind != EAC3_DEPENDENT else _read_eac3_mapped(reader, mode, low)
        config.set_channels(len(places))
        at += size


def _read_eac3_rate(reader: BitReader) -> int:
    """fscod (2 bits), then fscod2 or the number of blocks (2)."""
    code, second = reader.bits(2), reader.bits(2)
    if code < len(AC3_RATES):
        return AC3_RATES[code]
    return AC3_RATES[second] // 2 if second < len(AC3_RATES) else 0


def _read_eac3_mapped(reader: BitReader, mode: int, low: int) -> set[str]:
    """From bsid on: level of speech (5 bits), compression (1 [8]), twice for two programs in one; chanmap (1 [16])."""
    reader.skip(5)
    for _ in range(2 if mode == 0 else 1):
        reader.skip(5)
        if reader.flag():
            reader.skip(8)
    if not reader.flag():
        return _ac3_places(mode, low)
    bits = reader.bits(16)
    return {place for index, several in enumerate(EAC3_MAPPED) if bits >> (15 - index) & 1 for place in several}


def _ac3_places(mode: int, low: int) -> set[str]:
    return {*AC3_PLACES[mode], *(("LFE",) if low else ())}


MP3_VERSIONS: Final = {0: "MPEG-2.5", 2: "MPEG-2", 3: "MPEG-1"}
MP3_RATES: Final = {0: (11025, 12000, 8000), 2: (22050, 24000, 16000), 3: (44100, 48000, 32000)}
"""Hz by version and index."""
MP3_LAYERS: Final = {1: "III", 2: "II", 3: "I"}
MP3_MONO: Final = 3


def read_mp3_frame(config: AudioConfig, frame: bytes) -> None:
    """sync (11 bits), version (2), layer (2), no checksum (1), bit rate (4), rate (2), 2, mode (2), ..."""
    reader = BitReader(frame[:4])
    if reader.bits(11) != 0x7FF:
        raise ValueError("no sync word")
    version, layer = reader.bits(2), reader.bits(2)
    reader.skip(1)
    bit_rate, rate = reader.bits(4), reader.bits(2)
    reader.skip(2)
    if version not in MP3_RATES or layer not in MP3_LAYERS or bit_rate == 15 or rate == 3:
        raise ValueError("a reserved number")
    config.profile = f"{MP3_VERSIONS[version]} Layer {MP3_LAYERS[layer]}"
    config.set_rate(MP3_RATES[version][rate])
    config.set_channels(1 if reader.bits(2) == MP3_MONO else 2)


FLAC_MAGIC: Final = b"fLaC"
FLAC_BLOCK_HEADER_BYTES: Final = 4
FLAC_INFO_BYTES: Final = 34


def read_flac_info(config: AudioConfig, header: bytes) -> None:
    """Block and frame sizes (10 bytes), sample rate (20 bits), channels - 1 (3), bits per sample - 1 (5), ...

    Enhanced RTMP puts "fLaC" and a block header before it; FFmpeg sends it bare.
    """
    start = len(FLAC_MAGIC) + FLAC_BLOCK_HEADER_BYTES if header.startswith(FLAC_MAGIC) else 0
    reader = BitReader(header[start : start + FLAC_INFO_BYTES])
    reader.skip(80)
    config.set_rate(reader.bits(20))
    config.set_channels(reader.bits(3) + 1)
    config.bit_depth = reader.bits(5) + 1


OPUS_MAGIC: Final = b"OpusHead"
OPUS_RATE: Final = 48_000
"""Decoders put out 48 kHz whatever the input was."""


def read_opus_head(config: AudioConfig, head: bytes) -> None:
    """ "OpusHead" (8 bytes), version (1), channels (1), ..."""
    config.set_rate(OPUS_RATE)
    if head and (len(head) < 10 or not head.startswith(OPUS_MAGIC) or head[8] >> 4):
        raise ValueError("no OpusHead of version 0")
    if head:
        config.set_channels(head[9])


NATIVE_ORDER, CUSTOM_ORDER = 1, 2


def read_multichannel(config: AudioConfig, body: bytes) -> None:
    """The count alone. Other orders are unspecified (0) or reserved, and have nothing behind it."""
    size = 2 + {NATIVE_ORDER: 4, CUSTOM_ORDER: body[1]}.get(body[0], 0) if len(body) >= 2 else 2
    if len(body) < size:
        raise ValueError("the configuration ends too early")
    config.set_channels(body[1])
