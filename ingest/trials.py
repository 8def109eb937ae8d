"""Test-only keys: what is published with one is a trial of its stream, beside what the stream itself is.

A trial lives under a path of its own, `app/name#test.KEY`. No stream can have that name and nothing a player asks for
leads to it, so the rest of the server needs to know nothing of it: it is measured and judged as any stream, under
whatever limits its stream has, and takes no lease. docs/adr/0010-test-only-keys.md says more.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from ingest.contracts import StreamSnapshot

MARK: Final = "#test."
"""In a live stream's name, before its key's number. Streams' names hold no '#' (`ingest.validators`)."""

MOST: Final = timedelta(minutes=10)
"""How long a trial goes on. Then it ends as test_over."""

REST: Final = timedelta(seconds=60)
"""After that its key is refused for so long: encoders come back as soon as they are dropped, and give up when they are
refused."""


def live_name(name: str, key: int) -> str:
    return f"{name}{MARK}{key}"


def is_trial(name: str) -> bool:
    """Of a live stream's name."""
    return MARK in name


def parted(snapshots: Iterable[StreamSnapshot]) -> tuple[list[StreamSnapshot], tuple[StreamSnapshot, ...]]:
    """Streams, and trials."""
    streams = list(snapshots)
    trials = tuple(snapshot for snapshot in streams if MARK in snapshot["name"])
    return [snapshot for snapshot in streams if MARK not in snapshot["name"]] if trials else streams, trials
