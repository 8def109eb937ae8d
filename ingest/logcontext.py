"""What a log record is about. It goes with the code that runs, so that no call has to hand it on.

A connection's application runs in a task of its own, made within `about(connection=..., client=...)`: every record of
it, of its tasks and of the threads that it asks has these fields. The handlers of `rtmpweb.logs` write them.
"""

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
