"""Log records: what each is about, and a bound on what others can have a process log.

The context goes with the code that runs, so that no call has to hand it on. A connection's application runs in a task
of its own, made within `about(connection=..., client=...)`: every record of it, of its tasks and of the threads that it
asks has these fields. The handlers of `rtmpweb.logs` write them."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

FIELDS = ("session_id", "stream", "client", "connection")
"""Session id, public path (application/name), the peer's address, the connection's id in this process's log."""

_current: ContextVar[Mapping[str, str]] = ContextVar("rtmpweb_log", default=MappingProxyType({}))


@contextmanager
def about(**fields: str) -> Iterator[None]:
    """Records that are made within, and by tasks that are started within, have these fields (of FIELDS) too."""
    token = _current.set({**_current.get(), **fields})
    try:
        yield
    finally:
        _current.reset(token)


def current() -> Mapping[str, str]:
    return _current.get()


LONGEST_PATH = 200
"""Characters of a path that somebody asked for: it may have thousands."""


class Bound:
    """So many lines, or other messages, in so many seconds. What goes beyond is counted."""

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
