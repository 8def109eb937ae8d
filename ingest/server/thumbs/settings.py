"""What an operator can set of thumbnails, each with its unit."""

from dataclasses import dataclass

from ingest.rtmp.limits import MIB


@dataclass(frozen=True, slots=True)
class ThumbnailSettings:
    watched_s: float = 5.0
    """Between two pictures of a stream that somebody looks at."""
    unwatched_s: float = 30.0
    """The same while nobody does: what a page shows at first is no older."""
    per_s: int = 10
    """Pictures of all streams of the node, at most; where that is too few, each stream's come less often."""
    share: float = 0.25
    """Of one processor, which is not passed either: a picture of 1080p takes 5 to 15 ms, one of 4K four times that."""
    width: int = 320
    height: int = 180
    """What a picture fits into."""
    keyframe_bytes: int = 4 * MIB
    """Of a longer keyframe none is made."""
    side: int = 8192
    """Nor of one with more pixels across or down."""
    waiting_bytes: int = 8 * MIB
    """Of keyframes that wait for the decoder, about."""
    picture_s: float = 2.0
    """After so long the process is ended, and the picture is given up."""
    start_s: float = 15.0
    """The same for its start."""
    memory_bytes: int = 1024 * MIB
    """Address space that the process may have: about 160 MiB for itself, and 8192x8192 pixels."""
    pictures: int = 2000
    """After so many the process is started anew: whatever it may have leaked is free again."""
    idle_s: float = 60.0
    """Without a picture, after which the process ends."""
    again_s: float = 600.0
    """A stream whose pictures fail is tried half as often each time, but once in so long."""
