"""What an operator can set of recording, each with its unit."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ingest.live import QueueLimits
from ingest.rtmp.limits import DEFAULT_LIMITS, MIB, Limits

QUEUE: Final = QueueLimits(messages=16_384, size_bytes=16 * MIB, seconds=10.0, spares=1.0, thinned=1.0)


@dataclass(frozen=True, slots=True)
class RecordingSettings:
    folder: Path
    """Files are at APPLICATION/NAME.flv below it; it is made when the first one is."""
    rotate_s: float = 3600.0
    """A session that is recorded since its application records all begins a new file after so long; 0: never."""
    rotate_bytes: int = 0
    """The same by the file's size; 0: never."""
    min_free_bytes: int = 1024 * MIB
    """Recording stops while the disk has less."""
    queue: QueueLimits = QUEUE
    """What may wait for the disk, of each recording, before frames are dropped up to the next keyframe. As much again
    may be under way to it."""
    memory_bytes: int = 256 * MIB
    """All recordings together may hold so much, waiting or under way: over it the longest queues are dropped."""
    threads: int = 4
    """That write, for all recordings of the node."""
    gather_s: float = 0.25
    """How long media gather before they are written and handed to the kernel: what `kill -9` loses."""
    sync_s: float = 10.0
    """Between two fsyncs of a file: what a loss of power loses. 0: only at its end."""
    stall_s: float = 10.0
    """A write that takes longer is told as a failure; the recording goes on when the disk does."""
    again_s: float = 30.0
    """After a failure the recording is tried again so much later, with the next keyframe."""
    lock_s: float = 5.0
    """To append waits so long for a file that somebody else still writes or closes: less than the queue holds."""
    limits: Limits = DEFAULT_LIMITS
    """For reading a file to which is appended, and what is in tags."""
