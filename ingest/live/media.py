"""What an audio or video message holds, told from its first bytes: FLV tag bodies and their enhanced forms.

This is for the media path: it says what each message has to be counted and kept as, and how to do that at little cost.
`ingest.rtmp.media` reads whole headers, and `ingest.rtmp.codecs` what is in them.

Layouts: FLV 10.1, annex E.4.2.1 (audio) and E.4.3.1 (video); Enhanced RTMP v2, "Enhanced Audio" and "Enhanced Video".

    video, legacy     frame type (4 bits) codec (4) [packet type (8) composition time (24): AVC and alike]
    video, enhanced   1 (1) frame type (3) packet type (4) [ModEx]* [multitrack] FourCC
    audio, legacy     format (4) rate (2) size (1) channels (1) [packet type (8): AAC]
    audio, enhanced   9 (4) packet type (4) [ModEx]* [multitrack] FourCC

The payload comes from a peer: whatever it holds gives a Tag, and never an exception. Faulty is what `ingest.rtmp.media`
finds a fault in.
"""

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Final

from ingest.rtmp.capabilities import CapsEx
from ingest.rtmp.limits import DEFAULT_LIMITS
from ingest.rtmp.media_tags import (
    AAC,
    AUDIO_CODECS,
    AUDIO_FOURCC,
    COMPOSITION_FOURCC,
    EX_AUDIO,
    PACKETISED_VIDEO,
    VIDEO_CODECS,
    VIDEO_FOURCC,
    AudioPacket,
    FrameType,
    MultitrackType,
    VideoPacket,
    codec_name,
)


@dataclass(frozen=True, slots=True)
class Tag:
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
    is_faulty: bool = False
    """Its header makes no sense, or is cut off. What is told of it is what stands before the fault."""
    needs: int = 0
    """What a player has to have said that it understands, to be sent the message: flags of CapsEx."""
    is_notable: bool = False
    """Faulty, of a track of several, or with extensions."""


UNKNOWN: Final = Tag("unknown")
FAULTY: Final = Tag("unknown", is_faulty=True, is_notable=True)

MULTITRACK, MOD_EX = int(CapsEx.MULTITRACK), int(CapsEx.MOD_EX)
FAULTY_TRACKS: Final = replace(FAULTY, needs=MULTITRACK)

FOURCC: Final = VIDEO_FOURCC | AUDIO_FOURCC

COMMAND: Final = int(FrameType.COMMAND)
MAX_MOD_EX: Final = DEFAULT_LIMITS.mod_ex_per_message
"""Extensions of one message that are followed; each takes at least 3 bytes of a peer's payload."""
MAX_TRACKS: Final = DEFAULT_LIMITS.tracks_per_message

COMPOSED_BYTES: Final = 8
"""Of the longest header without extensions and tracks, that of CodedFrames with a composition time."""
LEGACY_COMPOSED_BYTES: Final = 5
"""The same of a message with a codec id."""


def video_tag(payload: bytes) -> Tag:
    return (len(payload) >= LEGACY_COMPOSED_BYTES and _COMMON_VIDEO.get(payload[:2])) or _read_video(payload)


def audio_tag(payload: bytes) -> Tag:
    """What a message of type 8 holds. An empty one is a frame of silence (Enhanced RTMP v2, "Enhanced Audio")."""
    return _COMMON_AUDIO.get(payload[:2]) or _read_audio(payload)


def _read_video(payload: bytes) -> Tag:
    if not payload:
        return UNKNOWN
    first = payload[0]
    if first >= 0x80:
        tag = _EXTENDED_VIDEO.get(payload[:5]) if len(payload) >= COMPOSED_BYTES else None
        return tag or _enhanced(payload, first & 15, first >> 4 & 7, VideoPacket.MULTITRACK)
    if first >> 4 == COMMAND:
        return _legacy_video(first) if len(payload) > 1 else FAULTY
    # The packet types that there are stand in _COMMON_VIDEO.
    return FAULTY if first & 15 in PACKETISED_VIDEO else _legacy_video(first)


def _read_audio(payload: bytes) -> Tag:
    if not payload:
        return SILENCE
    sound_format = payload[0] >> 4
    if sound_format == EX_AUDIO:
        tag = _EXTENDED_AUDIO.get(payload[:5])
        return tag or _enhanced(payload, payload[0] & 15, None, AudioPacket.MULTITRACK)
    # Those of AAC stand in _COMMON_AUDIO.
    return FAULTY if sound_format == AAC else _legacy_audio(sound_format)


