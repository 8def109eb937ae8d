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

from ingest.rtmp.codecs import audio, h26x, video
from ingest.rtmp.codecs.config import AudioConfig, VideoConfig
from ingest.rtmp.media import ExtendedAudio, ExtendedVideo
from ingest.rtmp.media_tags import (
    AUDIO_CODECS,
    VIDEO_CODECS,
    AudioPacket,
    LegacyAudio,
    LegacyVideo,
    VideoPacket,
    codec_name,
)

__all__ = ["AudioConfig", "VideoConfig", "audio_config", "video_config"]


@dataclass(frozen=True, slots=True)
class VideoReaders:
    """What a codec can be told by; None where there is nothing to read."""

    header: Callable[[VideoConfig, bytes], None] | None = None
    keyframe: Callable[[VideoConfig, bytes], None] | None = None
    """Reads a coded frame; ValueError where it is no keyframe."""


@dataclass(frozen=True, slots=True)
class AudioReaders:
    codec_string: str | None = None
    header: Callable[[AudioConfig, bytes], None] | None = None
    frame: Callable[[AudioConfig, bytes], None] | None = None


VIDEO_READERS: Final = {
    "H.264": VideoReaders(h26x.read_avc_record),
    "H.265": VideoReaders(h26x.read_hevc_record),
    "H.266": VideoReaders(h26x.read_vvc_record),
    "AV1": VideoReaders(video.read_av1_record, video.read_av1_units),
    "VP8": VideoReaders(video.read_vpx_record, video.read_vp8_frame),
    "VP9": VideoReaders(video.read_vpx_record, video.read_vp9_frame),
    "H.263": VideoReaders(None, video.read_h263_frame),
    "Screen": VideoReaders(None, video.read_screen_frame),
    "Screen 2": VideoReaders(None, video.read_screen_frame),
}
AUDIO_READERS: Final = {
    "AAC": AudioReaders(None, audio.read_aac_config),
    "Opus": AudioReaders("opus", audio.read_opus_head),
    "FLAC": AudioReaders("flac", audio.read_flac_info),
    "AC-3": AudioReaders("ac-3", None, audio.read_ac3_frame),
    "E-AC-3": AudioReaders("ec-3", None, audio.read_ac3_frame),
    "MP3": AudioReaders("mp3", None, audio.read_mp3_frame),
}
"""By the codec's name, for which `media.kinds` has the codec ids and FourCC codes. Others are a name alone."""

FRAME_PACKETS: Final = (VideoPacket.CODED_FRAMES, VideoPacket.CODED_FRAMES_X)


def video_config(message: LegacyVideo | ExtendedVideo | None) -> VideoConfig | None:
    """Of a sequence header, or of a coded frame as far as that tells; of the first track where there are several.

    None for what tells nothing: the end of a sequence, metadata, a command, or a fault before any track.
    """
    if isinstance(message, LegacyVideo):
        if not message.is_sequence_start and not message.is_frame:
            return None
        codec, body = VIDEO_CODECS.get(message.codec, "unknown"), message.body
        is_header = message.is_sequence_start
    elif message and message.tracks and (message.is_sequence_start or message.packet_type in FRAME_PACKETS):
        codec, body = codec_name(message.tracks[0].fourcc), message.tracks[0].body
        is_header = message.is_sequence_start
    else:
        return None
    config = VideoConfig(codec)
    known = VIDEO_READERS.get(codec, VideoReaders())
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
        with suppress(ValueError):
            audio.read_multichannel(config, track.body)
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
    return AudioConfig(codec, AUDIO_READERS.get(codec, AudioReaders()).codec_string)


def _read_audio(config: AudioConfig, body: bytes, *, is_header: bool) -> None:
    known = AUDIO_READERS.get(config.codec, AudioReaders())
    if read := known.header if is_header else known.frame:
        with suppress(ValueError):
            read(config, body)
