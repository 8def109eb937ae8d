"""What an audio or video message holds, told from its first bytes: FLV tag bodies and their enhanced forms.

Layouts: FLV 10.1, annex E.4.2.1 (audio) and E.4.3.1 (video); Enhanced RTMP v2, "Enhanced Audio" and "Enhanced Video".

    video, legacy     frame type (4 bits) codec (4) [packet type (8) composition time (24): AVC and alike]
    video, enhanced   1 (1) frame type (3) packet type (4) [ModEx]* [multitrack] FourCC
    audio, legacy     format (4) rate (2) size (1) channels (1) [packet type (8): AAC]
    audio, enhanced   9 (4) packet type (4) [ModEx]* [multitrack] FourCC

The payload comes from a peer: whatever it holds gives a Tag, and never an exception.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache
from typing import Final


@dataclass(frozen=True, slots=True)
class Tag:
    """What one message holds."""

    codec: str
    is_frame: bool = False
    """Coded media: not a sequence header, end of sequence, metadata or command."""
    is_keyframe: bool = False
    is_header: bool = False
    """Decoding needs it first and it stays valid until replaced: a sequence header, colour or channel description."""
    is_sequence_start: bool = False
    """The header that tells codec, picture and sound."""
    is_disposable: bool = False
    """No other frame refers to it."""
    track: int = 0
    """Track id of the message's (first) track; 0 where there are no tracks."""
    slot: int = 0
    """Which header it replaces: the track and the kind of header, as one number."""
    body: int = 0
    """Where the codec's own data begin, in bytes."""


UNKNOWN: Final = Tag("unknown")

KEYFRAME, DISPOSABLE, GENERATED_KEYFRAME, COMMAND = 1, 3, 4, 5
"""Video frame types; 2 is an inter frame."""


class PacketType(IntEnum):
    """Of enhanced messages; audio and video share the values."""

    SEQUENCE_START = 0
    CODED_FRAMES = 1
    SEQUENCE_END = 2
    CODED_FRAMES_X = 3  # Video only.
    METADATA = 4  # Audio: MultichannelConfig.
    MPEG2TS_SEQUENCE_START = 5  # Audio: Multitrack.
    VIDEO_MULTITRACK = 6
    MOD_EX = 7


AUDIO_MULTITRACK: Final = 5

VIDEO_CODECS: Final = {2: "H.263", 3: "Screen", 4: "VP6", 5: "VP6", 6: "Screen 2", 7: "H.264", 12: "H.265", 13: "AV1"}
"""Legacy ids. 12 and 13 stand in no specification, but encoders send them with AVC's layout."""

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

FOURCC: Final = {
    b"avc1": "H.264",
    b"hvc1": "H.265",
    b"vvc1": "H.266",
    b"av01": "AV1",
    b"vp08": "VP8",
    b"vp09": "VP9",
    b"mp4a": "AAC",
    b".mp3": "MP3",
    b"Opus": "Opus",
    b"fLaC": "FLAC",
    b"ac-3": "AC-3",
    b"ec-3": "E-AC-3",
}

PACKETISED_VIDEO: Final = (7, 12, 13)
"""Legacy ids with a packet type (0 header, 1 frames, 2 end) and a composition time after the first byte."""

AAC: Final = 10
EX_AUDIO: Final = 9
MAX_MOD_EX: Final = 8
"""Extensions of one message that are followed; each takes at least 3 bytes of a peer's payload."""

ONE_TRACK, MANY_CODECS = 0, 2
"""Multitrack types; 1 is many tracks of one codec."""


def video_tag(payload: bytes) -> Tag:
    """What a message of type 9 holds."""
    return _COMMON_VIDEO.get(payload[:2]) or _read_video(payload)


def audio_tag(payload: bytes) -> Tag:
    """What a message of type 8 holds. An empty one is a frame of silence (Enhanced RTMP v2, "Enhanced Audio")."""
    return _COMMON_AUDIO.get(payload[:2]) or _read_audio(payload)


def _read_video(payload: bytes) -> Tag:
    if len(payload) < 2:
        return UNKNOWN
    first = payload[0]
    if first >= 0x80:
        return _enhanced(payload, first & 15, first >> 4 & 7, PacketType.VIDEO_MULTITRACK)
    if first & 15 in PACKETISED_VIDEO:
        return UNKNOWN  # The packet types that there are stand in _COMMON_VIDEO.
    return _legacy_video(first)


def _read_audio(payload: bytes) -> Tag:
    if not payload:
        return SILENCE
    sound_format = payload[0] >> 4
    if sound_format == EX_AUDIO:
        return _enhanced(payload, payload[0] & 15, None, AUDIO_MULTITRACK)
    return _legacy_audio(sound_format)


