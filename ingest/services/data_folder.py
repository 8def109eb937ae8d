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

OWN = {"broker", "copies", "lake", "recordings", "spark"}
"""Folders of a data folder with what is nobody else's business,"""
FOLDERS = {*OWN, "static", "bench", "fuzz", "tests", "lost+found"}
"""and all that it may have: also of the project's own tests and measurements, and that of a disk of its own."""
FILES = "rtmpweb"
"""With which the names of its files begin: the database's, and the secrets'."""


def make_folder(path: Path) -> None:
    """The folder, and those above it, unless it is there; then it is closed to others. Raises OSError.

    Of one that is for more than an installation, such as /srv or a home, only what is an installation's is closed: the
    rest of the machine may need what else is there. See `is_open`.
    """
    path.mkdir(mode=FOLDER, parents=True, exist_ok=True)
    with suppress(OSError):
        if not is_open(path):
            return
        entries = list(path.iterdir())
        if not any(_is_foreign(entry) for entry in entries):
            close(path)
        for entry in entries:
            if not entry.is_symlink() and _is_own(entry):
                close(entry)


def close(path: Path) -> None:
    """Takes from others what they may do with a file or folder of this user's, if it is there.

    A folder like /tmp, in which many keep files, is left as it is.
    """
    with suppress(OSError):
        found = path.stat()
        mode = stat.S_IMODE(found.st_mode)
        if mode & OTHERS and not mode & stat.S_ISVTX and found.st_uid == os.geteuid():
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


def _is_own(entry: Path) -> bool:
    return entry.name in OWN if entry.is_dir() else entry.name.startswith(FILES)


def _is_foreign(entry: Path) -> bool:
    """Whether it is a folder that no installation has, or another user's file."""
    if entry.is_dir():
        return entry.name not in FOLDERS
    return entry.lstat().st_uid != os.geteuid()
