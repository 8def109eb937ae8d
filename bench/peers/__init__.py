"""The servers that are measured: each a process on a free loopback port, in a folder of its own."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.server_process import Installation


@dataclass(frozen=True, slots=True)
class Server:
    """One that is ready."""

    pid: int
    """Of the process that serves RTMP, or keeps those that do."""
    url: str
    """rtmp://host:port"""
    app: str
    """An application that anybody may play from, and publish to: with a key, if it has `keys`."""
    log: Callable[[], str]
    """What it wrote."""
    installation: Installation | None = None
    """Ours: for its API."""
    alone: bool = False
    """Its children do not serve RTMP, and are counted apart: what makes the thumbnails."""
    workers: tuple[int, ...] = ()
    """Of several processes that serve RTMP, each counted as one that is `alone`."""
    all_pids: Callable[[], list[int]] | None = None
    """Of all the form's processes, but for their children, and for databases."""

    def processes(self) -> list[int]:
        return self.all_pids() if self.all_pids is not None else [self.pid]

    keys: tuple[str, ...] = ()
    """Each of a stream of its own."""


Start = Callable[[], AbstractContextManager[Server]]
