"""What is counted of a stream: of a publishing session, of its players, and of all there was."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ingest.contracts import MediaCounters


@dataclass(slots=True)
class Counters:
    """What the media path counts, since the session began. The timelines count the frames."""

    video_bytes: int = 0
    audio_bytes: int = 0
    data_bytes: int = 0
    keyframes: int = 0
    media_faults: int = 0


@dataclass(slots=True)
class Reading:
    """All counters of a session at one moment, since it began: a sample holds the growth from one to the next."""

    elapsed_ms: int = 0
    video_bytes: int = 0
    audio_bytes: int = 0
    data_bytes: int = 0
    wire_bytes: int = 0
    video_frames: int = 0
    audio_frames: int = 0
    keyframes: int = 0
    ts_gap: int = 0
    ts_regress: int = 0
    missing_frames_est: int = 0
    media_faults: int = 0
    out_bytes: int = 0
    dropped_frames: int = 0
    video_dts: int = 0
    """Milliseconds from the first frame to the latest."""


NOTHING_READ: Final = Reading()


@dataclass(frozen=True, slots=True)
class Audience:
    """A stream's players, counted since the stream was made."""

    players: int = 0
    slow_players: int = 0
    out_bytes: int = 0
    dropped_frames: int = 0


NOTHING_COUNTED: Final = MediaCounters(received_bytes=0, sent_bytes=0, video_frames=0, audio_frames=0, dropped_frames=0)


def added(counted: Iterable[MediaCounters]) -> MediaCounters:
    """All of them together."""
    several = list(counted)
    return MediaCounters(
        received_bytes=sum(each["received_bytes"] for each in several),
        sent_bytes=sum(each["sent_bytes"] for each in several),
        video_frames=sum(each["video_frames"] for each in several),
        audio_frames=sum(each["audio_frames"] for each in several),
        dropped_frames=sum(each["dropped_frames"] for each in several),
    )
