"""Where an input is cut: by its own bytes, so that a find is found again."""

from collections.abc import Sequence
from zlib import crc32


def pieces(data: bytes) -> Sequence[bytes]:
    """Three."""
    size = len(data) + 1
    first, second = sorted((crc32(data) % size, crc32(data, 1) % size))
    return data[:first], data[first:second], data[second:]
