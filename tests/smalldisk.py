"""A disk of its own that is small, and full."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ZEROS = bytes(1 << 20)


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[bool]:
    """A tmpfs of so many bytes ("24m") at the folder. False: only root may mount one."""
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", place]).returncode:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """While not a block of it is free."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:  # Others may write meanwhile, so that what is free is not known before.
            file.write(ZEROS)
    try:
        yield
    finally:
        ballast.unlink()
