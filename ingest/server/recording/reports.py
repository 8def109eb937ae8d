"""What becomes of a recording, as its writer tells it."""

import errno
from dataclasses import dataclass
from typing import Final, Literal

from ingest.flv import FlvError

State = Literal["started", "closed", "failed", "over"]

START: Final = "NetStream.Record.Start"
STOP: Final = "NetStream.Record.Stop"
FAILED: Final = "NetStream.Record.Failed"
NO_ACCESS: Final = "NetStream.Record.NoAccess"
DISK_FULL: Final = "NetStream.Record.DiskQuotaExceeded"

CODES: Final = {
    errno.ENOSPC: DISK_FULL,
    errno.EDQUOT: DISK_FULL,
    errno.EFBIG: DISK_FULL,
    errno.EACCES: NO_ACCESS,
    errno.EPERM: NO_ACCESS,
    errno.EROFS: NO_ACCESS,
}
"""By the system's error; for others it is FAILED."""


class RecordingError(Exception):
    """Recording can't go on: `code` for the publisher, and the text for the operator."""

    def __init__(self, code: str, description: str) -> None:
        super().__init__(description)
        self.code = code


def said(error: OSError | FlvError | ValueError | RecordingError) -> RecordingError:
    """An error of the disk or of the file that is appended to, in words."""
    if isinstance(error, RecordingError):
        return error
    if isinstance(error, OSError):
        return RecordingError(CODES.get(error.errno or 0, FAILED), f"{error.strerror or error}.")
    return RecordingError(FAILED, f"{error}.")


@dataclass(frozen=True, slots=True)
class Report:
    """A file was begun or is closed; or recording failed: with a `file`, that one is closed as far as it could be.

    The last one, `over`, says that nothing more is written of the session.
    """

    state: State
    name: str = ""
    """Under which it is played."""
    file: str = ""
    """Its path, relative to the folder."""
    began: float = 0.0
    """Seconds since the epoch; of a file that is continued, 0."""
    is_continued: bool = False
    """It was there before."""
    duration_ms: int = 0
    """Of the whole file."""
    size_bytes: int = 0
    dropped_frames: int = 0
    """Of the session so far, since the disk was behind."""
    code: str = ""
    description: str = ""
