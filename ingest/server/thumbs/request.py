"""What the decoder is asked: the codec's own data, taken out of the messages of a keyframe and its header."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ingest.live.header_cache import Keyframe
from ingest.rtmp.codecs import video_config
from ingest.rtmp.media import ExtendedVideo, LegacyVideo, read_video
from ingest.rtmp.media.kinds import VIDEO_CODECS, VideoPacket, codec_name

DECODERS: Final = {"H.264": "h264", "H.265": "hevc", "AV1": "libdav1d", "VP9": "vp9", "VP8": "vp8"}
"""{codec: FFmpeg's name of a decoder in software}. There is no picture of others."""
IN_BAND: Final = frozenset({"AV1", "VP9", "VP8"})
"""Codecs whose keyframes can be decoded without a header."""


class Request(NamedTuple):
    decoder: str
    header: bytes
    """The codec's configuration record."""
    keyframe: bytes


class _Part(NamedTuple):
    """The lowest track of a message, or the only one."""

    codec: str
    track: int
    body: bytes
    message: LegacyVideo | ExtendedVideo


def request_of(found: Keyframe, side: int) -> Request | None:
    """None for what can't be decoded, or is larger than `side` pixels across or down as far as its header says so."""
    keyframe = _part(found.payload)
    if keyframe is None or keyframe.codec not in DECODERS or not keyframe.body:
        return None
    header = _header(found.headers, keyframe)
    if header is None and keyframe.codec not in IN_BAND:
        return None
    for part in (header, keyframe):
        config = video_config(part.message) if part else None
        if config and max(config.width or 0, config.height or 0) > side:
            return None
    return Request(DECODERS[keyframe.codec], header.body if header else b"", keyframe.body)


def _header(payloads: Iterable[bytes], keyframe: _Part) -> _Part | None:
    for payload in payloads:
        part = _part(payload, keyframe.track)
        if part and part.codec == keyframe.codec and _is_record(part.message):
            return part
    return None


def _is_record(message: LegacyVideo | ExtendedVideo) -> bool:
    if isinstance(message, ExtendedVideo) and message.packet_type != VideoPacket.SEQUENCE_START:
        return False  # That of an MPEG-2 transport stream has another form.
    return message.is_sequence_start


def _part(payload: bytes, track: int | None = None) -> _Part | None:
    """The part of that track, or of the lowest one."""
    message = read_video(payload)
    if message is None or message.fault:
        return None
    if isinstance(message, LegacyVideo):
        return _Part(VIDEO_CODECS.get(message.codec, ""), 0, message.body, message) if not track else None
    parts = [each for each in message.tracks if track is None or each.track_id == track]
    if not parts:
        return None
    lowest = min(parts, key=lambda each: each.track_id)
    return _Part(codec_name(lowest.fourcc), lowest.track_id, lowest.body, message)
