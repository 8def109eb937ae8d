"""The numbers and FourCC codes of audio and video messages, as FLV 10.1 (annex E.4) and Enhanced RTMP v2 name them, and
AudioTagHeader and VideoTagHeader as they were before 2023 (FLV 10.1, annex E.4.2.1 and E.4.3.1):

    video   frame type (4 bits) codec (4) [command (8): command frames]
                                          [packet type (8) composition time (24, signed): AVC and alike]
    audio   format (4) rate (2) size (1) channels - 1 (1) [packet type (8): AAC]"""

from dataclasses import dataclass
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


class VideoPacket(IntEnum):
    """VideoPacketType of Enhanced RTMP; AVCPacketType has the first three."""

    SEQUENCE_START = 0
    CODED_FRAMES = 1
    SEQUENCE_END = 2
    CODED_FRAMES_X = 3
    METADATA = 4
    MPEG2TS_SEQUENCE_START = 5
    MULTITRACK = 6
    MOD_EX = 7


class AudioPacket(IntEnum):
    """AudioPacketType of Enhanced RTMP; AACPacketType has the first two."""

    SEQUENCE_START = 0
    CODED_FRAMES = 1
    SEQUENCE_END = 2
    MULTICHANNEL_CONFIG = 4
    MULTITRACK = 5
    MOD_EX = 7


class MultitrackType(IntEnum):
    """AvMultitrackType."""

    ONE_TRACK = 0
    MANY_TRACKS = 1
    MANY_TRACKS_MANY_CODECS = 2


EX_AUDIO: Final = 9
"""The sound format that stands for an extended audio header."""

AAC: Final = 10

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


RATES: Final = (5512, 11025, 22050, 44100)
FIXED_RATES: Final = {4: 16000, 5: 8000, 7: 8000, 8: 8000, 11: 16000, 14: 8000}
"""Sound formats whose rate field says nothing."""
FIXED_CHANNELS: Final = {4: 1, 5: 1, 11: 1}
"""Sound formats that are mono whatever the header says."""

CUT: Final = "the header is cut off"


@dataclass(frozen=True, slots=True)
class LegacyVideo:
    """A video message with a codec id. With a `fault`, only what stands before it in the header is right."""

    frame_type: int
    codec: int
    packet_type: int | None = None
    """Of codecs that have one: the first three of `VideoPacket`."""
    composition_time_ms: int = 0
    command: int | None = None
    """Of command frames, which hold nothing else."""
    body: bytes = b""
    fault: str = ""

    @property
    def is_sequence_start(self) -> bool:
        return self.packet_type == VideoPacket.SEQUENCE_START

    @property
    def is_frame(self) -> bool:
        return self.command is None and self.packet_type in (None, VideoPacket.CODED_FRAMES) and not self.fault

    @property
    def is_keyframe(self) -> bool:
        return self.is_frame and self.frame_type in KEYFRAMES


@dataclass(frozen=True, slots=True)
class LegacyAudio:
    sound_format: int
    rate_index: int = 3
    """Into `RATES`."""
    is_16_bit: bool = True
    is_stereo: bool = True
    packet_type: int | None = None
    """Of AAC: the first two of `AudioPacket`."""
    body: bytes = b""
    fault: str = ""

    @property
    def is_sequence_start(self) -> bool:
        return self.packet_type == AudioPacket.SEQUENCE_START

    @property
    def sample_rate(self) -> int:
        """By the header, in Hz. AAC's says 44100 whatever the rate is."""
        return FIXED_RATES.get(self.sound_format, RATES[self.rate_index])

    @property
    def channels(self) -> int:
        return FIXED_CHANNELS.get(self.sound_format, 2 if self.is_stereo else 1)


def read_legacy_video(payload: bytes) -> LegacyVideo:
    """Of a payload that has a first byte, whose top bit is 0."""
    frame_type, codec = payload[0] >> 4, payload[0] & 15
    if frame_type == FrameType.COMMAND:
        if len(payload) < 2:
            return LegacyVideo(frame_type, codec, fault=CUT)
        return LegacyVideo(frame_type, codec, command=payload[1])
    if codec not in PACKETISED_VIDEO:
        fault = "" if codec in VIDEO_CODECS else "the codec id is unknown"
        return LegacyVideo(frame_type, codec, body=payload[1:], fault=fault)
    if len(payload) < 5:
        return LegacyVideo(frame_type, codec, payload[1] if len(payload) > 1 else None, fault=CUT)
    packet_type = payload[1]
    fault = "" if packet_type <= VideoPacket.SEQUENCE_END else "the packet type is unknown"
    composition_time_ms = int.from_bytes(payload[2:5], "big", signed=True)
    return LegacyVideo(frame_type, codec, packet_type, composition_time_ms, body=payload[5:], fault=fault)


def read_legacy_audio(payload: bytes) -> LegacyAudio:
    """Of a payload that has a first byte, whose sound format is not 9."""
    first = payload[0]
    form = (first >> 4, first >> 2 & 3, bool(first & 2), bool(first & 1))
    if first >> 4 != AAC:
        return LegacyAudio(*form, body=payload[1:])
    if len(payload) < 2:
        return LegacyAudio(*form, fault=CUT)
    fault = "" if payload[1] <= AudioPacket.CODED_FRAMES else "the packet type is unknown"
    return LegacyAudio(*form, payload[1], payload[2:], fault)
