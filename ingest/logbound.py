"""A bound on what others can have a process log."""

import time

LONGEST_PATH = 200
"""Characters of a path that somebody asked for: it may have thousands."""


class Bound:
    """So many lines in so many seconds. What goes beyond is counted."""

    def __init__(self, lines: int, seconds: float = 1.0) -> None:
        self._lines = lines
        self._seconds = seconds
        self._span = 0
        self._logged = 0
        self._left_out = 0

    def take(self) -> int | None:
        """None: leave the line out. Else the number of those that were left out since the last one."""
        span = int(time.monotonic() / self._seconds)
        if span != self._span:
            self._span, self._logged = span, 0
        if self._logged >= self._lines:
            self._left_out += 1
            return None
        self._logged += 1
        left_out, self._left_out = self._left_out, 0
        return left_out


def more(left_out: int) -> str:
    """What a line says at its end of those before it."""
    return f" (and {left_out} more since this was logged last)" if left_out else ""
