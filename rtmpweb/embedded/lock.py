"""One embedded server to a data folder: a lock that ends with its process, however that ends."""

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from ingest import private
from ingest.services.installation import StartError

NAME = "serve.lock"
LONGEST_NAME = 200
"""Characters of the holder's name that are read."""


def take(folder: Path) -> TextIO:
    """The lock, for as long as it stays open; who has it is written in it. Raises StartError."""
    try:
        lock = os.fdopen(os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, private.FILE), "r+")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with lock:
            holder = lock.read(LONGEST_NAME).strip()
        raise StartError(
            f"Another `serve` runs in the data folder {folder}{f': {holder}' if holder else ''}. Stop it first, "
            "or give this one a folder and ports of its own (RTMPWEB_DATA_DIR, RTMPWEB_HTTP and so on)."
        ) from None
    except OSError as error:
        raise StartError(
            f"The data folder {folder} can't be used: {NAME}: {error.strerror}. Let this user write there, or set "
            "RTMPWEB_DATA_DIR to another folder."
        ) from None
    with suppress(OSError):  # On a full disk it is held all the same.
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        lock.flush()
    return lock
