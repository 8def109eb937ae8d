"""Where a recording's file is: a path below the folder of recordings, made from names that peers may have chosen."""

import hashlib
import time
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote

SAFE: Final = "!()+,;=@"
"""Besides letters, digits and `_.-~`. All else is percent-encoded: what a name is stands in the database as well."""

MOST_BYTES: Final = 200
"""Of an encoded name. File systems take 255, and what tells one recording from another is still to come."""

MOST_OF_A_NAME: Final = 220
"""Characters of a stream's name that are kept in a recording's own; 255 with the time."""

SUFFIX: Final = ".flv"


def stamp(at: float) -> str:
    """A time, seconds since the epoch, as it stands in names: `20261122T022149Z`."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))


def own_name(name: str, at: float, number: int = 1) -> str:
    """What a recording of a stream that began at a time is called, where each has a name of its own.

    `number`: of those that began in the same second.
    """
    return f"{name[:MOST_OF_A_NAME]}-{stamp(at)}{f'-{number}' if number > 1 else ''}"


def file_of(app: str, name: str, at: float, number: int = 1) -> PurePosixPath:
    """The path of such a recording, relative to the folder. None leads outside of it."""
    return PurePosixPath(_encoded(app), f"{own_name(_encoded(name), at, number)}{SUFFIX}")


def _encoded(name: str) -> str:
    encoded = quote(name, safe=SAFE, errors="surrogatepass")
    if encoded.startswith("."):  # Neither hidden nor a folder above.
        encoded = f"%2E{encoded[1:]}"
    if len(encoded) > MOST_BYTES:
        digest = hashlib.sha256(encoded.encode()).hexdigest()[:32]
        encoded = f"{encoded[: MOST_BYTES - len(digest) - 1]}%{digest}"
    return encoded
