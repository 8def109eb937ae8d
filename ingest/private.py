"""What an installation keeps is its system user's alone: the data folder, the database's files, files with secrets."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from django.conf import settings

FOLDER = 0o700
FILE = 0o600
OTHERS = 0o077
"""The rights of the group and of everybody: what a folder or file has none of, and the umask."""


def make_folder(path: Path) -> None:
    """The folder, and those above it, unless it is there; then it is closed to others. Raises OSError."""
    path.mkdir(mode=FOLDER, parents=True, exist_ok=True)
    close(path)


def close(path: Path) -> None:
    """Takes from others what they may do with a file or folder, if it is there and this user may: see `is_open`.

    A folder like /tmp, in which many keep files, is left as it is.
    """
    with suppress(OSError):
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & OTHERS and not mode & stat.S_ISVTX:
            path.chmod(mode & ~OTHERS)


def is_open(path: Path) -> bool:
    """Whether others may do anything with it. Raises OSError."""
    return bool(path.stat().st_mode & OTHERS)


def restrict_new_files() -> None:
    """What this process and its children make from now on is this user's alone.

    Not where the lake or the recordings are outside the data folder: others may share these, as the umask says that the
    process was started with.
    """
    if all(folder.is_relative_to(settings.DATA_DIR) for folder in (settings.LAKE_DIR, settings.RECORDINGS_DIR)):
        os.umask(OTHERS)
