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
from ingest.rtmp.media import AudioMessage, ExtendedAudio, ExtendedVideo, VideoMessage
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
"""By the codec's name, for which `media_tags` has the codec ids and FourCC codes. Others are a name alone."""

FRAME_PACKETS: Final = (VideoPacket.CODED_FRAMES, VideoPacket.CODED_FRAMES_X)
AUDIO_PACKETS: Final = (AudioPacket.SEQUENCE_START, AudioPacket.CODED_FRAMES, AudioPacket.MULTICHANNEL_CONFIG)
"""That tell something."""


def video_config(message: VideoMessage | None) -> VideoConfig | None:
    """Of a sequence header, or of a coded frame as far as that tells; of the first track where there are several.

    None for what tells nothing: the end of a sequence, metadata, a command, or a fault before any track.
    """
    if isinstance(message, LegacyVideo) and (message.is_sequence_start or message.is_frame):
        codec, body = VIDEO_CODECS.get(message.codec, "unknown"), message.body
    elif (
        isinstance(message, ExtendedVideo)
        and message.tracks
        and (message.is_sequence_start or message.packet_type in FRAME_PACKETS)
    ):
        codec, body = codec_name(message.tracks[0].fourcc), message.tracks[0].body
    else:
        return None
    config = VideoConfig(codec)
    known = VIDEO_READERS.get(codec, VideoReaders())
    if read := known.header if message.is_sequence_start else known.keyframe:
        with suppress(ValueError):
            read(config, body)
    return config


def audio_config(message: AudioMessage | None) -> AudioConfig | None:
    """As `video_config`. A legacy header's own rate and channels stand in for what a codec doesn't tell."""
    if isinstance(message, LegacyAudio):
        codec, body = AUDIO_CODECS.get(message.sound_format, "unknown"), message.body
    elif message and message.tracks and message.packet_type in AUDIO_PACKETS:
        codec, body = codec_name(message.tracks[0].fourcc), message.tracks[0].body
    else:
        return None
    known = AUDIO_READERS.get(codec, AudioReaders())
    config = AudioConfig(codec, known.codec_string)
    read = known.header if message.is_sequence_start else known.frame
    if isinstance(message, ExtendedAudio) and message.packet_type == AudioPacket.MULTICHANNEL_CONFIG:
        read = audio.read_multichannel
    if read:
        with suppress(ValueError):
            read(config, body)
    if isinstance(message, LegacyAudio) and message.packet_type is None and not message.fault and codec != "unknown":
        config.sample_rate = config.sample_rate or message.sample_rate
        config.channels = config.channels or message.channels
        if codec == "PCM":
            config.bit_depth = 16 if message.is_16_bit else 8
    return config
