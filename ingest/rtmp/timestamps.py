"""Timestamps of 32 bits: milliseconds that wrap (RTMP 1.0, section 5.1)."""

from typing import Final

WRAP: Final = 1 << 32
HALF: Final = 1 << 31


def difference(later: int, earlier: int) -> int:
    """Milliseconds between two timestamps by serial arithmetic: right across the wrap, negative when time goes back."""
    return (later - earlier + HALF) % WRAP - HALF