SILENCE: Final = Tag("", is_frame=True)


@cache
def _legacy_video(first: int) -> Tag:
    codec = VIDEO_CODECS.get(first & 15)
    tag = _tag(codec or "unknown", VideoPacket.CODED_FRAMES, first >> 4)
    return tag if codec or first >> 4 == COMMAND else _faulty(tag, is_whole=True)


@cache
def _legacy_audio(sound_format: int) -> Tag:
    return Tag(AUDIO_CODECS.get(sound_format, "unknown"), is_frame=True)


def _enhanced(payload: bytes, packet_type: int, frame_type: int | None, multitrack: int) -> Tag:
    """`frame_type` is None for audio; `multitrack` is the packet type that says so in this kind of message."""
    if packet_type != VideoPacket.MOD_EX:
        return _behind_extensions(payload, 1, packet_type, frame_type, multitrack)
    at = 1
    count = 0
    while packet_type == VideoPacket.MOD_EX:
        # ModEx: size - 1 (1 byte, or FF and 2 bytes), data, then type (4 bits) and the next packet type (4).
        size = payload[at] + 1 if at < len(payload) else 0
        at += 1
        if size == 256:
            size = int.from_bytes(payload[at : at + 2], "big") + 1
            at += 2
        at += size
        count += 1
        if at >= len(payload) or count > MAX_MOD_EX:
            return _extended(FAULTY)
        packet_type = payload[at] & 15
        at += 1
    return _extended(_behind_extensions(payload, at, packet_type, frame_type, multitrack))


@lru_cache(maxsize=1024)
def _extended(tag: Tag) -> Tag:
    return replace(tag, needs=tag.needs | MOD_EX, is_notable=True)


def _behind_extensions(payload: bytes, at: int, packet_type: int, frame_type: int | None, multitrack: int) -> Tag:
    if packet_type == multitrack and (frame_type != COMMAND or _is_track_metadata(payload, at)):
        return _multitrack(payload, at, frame_type, multitrack)
    if frame_type == COMMAND and packet_type != VideoPacket.METADATA:
        return UNKNOWN if at < len(payload) else FAULTY
    fourcc = payload[at : at + 4]
    if len(fourcc) < 4:
        return FAULTY
    tag = _fourcc_tag(fourcc, packet_type, frame_type)
    return _faulty(tag) if at + 4 + _composition_bytes(fourcc, packet_type, frame_type) > len(payload) else tag


def _is_track_metadata(payload: bytes, at: int) -> bool:
    """FFmpeg gives metadata of tracks the frame type of a command, which has but one byte."""
    return at + 1 < len(payload) and payload[at] & 15 == VideoPacket.METADATA


def _composition_bytes(fourcc: bytes, packet_type: int, frame_type: int | None) -> int:
    is_composed = frame_type is not None and packet_type == VideoPacket.CODED_FRAMES and fourcc in COMPOSITION_FOURCC
    return 3 if is_composed else 0


def _multitrack(payload: bytes, at: int, frame_type: int | None, multitrack: int) -> Tag:
    """Type (4 bits) and packet type (4), then [FourCC] track id [size (24)] body; the tag is the first track's."""
    if at + 5 >= len(payload):
        return FAULTY_TRACKS
    kind, packet_type = payload[at] >> 4, payload[at] & 15
    if packet_type in (multitrack, VideoPacket.MOD_EX) or kind > MultitrackType.MANY_TRACKS_MANY_CODECS:
        return FAULTY_TRACKS
    fourcc = payload[at + 1 : at + 5]
    composition = _composition_bytes(fourcc, packet_type, frame_type)
    make = _known_track_tag if fourcc in FOURCC else _track_tag
    tag = make(fourcc, packet_type, frame_type, payload[at + 5], kind)
    if kind == MultitrackType.ONE_TRACK:
        return _faulty(tag) if at + 6 + composition > len(payload) else tag
    has_codecs = kind == MultitrackType.MANY_TRACKS_MANY_CODECS
    is_composed = has_codecs and frame_type is not None and packet_type == VideoPacket.CODED_FRAMES
    at += 1 if has_codecs else 5
    header, end = 8 if has_codecs else 4, len(payload)
    for number in range(MAX_TRACKS):
        if is_composed:
            composition = 3 if payload[at : at + 4] in COMPOSITION_FOURCC else 0
        at += header
        size = int.from_bytes(payload[at - 3 : at], "big")
        at += size
        if at > end or size < composition:
            return _faulty(tag, is_whole=number > 0)
        if at == end:
            return tag
    return _faulty(tag, is_whole=True)


