"""The codecs that go into fragmented MP4 here, and what libav, players and playlists have to be told of each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ingest.hls.frames import Frame, Key
from ingest.rtmp.codecs import AudioConfig, VideoConfig, audio_config, video_config
from ingest.rtmp.media import ExtendedAudio, ExtendedVideo, Track
from ingest.rtmp.media_tags import AudioPacket, VideoPacket, codec_name

Config = AudioConfig | VideoConfig

OPUS_RATE: Final = 48_000
LONG_AAC: Final = ("mp4a.40.5", "mp4a.40.29")
"""With spectral band replication, whose frames have twice the samples."""
AAC_SAMPLES: Final = 1024
MP3_LOW_RATE: Final = 24_000
"""Hz, up to which it is MPEG-2's, of half the samples."""
FLAC_MAGIC: Final = b"fLaC"
OPUS_STEREO: Final = (
    b"OpusHead" + bytes((1, 2)) + (312).to_bytes(2, "little") + OPUS_RATE.to_bytes(4, "little") + bytes(3)
)
"""Version 1, two channels, samples to skip, rate, no gain, the plain mapping (RFC 7845, 5.1)."""
OPUS_MS: Final = (10.0, 20.0, 40.0, 60.0)
OPUS_CELT_MS: Final = (2.5, 5.0, 10.0, 20.0)


def _aac_samples(config: AudioConfig, header: bytes, frame: bytes) -> int:
    """960 where the header says so (frameLengthFlag), which stands behind type, rate and channels in the plain form."""
    is_plain = len(header) >= 2 and header[0] >> 3 < 5 and (header[0] & 7) << 1 | header[1] >> 7 != 15
    samples = 960 if is_plain and header[1] & 4 else AAC_SAMPLES
    return 2 * samples if config.codec_string in LONG_AAC else samples


def _mp3_samples(config: AudioConfig, header: bytes, frame: bytes) -> int:
    return 1152 if (config.sample_rate or 0) > MP3_LOW_RATE else 576


def _ac3_samples(config: AudioConfig, header: bytes, frame: bytes) -> int:
    return 1536


def _opus_samples(config: AudioConfig, header: bytes, frame: bytes) -> int:
    """The table of contents (RFC 6716, 3.1): configuration (5 bits), stereo (1), how many frames (2)."""
    number = frame[0] >> 3
    each = OPUS_MS[number & 3] if number < 12 else OPUS_MS[number & 1] if number < 16 else OPUS_CELT_MS[number & 3]
    kind = frame[0] & 3
    count = 1 if kind == 0 else 2 if kind < 3 else frame[1] & 63 if len(frame) > 1 else 0
    samples = round(each * OPUS_RATE / 1000) * count
    return samples if 0 < samples <= 5760 else 0


def _flac_samples(config: AudioConfig, header: bytes, frame: bytes) -> int:
    """Where all blocks have one size: the least and the largest (16 bits each) stand first in STREAMINFO."""
    return int.from_bytes(header[:2], "big") if len(header) >= 4 and header[:2] == header[2:4] else 0


EAC3_BLOCKS: Final = (1, 2, 3, 6)
"""numblkscod: of 256 samples each."""


def _eac3_samples(config: AudioConfig, header: bytes, frame: bytes) -> int:
    """fscod (2 bits) and numblkscod (2) stand behind the 32 bits of the sync word, type and size."""
    if len(frame) < 5:
        return 0
    return 256 * (6 if frame[4] >> 6 == 3 else EAC3_BLOCKS[frame[4] >> 4 & 3])


Samples = Callable[[AudioConfig, bytes, bytes], int]
"""Of one frame, from its configuration, header and bytes; 0: it can't be told."""


@dataclass(frozen=True, slots=True)
class Codec:
    samples: Samples | None = None
    """Of audio."""
    sample_entry: str = ""
    """Where libav would choose another."""
    is_told_by_frames: bool = False
    """There is no header, or it tells nothing."""
    needs_frame: bool = False
    """libav writes its configuration by a first frame."""
    marks: tuple[bytes, ...] = (b"",)
    """What a header may begin with; libav takes others for another layout."""


CODECS: Final = {
    b"avc1": Codec(marks=(b"\x01",)),
    b"hvc1": Codec(sample_entry="hvc1", marks=(b"\x01",)),
    b"av01": Codec(marks=(b"\x81",)),
    b"vp09": Codec(),
    b"mp4a": Codec(_aac_samples),
    b"Opus": Codec(_opus_samples, marks=(b"OpusHead",)),
    b"fLaC": Codec(_flac_samples),
    b".mp3": Codec(_mp3_samples, is_told_by_frames=True),
    b"ac-3": Codec(_ac3_samples, is_told_by_frames=True, needs_frame=True),
    b"ec-3": Codec(_eac3_samples, is_told_by_frames=True, needs_frame=True),
}
STRINGS: Final = {b"Opus": "Opus", b"fLaC": "fLaC"}
"""Of CODECS, where players know another form than RFC 6381's of a configuration."""


def name_of(fourcc: bytes) -> str:
    return codec_name(fourcc) if len(fourcc) == 4 else fourcc.decode("ascii", "replace")


def bare_header(fourcc: bytes, header: bytes) -> bytes:
    """As libav keeps it: FLAC's STREAMINFO alone. Opus may go without (Enhanced RTMP v2): then it is stereo."""
    if fourcc == b"Opus" and not header:
        return OPUS_STEREO
    return header[8:42] if fourcc == b"fLaC" and header.startswith(FLAC_MAGIC) else header


def read_config(key: Key, fourcc: bytes, header: bytes, frame: Frame | None) -> Config | None:
    """By header and frame, as far as they tell; None where that is not enough to play it."""
    kind, _ = key
    if kind == "video":
        return _video(fourcc, header, frame)
    config = audio_config(ExtendedAudio(AudioPacket.SEQUENCE_START, (Track(fourcc, header),)))
    if CODECS[fourcc].is_told_by_frames and frame is not None:
        config = audio_config(ExtendedAudio(AudioPacket.CODED_FRAMES, (Track(fourcc, frame.data),)))
    if config is None or not config.sample_rate:
        return None
    if fourcc == b".mp3":
        config.codec_string = "mp4a.6B" if config.sample_rate > MP3_LOW_RATE else "mp4a.69"
    config.codec_string = STRINGS.get(fourcc, config.codec_string)
    return config if config.codec_string else None


def _video(fourcc: bytes, header: bytes, frame: Frame | None) -> VideoConfig | None:
    config = video_config(ExtendedVideo(VideoPacket.SEQUENCE_START, (Track(fourcc, header),)))
    if config is None:
        return None
    if not config.width and frame is not None and frame.is_keyframe:
        seen = video_config(ExtendedVideo(VideoPacket.CODED_FRAMES_X, (Track(fourcc, frame.data),)))
        if seen is not None and seen.width and seen.height:
            config.set_size(seen.width, seen.height)
            config.codec_string = config.codec_string or _vp9_string(seen)
    return config if config.codec_string and config.width and config.height else None


def _vp9_string(seen: VideoConfig) -> str | None:
    """Without a header: profile and depth as frames tell them, and the level as unknown as it is (1.0)."""
    profile = (seen.profile or "").removeprefix("Profile ")
    return f"vp09.{int(profile):02d}.10.{seen.bit_depth or 8:02d}" if profile.isdigit() else None
