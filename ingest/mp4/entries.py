"""Of each codec the sample entry: what a decoder needs to know first.

FFmpeg's muxer writes such entries too, but only of what an encoder or a demuxer of its own has opened, which decodes
it: nothing that a peer sent is decoded in a media node. Most configurations are boxes already, as FLV has them of it:

- avcC, hvcC (ISO/IEC 14496-15), av1C (AV1 in ISO base media files, 2.3), vpcC (VP codecs in ISO base media files)
- esds (ISO/IEC 14496-1, 7.2.6, and 14496-14, 3.1.2) of AAC and MP3
- dOps (Opus in ISO base media files, 4.3.2), dfLa (FLAC in ISO base media files, 3.3.2)
- dac3, dec3 (ETSI TS 102 366, annex F.4 and F.6), by the first frame: there is no other header"""

import struct
from collections.abc import Callable
from typing import Final

from ingest.isobmff import box, full_box
from ingest.mp4.frames import Configuration
from ingest.mp4.limits import Unplayable
from ingest.rtmp.codecs import AudioConfig, VideoConfig
from ingest.rtmp.codecs.bitstream import BitReader

_video: Final = struct.Struct(">6xH16xHHII4xH32xHh")
_audio: Final = struct.Struct(">6xH8xHH4xI")

DPI_72: Final = 72 << 16
COLOUR: Final = 0x18
"""Depth of a picture in colour without transparency."""


def sample_entry(configuration: Configuration) -> bytes:
    """Raises Unplayable where the configuration tells too little, or makes no sense."""
    config = configuration.config
    try:
        if isinstance(config, VideoConfig):
            return _video_entry(configuration, config)
        return _audio_entry(configuration, config)
    except (ValueError, struct.error, IndexError):
        raise Unplayable(f"Its encoder’s configuration of {configuration.codec} can’t be read.") from None


def _video_entry(configuration: Configuration, config: VideoConfig) -> bytes:
    name, make = VIDEO_ENTRIES[configuration.codec]
    fields = _video.pack(1, *shown_size(config), DPI_72, DPI_72, 1, COLOUR, -1)
    shape = b""
    if config.sample_aspect is not None and config.sample_aspect[0] != config.sample_aspect[1]:
        shape = box(b"pasp", struct.pack(">II", *config.sample_aspect))
    return box(name, fields, make(configuration.header), shape)


def shown_size(config: VideoConfig) -> tuple[int, int]:
    """Width and height in pixels. Where the header doesn't tell, any will do: decoders go by what they decode."""
    return (config.width, config.height) if config.width and config.height else USUAL_SIZE


USUAL_SIZE: Final = (1280, 720)


def _record(name: bytes, version: int) -> Callable[[bytes], bytes]:
    """A configuration that is a box's content as it is."""

    def make(header: bytes) -> bytes:
        if len(header) < 4 or header[0] != version:
            raise ValueError("no such record")
        return box(name, header)

    return make


VPX_RECORD_BYTES: Final = 8
VPX_NO_FLAGS: Final = b"\0\0\0"
VPX_USUAL: Final = bytes((0, 10, 0x82, 2, 2, 2, 0, 0))
"""Profile 0, level 1, 8 bits, 4:2:0; colours unspecified."""


def _vpcc(header: bytes) -> bytes:
    """With version and flags before the record, as FFmpeg and the specification differ in."""
    record = header[4:] if header[1:4] == VPX_NO_FLAGS else header
    is_record = len(record) >= VPX_RECORD_BYTES and record[2] >> 4 in (8, 10, 12)
    return full_box(b"vpcC", 1, 0, record if is_record and len(record) < HEADER_BYTES else VPX_USUAL)


HEADER_BYTES: Final = 64
"""A VP record has under these. A frame's beginning, which stands in its place, is as long."""

VIDEO_ENTRIES: Final[dict[str, tuple[bytes, Callable[[bytes], bytes]]]] = {
    "H.264": (b"avc1", _record(b"avcC", 1)),
    "H.265": (b"hvc1", _record(b"hvcC", 1)),
    "AV1": (b"av01", _record(b"av1C", 0x81)),
    "VP8": (b"vp08", _vpcc),
    "VP9": (b"vp09", _vpcc),
}


def _audio_entry(configuration: Configuration, config: AudioConfig) -> bytes:
    rate, channels = config.sample_rate or 0, config.channels or 2
    if not rate:
        raise ValueError("no rate")
    name, make = AUDIO_ENTRIES[configuration.codec]
    fields = _audio.pack(1, channels, config.bit_depth or 16, (rate if rate < 1 << 16 else 0) << 16)
    return box(name, fields, make(configuration.header, config))


