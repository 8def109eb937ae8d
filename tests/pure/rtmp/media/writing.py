"""Writers of messages in both forms: the product itself writes extended ones alone."""

from ingest.rtmp import media
from ingest.rtmp.media import ExtendedAudio, ExtendedVideo
from ingest.rtmp.media_tags import LegacyAudio, LegacyVideo


def write_video(video: LegacyVideo | ExtendedVideo) -> bytes:
    return media.write_video(video) if isinstance(video, ExtendedVideo) else write_legacy_video(video)


def write_audio(audio: LegacyAudio | ExtendedAudio) -> bytes:
    return media.write_audio(audio) if isinstance(audio, ExtendedAudio) else write_legacy_audio(audio)


def write_legacy_video(video: LegacyVideo) -> bytes:
    first = bytes((video.frame_type << 4 | video.codec,))
    if video.command is not None:
        return first + bytes((video.command,))
    if video.packet_type is None:
        return first + video.body
    return first + bytes((video.packet_type,)) + video.composition_time_ms.to_bytes(3, "big", signed=True) + video.body


def write_legacy_audio(audio: LegacyAudio) -> bytes:
    first = audio.sound_format << 4 | audio.rate_index << 2 | audio.is_16_bit << 1 | audio.is_stereo
    packet_type = b"" if audio.packet_type is None else bytes((audio.packet_type,))
    return bytes((first,)) + packet_type + audio.body
