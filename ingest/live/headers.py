"""What a header or frame tells of a stream (contracts.MediaInfo): codecs, resolution, profile, rate, channels.

Messages come from a peer. One that can't be read gives the codec alone; nothing here raises.
"""

from typing import Any, Final, cast

from ingest.contracts import MediaInfo
from ingest.live.media import Tag
from ingest.rtmp.codecs import AudioConfig, VideoConfig, audio_config, video_config
from ingest.rtmp.media import read_audio, read_video

VIDEO_FIELDS: Final = (
    *("video_codec", "video_codec_string", "width", "height", "profile", "level", "bit_depth", "frame_rate"),
)
AUDIO_FIELDS: Final = ("audio_codec", "audio_codec_string", "sample_rate", "channels")

TOLD_BY_KEYFRAMES: Final = frozenset({"VP8", "VP9", "H.263", "Screen", "Screen 2"})
"""Codecs whose keyframes alone tell the resolution, so that it may change with each."""


def describe_video(known: MediaInfo, tag: Tag, payload: bytes) -> MediaInfo:
    """All `VIDEO_FIELDS` that are known now, from a sequence header or a keyframe; a keyframe adds to its header."""
    config = video_config(read_video(payload)) or VideoConfig(tag.codec)
    found = _info(
        video_codec=config.codec,
        video_codec_string=config.codec_string,
        width=config.width,
        height=config.height,
        profile=config.profile,
        level=config.level,
        bit_depth=config.bit_depth,
        frame_rate=config.fps,
    )
    if tag.is_sequence_start or known.get("video_codec") != config.codec:
        return found
    return _info(**{**found, **_part(known, VIDEO_FIELDS), **_part(found, ("width", "height"))})


def describe_audio(known: MediaInfo, tag: Tag, payload: bytes) -> MediaInfo:
    """All `AUDIO_FIELDS` that are known now, from a header or a frame; a frame adds to its header."""
    config = audio_config(read_audio(payload)) or AudioConfig(tag.codec)
    # AAC is known by its profile, which its frames don't tell.
    codec = (config.codec == "AAC" and config.profile) or config.codec
    found = _info(
        audio_codec=codec,
        audio_codec_string=config.codec_string,
        sample_rate=config.sample_rate,
        channels=config.channels,
    )
    before = known.get("audio_codec", "")
    if tag.is_sequence_start or not (before == codec or (codec == "AAC" and codec in before)):
        return found
    return _info(**{**_part(known, AUDIO_FIELDS), **found, "audio_codec": before})


def _info(**fields: Any) -> MediaInfo:
    return cast("MediaInfo", {name: value for name, value in fields.items() if value is not None})


def _part(known: MediaInfo, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in known.items() if name in names}
