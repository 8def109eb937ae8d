"""Recorded connections (tests/captures): the bytes of client and server, handshake included."""

import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.rtmpdecode import decode_stream

CAPTURES: Final = Path(__file__).parent / "captures"
RECORDINGS: Final[list[dict[str, Any]]] = json.loads((CAPTURES / "recordings.json").read_text())
NAMES: Final[list[str]] = [recording["name"] for recording in RECORDINGS]


@cache
def from_client(name: str) -> bytes:
    return (CAPTURES / f"{name}.c2s.bin").read_bytes()


@cache
def _servers() -> dict[str, bytes]:
    with tarfile.open(CAPTURES / "s2c.tar.xz") as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


def from_server(name: str) -> bytes:
    return _servers()[f"{name}.s2c.bin"]


decoded = cache(decode_stream)
"""The messages, by the independent decoder. We keep them, as several tests use the same."""
