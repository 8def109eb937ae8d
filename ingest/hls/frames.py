"""What an audio or video message holds of each track: its header or a frame. Legacy messages are given the FourCC of
their codec, so that nothing behind this has to know how a publisher sends."""

from dataclasses import dataclass
from typing import Final

from ingest.live.message import Kind
from ingest.rtmp.media import ExtendedAudio, ExtendedVideo, Track, read_audio, read_video
from ingest.rtmp.media_tags import (
    AUDIO_CODECS,
    AUDIO_FOURCC,
    KEYFRAMES,
    VIDEO_CODECS,
    VIDEO_FOURCC,
    AudioPacket,
    LegacyVideo,
    VideoPacket,
)

Key = tuple[Kind, int]
"""A track of a publication: its kind and RTMP's number."""


@dataclass(frozen=True, slots=True)
class Header:
    key: Key
    fourcc: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Frame:
    key: Key
    fourcc: bytes
    data: bytes
    is_keyframe: bool
    """Of audio each frame is."""
    composition_ms: int = 0


CAPTIONS: Final = b"GA94"
"""Of closed captions within a picture's user data (ATSC A/53)."""
CAPTIONS_WITHIN: Final = 512
"""Bytes of a frame. They stand before its slices."""


def has_captions(frame: Frame) -> bool:
    return CAPTIONS in frame.data[:CAPTIONS_WITHIN]


def read_message(kind: Kind, payload: bytes) -> list[Header | Frame]:
    """Whatever it holds, nothing is raised. What can't be read, and what is no media, is left out."""
    return _read_video(payload) if kind == "video" else _read_audio(payload) if kind == "audio" else []


VIDEO_FOURCC_OF: Final = {name: fourcc for fourcc, name in VIDEO_FOURCC.items()}
AUDIO_FOURCC_OF: Final = {name: fourcc for fourcc, name in AUDIO_FOURCC.items()}
LEGACY_VIDEO: Final = {number: VIDEO_FOURCC_OF.get(name, name.encode()) for number, name in VIDEO_CODECS.items()}
LEGACY_AUDIO: Final = {number: AUDIO_FOURCC_OF.get(name, name.encode()) for number, name in AUDIO_CODECS.items()}
"""Codecs without a FourCC go by their name: they are left out under it."""

UNKNOWN: Final = b"unknown"


def _read_video(payload: bytes) -> list[Header | Frame]:
    message = read_video(payload)
    if isinstance(message, LegacyVideo):
        fourcc = LEGACY_VIDEO.get(message.codec, UNKNOWN)
        if message.is_sequence_start and not message.fault:
            return [Header(("video", 0), fourcc, message.body)]
        if message.is_frame and message.body:
            return [Frame(("video", 0), fourcc, message.body, message.is_keyframe, message.composition_time_ms)]
        return []
    if message is None or message.command is not None:
        return []
    if message.packet_type == VideoPacket.SEQUENCE_START:
        return _headers("video", message)
    if message.packet_type not in (VideoPacket.CODED_FRAMES, VideoPacket.CODED_FRAMES_X):
        return []
    is_keyframe = message.frame_type in KEYFRAMES
    return [_frame("video", track, is_keyframe) for track in message.tracks if track.body]


def _read_audio(payload: bytes) -> list[Header | Frame]:
    message = read_audio(payload)
    if message is None:
        return []
    if isinstance(message, ExtendedAudio):
        if message.packet_type == AudioPacket.SEQUENCE_START:
            return _headers("audio", message)
        if message.packet_type == AudioPacket.CODED_FRAMES:
            return [_frame("audio", track, True) for track in message.tracks if track.body]
        return []
    fourcc = LEGACY_AUDIO.get(message.sound_format, UNKNOWN)
    if message.fault or not message.body:
        return []
    if message.is_sequence_start:
        return [Header(("audio", 0), fourcc, message.body)]
    return [Frame(("audio", 0), fourcc, message.body, True)]


def _headers(kind: Kind, message: ExtendedAudio | ExtendedVideo) -> list[Header | Frame]:
    return [Header((kind, track.track_id), track.fourcc, track.body) for track in message.tracks]


def _frame(kind: Kind, track: Track, is_keyframe: bool) -> Frame:
    return Frame((kind, track.track_id), track.fourcc, track.body, is_keyframe, track.composition_time_ms)
