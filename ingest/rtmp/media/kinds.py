"""The numbers and FourCC codes of audio and video messages, as FLV 10.1 (annex E.4) and Enhanced RTMP v2 name them."""

from enum import IntEnum
from typing import Final


class FrameType(IntEnum):
    """Of a video message; both forms share it."""

    KEYFRAME = 1
    INTER = 2
    DISPOSABLE = 3
    GENERATED_KEYFRAME = 4
    COMMAND = 5


KEYFRAMES: Final = (FrameType.KEYFRAME, FrameType.GENERATED_KEYFRAME)


class VideoCommand(IntEnum):
    """What the one byte of a command frame says."""

    START_SEEK = 0
    END_SEEK = 1


class VideoPacket(IntEnum):
    """VideoPacketType of Enhanced RTMP."""

    SEQUENCE_START = 0
    CODED_FRAMES = 1
    SEQUENCE_END = 2
    CODED_FRAMES_X = 3
    METADATA = 4
    MPEG2TS_SEQUENCE_START = 5
    MULTITRACK = 6
    MOD_EX = 7


class AudioPacket(IntEnum):
    """AudioPacketType of Enhanced RTMP."""

    SEQUENCE_START = 0
    CODED_FRAMES = 1
    SEQUENCE_END = 2
    MULTICHANNEL_CONFIG = 4
    MULTITRACK = 5
    MOD_EX = 7


class LegacyPacket(IntEnum):
    """AVCPacketType; AACPacketType has the first two."""

    SEQUENCE_START = 0
    CODED_FRAMES = 1
    SEQUENCE_END = 2


class MultitrackType(IntEnum):
    """AvMultitrackType."""

    ONE_TRACK = 0
    MANY_TRACKS = 1
    MANY_TRACKS_MANY_CODECS = 2


TIMESTAMP_OFFSET_NANO: Final = 0
"""The one type of ModEx that there is."""

EX_AUDIO: Final = 9
"""The sound format that stands for an extended audio header."""

AAC: Final = 10
MP3_8K: Final = 14

VIDEO_CODECS: Final = {2: "H.263", 3: "Screen", 4: "VP6", 5: "VP6", 6: "Screen 2", 7: "H.264", 12: "H.265", 13: "AV1"}
"""Codec ids of legacy headers. 12 and 13 stand in no specification, but encoders send them with AVC's layout."""

PACKETISED_VIDEO: Final = (7, 12, 13)
"""Codec ids with a packet type and a composition time after the first byte."""

AUDIO_CODECS: Final = {
    0: "PCM",
    1: "ADPCM",
    2: "MP3",
    3: "PCM",
    4: "Nellymoser",
    5: "Nellymoser",
    6: "Nellymoser",
    7: "G.711 A-law",
    8: "G.711 mu-law",
    10: "AAC",
    11: "Speex",
    14: "MP3",
}
"""Sound formats of legacy headers."""

VIDEO_FOURCC: Final = {
    b"avc1": "H.264",
    b"hvc1": "H.265",
    b"vvc1": "H.266",
    b"av01": "AV1",
    b"vp08": "VP8",
    b"vp09": "VP9",
}
AUDIO_FOURCC: Final = {
    b"mp4a": "AAC",
    b".mp3": "MP3",
    b"Opus": "Opus",
    b"fLaC": "FLAC",
    b"ac-3": "AC-3",
    b"ec-3": "E-AC-3",
}

NO_TRACK: Final = 256
"""More than any track id: none was seen yet."""

COMPOSITION_FOURCC: Final = (b"avc1", b"hvc1", b"vvc1")
"""Whose CodedFrames begin with a composition time."""


def codec_name(fourcc: bytes) -> str:
    """As people know it; an unknown code's own four characters, or "unknown" where they can't be shown."""
    known = VIDEO_FOURCC.get(fourcc) or AUDIO_FOURCC.get(fourcc)
    if known:
        return known
    name = fourcc.decode("ascii", "replace")
    return name if len(name) == 4 and name.isascii() and name.isprintable() else "unknown"
