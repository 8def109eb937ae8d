"""What an installation keeps is its system user's alone: the data folder, the database's files, files with secrets."""

import errno
import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from django.conf import settings

FOLDER = 0o700
FILE = 0o600
OTHERS = 0o077
"""The rights of the group and of everybody: what a folder or file has none of, and the umask."""

SOCKETS = "sockets"
"""The folder of Unix sockets, by which the processes of one machine reach one another."""
LONGEST_SOCKET = 107
"""Bytes of a Unix socket's path (unix(7)),"""
LONGEST_SOCKET_NAME = 24
"""of which the name has so many at most."""

OWN = {"broker", "copies", "lake", "recordings", "spark", SOCKETS}
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


def socket_folder(folder: Path) -> Path:
    """Of a data folder, as a rule in it; where that makes too long a path, in the system's for temporary files."""
    inside = folder / SOCKETS
    if len(os.fsencode(inside)) + 1 + LONGEST_SOCKET_NAME <= LONGEST_SOCKET:
        return inside
    mark = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"rtmpweb-{os.geteuid()}-{mark}"


def make_socket_folder(folder: Path) -> Path:
    """The same, made if it isn't there. Raises OSError where it is not this user's alone."""
    found = socket_folder(folder)
    found.mkdir(mode=FOLDER, exist_ok=True)
    state = found.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it is another user's", str(found))
    close(found)
    return found


def leave_socket_folder(folder: Path) -> None:
    """At a process's end. Outside the data folder it goes with the last one that has a socket there."""
    found = socket_folder(folder)
    if not found.is_relative_to(folder):
        with suppress(OSError):
            found.rmdir()


def node_socket(folder: Path, node: str, kind: str) -> Path:
    """Of a node; `kind`: what for, in a word."""
    return socket_folder(folder) / f"{hashlib.sha256(node.encode()).hexdigest()[:16]}.{kind}"


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
