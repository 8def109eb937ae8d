"""What codecs' configurations say: profile, level, resolution, sample rate, channels, codec string. Pure.

    config = video_config(read_video(payload))
    config.codec_string, config.width, config.height

One file is one family. Its readers get a `VideoConfig` or `AudioConfig` to fill and a codec's own data; they raise
ValueError where these end or make no sense, and what was filled until then stays. So a peer's garbage gives the codec
alone, and nothing is raised from here. Each reader looks at a bounded part of the data, and each bit once.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ingest.rtmp.codecs import aac, ac3, av1, avc, flac, flash, hevc, mp3, opus, vpx, vvc
from ingest.rtmp.codecs.config import AudioConfig, VideoConfig
from ingest.rtmp.media import ExtendedAudio, ExtendedVideo, LegacyAudio, LegacyVideo
from ingest.rtmp.media.kinds import AUDIO_CODECS, VIDEO_CODECS, AudioPacket, VideoPacket, codec_name
from ingest.rtmp.media.multichannel import read_multichannel

__all__ = ["AudioConfig", "VideoConfig", "audio_config", "video_config"]


@dataclass(frozen=True, slots=True)
class Video:
    """What a codec can be told by; None where there is nothing to read."""

    header: Callable[[VideoConfig, bytes], None] | None = None
    """Reads a sequence header."""
    keyframe: Callable[[VideoConfig, bytes], None] | None = None
    """Reads a coded frame; ValueError where it is no keyframe."""


@dataclass(frozen=True, slots=True)
class Audio:
    codec_string: str | None = None
    header: Callable[[AudioConfig, bytes], None] | None = None
    frame: Callable[[AudioConfig, bytes], None] | None = None


VIDEO: Final = {
    "H.264": Video(avc.read_record),
    "H.265": Video(hevc.read_record),
    "H.266": Video(vvc.read_record),
    "AV1": Video(av1.read_record, av1.read_units),
    "VP8": Video(vpx.read_record, vpx.read_vp8_frame),
    "VP9": Video(vpx.read_record, vpx.read_vp9_frame),
    "H.263": Video(None, flash.read_h263_frame),
    "Screen": Video(None, flash.read_screen_frame),
    "Screen 2": Video(None, flash.read_screen_frame),
}
AUDIO: Final = {
    "AAC": Audio(None, aac.read_config),
    "Opus": Audio("opus", opus.read_head),
    "FLAC": Audio("flac", flac.read_info),
    "AC-3": Audio("ac-3", None, ac3.read_frame),
    "E-AC-3": Audio("ec-3", None, ac3.read_frame),
    "MP3": Audio("mp3", None, mp3.read_frame),
}
"""By the codec's name, for which `media.kinds` has the codec ids and FourCC codes. Others are a name alone."""

FRAMES: Final = (VideoPacket.CODED_FRAMES, VideoPacket.CODED_FRAMES_X)


def video_config(message: LegacyVideo | ExtendedVideo | None) -> VideoConfig | None:
    """Of a sequence header, or of a coded frame as far as that tells; of the first track where there are several.

    None for what tells nothing: the end of a sequence, metadata, a command, or a fault before any track.
    """
    if isinstance(message, LegacyVideo):
        if not message.is_sequence_start and not message.is_frame:
            return None
        codec, body = VIDEO_CODECS.get(message.codec, "unknown"), message.body
        is_header = message.is_sequence_start
    elif message and message.tracks and (message.is_sequence_start or message.packet_type in FRAMES):
        codec, body = codec_name(message.tracks[0].fourcc), message.tracks[0].body
        is_header = message.is_sequence_start
    else:
        return None
    config = VideoConfig(codec)
    known = VIDEO.get(codec, Video())
    if read := known.header if is_header else known.keyframe:
        with suppress(ValueError):
            read(config, body)
    return config


def audio_config(message: LegacyAudio | ExtendedAudio | None) -> AudioConfig | None:
    """As `video_config`. A legacy header's own rate and channels stand in for what a codec doesn't tell."""
    if isinstance(message, LegacyAudio):
        return _legacy_audio(message)
    if not message or not message.tracks:
        return None
    track = message.tracks[0]
    config = _new_audio(codec_name(track.fourcc))
    if message.packet_type == AudioPacket.MULTICHANNEL_CONFIG:
        speakers = read_multichannel(track.body)
        config.set_channels(speakers.channels if speakers else 0)
    elif message.packet_type in (AudioPacket.SEQUENCE_START, AudioPacket.CODED_FRAMES):
        _read_audio(config, track.body, is_header=message.is_sequence_start)
    else:
        return None
    return config


def _legacy_audio(message: LegacyAudio) -> AudioConfig:
    config = _new_audio(AUDIO_CODECS.get(message.sound_format, "unknown"))
    _read_audio(config, message.body, is_header=message.is_sequence_start)
    if message.packet_type is None and not message.fault and config.codec != "unknown":
        config.sample_rate = config.sample_rate or message.sample_rate
        config.channels = config.channels or message.channels
        if config.codec == "PCM":
            config.bit_depth = 16 if message.is_16_bit else 8
    return config


def _new_audio(codec: str) -> AudioConfig:
    return AudioConfig(codec, AUDIO.get(codec, Audio()).codec_string)


def _read_audio(config: AudioConfig, body: bytes, *, is_header: bool) -> None:
    known = AUDIO.get(config.codec, Audio())
    if read := known.header if is_header else known.frame:
        with suppress(ValueError):
            read(config, body)
