"""What audio and video messages say of themselves, and how to write such messages. Pure, and not on the media path:
`ingest.live.media` tells frames from headers there, by the first bytes alone.

    message = read_video(payload)
    if message and not message.fault: ...

| file              | subject                                                                 |
|-------------------|-------------------------------------------------------------------------|
| `kinds.py`        | the numbers and FourCC codes, and what codecs are called                |
| `legacy.py`       | headers with a codec id or sound format (FLV 10.1)                      |
| `extended.py`     | headers with a FourCC, tracks and extensions (Enhanced RTMP)            |
| `modex.py`        | extensions of a message, the offset in nanoseconds                      |
| `multichannel.py` | which channel is for which speaker                                      |
"""

from ingest.rtmp.limits import DEFAULT_LIMITS, Limits
from ingest.rtmp.media.extended import (
    ExtendedAudio,
    ExtendedVideo,
    Track,
    read_extended_audio,
    read_extended_video,
    write_extended_audio,
    write_extended_video,
)
from ingest.rtmp.media.kinds import EX_AUDIO
from ingest.rtmp.media.legacy import (
    LegacyAudio,
    LegacyVideo,
    read_legacy_audio,
    read_legacy_video,
    write_legacy_audio,
    write_legacy_video,
)

__all__ = [
    "ExtendedAudio",
    "ExtendedVideo",
    "LegacyAudio",
    "LegacyVideo",
    "Track",
    "read_audio",
    "read_video",
    "write_audio",
    "write_video",
]


def read_video(payload: bytes, limits: Limits = DEFAULT_LIMITS) -> LegacyVideo | ExtendedVideo | None:
    """A message of type 9; None for an empty one. Whatever it holds, nothing is raised."""
    if not payload:
        return None
    return read_extended_video(payload, limits) if payload[0] & 0x80 else read_legacy_video(payload)


def read_audio(payload: bytes, limits: Limits = DEFAULT_LIMITS) -> LegacyAudio | ExtendedAudio | None:
    """A message of type 8; None for an empty one, which stands for silence. Whatever it holds, nothing is raised."""
    if not payload:
        return None
    return read_extended_audio(payload, limits) if payload[0] >> 4 == EX_AUDIO else read_legacy_audio(payload)


def write_video(video: LegacyVideo | ExtendedVideo) -> bytes:
    """The payload. ValueError for what the layout can't say."""
    return write_extended_video(video) if isinstance(video, ExtendedVideo) else write_legacy_video(video)


def write_audio(audio: LegacyAudio | ExtendedAudio) -> bytes:
    """The payload. ValueError for what the layout can't say."""
    return write_extended_audio(audio) if isinstance(audio, ExtendedAudio) else write_legacy_audio(audio)