AAC_OBJECT, MP3_OBJECT, MP3_LOW_OBJECT = 0x40, 0x6B, 0x69
"""objectTypeIndication; the last is of MPEG-2's lower rates."""
AUDIO_STREAM: Final = 0x15
"""streamType 5, audio, with the reserved bit."""
ES, DECODER, DECODER_INFO, SYNC = 3, 4, 5, 6


def _descriptor(tag: int, content: bytes) -> bytes:
    size = len(content)
    longer = (0x80 | size >> bits & 0x7F for bits in (21, 14, 7))
    return bytes((tag, *longer, size & 0x7F)) + content


def _esds(kind: int, info: bytes) -> bytes:
    """Buffer size and bitrates are 0: unknown."""
    decoder = struct.pack(">BB3xII", kind, AUDIO_STREAM, 0, 0) + (_descriptor(DECODER_INFO, info) if info else b"")
    stream = struct.pack(">HB", 0, 0) + _descriptor(DECODER, decoder) + _descriptor(SYNC, b"\2")
    return full_box(b"esds", 0, 0, _descriptor(ES, stream))


def _aac(header: bytes, _: AudioConfig) -> bytes:
    if len(header) < 2:
        raise ValueError("no configuration")
    return _esds(AAC_OBJECT, header)


def _mp3(_: bytes, config: AudioConfig) -> bytes:
    return _esds(MP3_OBJECT if (config.profile or "").startswith("MPEG-1") else MP3_LOW_OBJECT, b"")


OPUS_HEAD: Final = struct.Struct("<8sBBHIhB")
OPUS_USUAL: Final = OPUS_HEAD.pack(b"OpusHead", 1, 2, 312, 48_000, 0, 0)


def _opus(header: bytes, _: AudioConfig) -> bytes:
    """An OpusHead (RFC 7845), which has its numbers the other way round. An empty one stands for the usual."""
    head = header or OPUS_USUAL
    _, _, channels, skipped, rate, gain, family = OPUS_HEAD.unpack_from(head)
    mapping = head[OPUS_HEAD.size : OPUS_HEAD.size + 2 + channels] if family else b""
    if family and len(mapping) < 2 + channels:
        raise ValueError("the mapping is cut off")
    return box(b"dOps", struct.pack(">BBHIhB", 0, channels, skipped, rate, gain, family), mapping)


FLAC_START: Final = b"fLaC"
STREAMINFO: Final = struct.pack(">I", 0x80 << 24 | 34)
"""The header of a metadata block that is the last one, and has 34 bytes."""


def _flac(header: bytes, _: AudioConfig) -> bytes:
    info = header[8:42] if header.startswith(FLAC_START) else header[:34]
    if len(info) < 34:
        raise ValueError("no STREAMINFO")
    return full_box(b"dfLa", 0, 0, STREAMINFO, info)


def _ac3(frame: bytes, _: AudioConfig) -> bytes:
    """fscod (2 bits), bsid (5), bsmod (3), acmod (3), lfeon (1), bit_rate_code (5), 5 reserved."""
    reader = BitReader(frame[4:16])
    rate, size, version, mode, channels = (reader.bits(bits) for bits in (2, 6, 5, 3, 3))
    reader.skip(2 * (channels & 1 and channels != 1) + 2 * (channels >> 2) + 2 * (channels == 2))
    value = rate << 22 | version << 17 | mode << 14 | channels << 11 | reader.bits(1) << 10 | (size >> 1) << 5
    return box(b"dac3", value.to_bytes(3, "big"))


def _eac3(frame: bytes, config: AudioConfig) -> bytes:
    """Of one independent substream: data rate in kbit/s (13 bits), substreams - 1 (3); fscod (2), bsid (5), 1 reserved,
    asvc (1), bsmod (3), acmod (3), lfeon (1), 3 reserved, dependent substreams (4), 1 reserved."""
    reader = BitReader(frame[2:16])
    reader.skip(5)
    size = 2 * (reader.bits(11) + 1)
    rate, blocks = reader.bits(2), (1, 2, 3, 6)[reader.bits(2)]
    channels, low, version = reader.bits(3), reader.bits(1), reader.bits(5)
    kbps = min(size * 8 * (config.sample_rate or 0) // (256 * blocks * 1000), 0x1FFF)
    value = kbps << 27 | rate << 22 | version << 17 | channels << 9 | low << 8
    return box(b"dec3", value.to_bytes(5, "big"))


AUDIO_ENTRIES: Final[dict[str, tuple[bytes, Callable[[bytes, AudioConfig], bytes]]]] = {
    "AAC": (b"mp4a", _aac),
    "MP3": (b"mp4a", _mp3),
    "Opus": (b"Opus", _opus),
    "FLAC": (b"fLaC", _flac),
    "AC-3": (b"ac-3", _ac3),
    "E-AC-3": (b"ec-3", _eac3),
}