def _track_tag(fourcc: bytes, packet_type: int, frame_type: int | None, track: int, kind: int) -> Tag:
    tag = _fourcc_tag(fourcc, packet_type, frame_type)
    slot = tag.slot | track << 4 | kind << 12
    return replace(tag, track=track, slot=slot, needs=MULTITRACK, is_notable=True)


_known_track_tag: Final = lru_cache(maxsize=1024)(_track_tag)


def _fourcc_tag(fourcc: bytes, packet_type: int, frame_type: int | None) -> Tag:
    if fourcc in FOURCC:
        return _known_fourcc_tag(fourcc, packet_type, frame_type)
    return _tag(codec_name(fourcc), packet_type, frame_type)


@cache
def _known_fourcc_tag(fourcc: bytes, packet_type: int, frame_type: int | None) -> Tag:
    return _tag(FOURCC[fourcc], packet_type, frame_type)


def _faulty(tag: Tag, *, is_whole: bool = False) -> Tag:
    """`is_whole`: what the tag is about is there, so that it may be decoded all the same."""
    if is_whole:
        return replace(tag, is_faulty=True, is_notable=True)
    return Tag(tag.codec, track=tag.track, slot=tag.slot, needs=tag.needs, is_faulty=True, is_notable=True)


HEADERS: Final = (VideoPacket.SEQUENCE_START, VideoPacket.METADATA, VideoPacket.MPEG2TS_SEQUENCE_START)
SEQUENCE_STARTS: Final = (VideoPacket.SEQUENCE_START, VideoPacket.MPEG2TS_SEQUENCE_START)
FRAMES: Final = (VideoPacket.CODED_FRAMES, VideoPacket.CODED_FRAMES_X)


def _tag(codec: str, packet_type: int, frame_type: int | None) -> Tag:
    is_frame = packet_type in FRAMES and frame_type != COMMAND
    return Tag(
        codec,
        is_frame=is_frame,
        # An end of sequence has a keyframe's frame type too.
        is_keyframe=is_frame and frame_type in (FrameType.KEYFRAME, FrameType.GENERATED_KEYFRAME),
        is_header=packet_type in HEADERS and (frame_type != COMMAND or packet_type == VideoPacket.METADATA),
        is_sequence_start=packet_type in SEQUENCE_STARTS and frame_type != COMMAND,
        is_disposable=is_frame and frame_type == FrameType.DISPOSABLE,
        slot=packet_type,
    )


_COMMON_VIDEO: Final = {
    bytes((frame_type << 4 | codec, packet_type)): _tag(VIDEO_CODECS[codec], packet_type, frame_type)
    for frame_type in range(8)
    for codec in PACKETISED_VIDEO
    for packet_type in (VideoPacket.SEQUENCE_START, VideoPacket.CODED_FRAMES, VideoPacket.SEQUENCE_END)
}
_COMMON_AUDIO: Final = {
    bytes((AAC << 4 | rest, packet_type)): _tag("AAC", packet_type, None)
    for rest in range(16)
    for packet_type in (VideoPacket.SEQUENCE_START, VideoPacket.CODED_FRAMES)
}
_EXTENDED_VIDEO: Final = {
    bytes((0x80 | frame_type << 4 | packet_type,)) + fourcc: _known_fourcc_tag(fourcc, packet_type, frame_type)
    for frame_type in range(8)
    if frame_type != COMMAND
    for packet_type in range(VideoPacket.MULTITRACK)
    for fourcc in VIDEO_FOURCC
}
_EXTENDED_AUDIO: Final = {
    bytes((EX_AUDIO << 4 | packet_type,)) + fourcc: _known_fourcc_tag(fourcc, packet_type, None)
    for packet_type in range(AudioPacket.MULTITRACK)
    for fourcc in AUDIO_FOURCC
}
"""What nearly every message begins with, so that one look-up tells all of it."""