SILENCE: Final = Tag("", is_frame=True)


@cache
def _legacy_video(first: int) -> Tag:
    return _tag(VIDEO_CODECS.get(first & 15, "unknown"), PacketType.CODED_FRAMES, first >> 4, body=1)


@cache
def _legacy_audio(sound_format: int) -> Tag:
    return Tag(AUDIO_CODECS.get(sound_format, "unknown"), is_frame=True, body=1)


def _enhanced(payload: bytes, packet_type: int, frame_type: int | None, multitrack: int) -> Tag:
    """`frame_type` is None for audio; `multitrack` is the packet type that says so in this kind of message."""
    at = 1
    for _ in range(MAX_MOD_EX):
        if packet_type != PacketType.MOD_EX:
            break
        # ModEx: size - 1 (1 byte, or FF and 2 bytes), data, then type (4 bits) and the next packet type (4).
        size = payload[at] + 1 if at < len(payload) else 0
        at += 1
        if size == 256:
            size = int.from_bytes(payload[at : at + 2], "big") + 1
            at += 2
        at += size
        if at >= len(payload):
            return UNKNOWN
        packet_type = payload[at] & 15
        at += 1
    if frame_type == COMMAND and packet_type != PacketType.METADATA:
        return UNKNOWN
    if packet_type == multitrack:
        return _multitrack(payload, at, frame_type, multitrack)
    return _fourcc_tag(payload[at : at + 4], packet_type, frame_type, at + 4)


def _multitrack(payload: bytes, at: int, frame_type: int | None, multitrack: int) -> Tag:
    """Type (4 bits) and packet type (4), then [FourCC] track id [size (24)] body; only the first track is looked at."""
    if at >= len(payload):
        return UNKNOWN
    kind, packet_type = payload[at] >> 4, payload[at] & 15
    if packet_type in (multitrack, PacketType.MOD_EX):
        return UNKNOWN
    fourcc = payload[at + 1 : at + 5]
    at += 5
    if at >= len(payload):
        return UNKNOWN
    track = payload[at]
    at += 1 if kind == ONE_TRACK else 4
    tag = _fourcc_tag(fourcc, packet_type, frame_type, at)
    return replace(tag, track=track, slot=tag.slot | track << 4 | kind << 12)


def _fourcc_tag(fourcc: bytes, packet_type: int, frame_type: int | None, body: int) -> Tag:
    if fourcc in FOURCC:
        tag = _known_fourcc_tag(fourcc, packet_type, frame_type)
        return replace(tag, body=body) if tag.is_header else tag
    name = fourcc.decode("ascii", "replace")
    codec = name if len(name) == 4 and name.isascii() and name.isprintable() else "unknown"
    return _tag(codec, packet_type, frame_type)


@cache
def _known_fourcc_tag(fourcc: bytes, packet_type: int, frame_type: int | None) -> Tag:
    return _tag(FOURCC[fourcc], packet_type, frame_type)


HEADERS: Final = (PacketType.SEQUENCE_START, PacketType.METADATA, PacketType.MPEG2TS_SEQUENCE_START)
SEQUENCE_STARTS: Final = (PacketType.SEQUENCE_START, PacketType.MPEG2TS_SEQUENCE_START)
FRAMES: Final = (PacketType.CODED_FRAMES, PacketType.CODED_FRAMES_X)


def _tag(codec: str, packet_type: int, frame_type: int | None, *, body: int = 0) -> Tag:
    is_frame = packet_type in FRAMES and frame_type != COMMAND
    return Tag(
        codec,
        is_frame=is_frame,
        # An end of sequence has a keyframe's frame type too.
        is_keyframe=is_frame and frame_type in (KEYFRAME, GENERATED_KEYFRAME),
        is_header=packet_type in HEADERS and (frame_type != COMMAND or packet_type == PacketType.METADATA),
        is_sequence_start=packet_type in SEQUENCE_STARTS and frame_type != COMMAND,
        is_disposable=is_frame and frame_type == DISPOSABLE,
        slot=packet_type,
        body=body,
    )


_COMMON_VIDEO: Final = {
    bytes((frame_type << 4 | codec, packet_type)): _tag(VIDEO_CODECS[codec], packet_type, frame_type, body=5)
    for frame_type in range(8)
    for codec in PACKETISED_VIDEO
    for packet_type in (PacketType.SEQUENCE_START, PacketType.CODED_FRAMES, PacketType.SEQUENCE_END)
}
_COMMON_AUDIO: Final = {
    bytes((AAC << 4 | rest, packet_type)): _tag("AAC", packet_type, None, body=2)
    for rest in range(16)
    for packet_type in (PacketType.SEQUENCE_START, PacketType.CODED_FRAMES)
}
"""What nearly every message begins with, so that one look-up tells all of it."""
