"""What a target is."""

from collections.abc import Callable, Iterable
from typing import NamedTuple


class Target(NamedTuple):
    run: Callable[[bytes], None]
    """Takes any bytes. Whatever it raises is a find."""
    seeds: Callable[[], Iterable[bytes]]
    longest: int = 2048
    """Bytes of the longest input."""
