"""Which of a node's publishers are silent, and what the database was told of it: only changes are written."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ingest import sharedclock
from ingest.consumers.active import ACTIVE
from ingest.contracts import Sample

SILENT_MS = 1000
"""Without audio and video. Short enough to be told before an encoder that lost its connection is back."""

SAME = timedelta(seconds=0.5)
"""Two figures for the beginning of one silence differ by less, whatever the clocks."""


@dataclass(frozen=True, slots=True)
class Change:
    """`silent`: since when; `speaking`: media come again."""

    silent: dict[uuid.UUID, datetime]
    speaking: set[uuid.UUID]

    def __bool__(self) -> bool:
        return bool(self.silent or self.speaking)


class Silences:
    def __init__(self) -> None:
        self._heard: dict[uuid.UUID, datetime | None] = {}
        """Of each publisher: since when it is silent, or None."""
        self._told: dict[uuid.UUID, datetime] = {}

    def heard(self, samples: Sequence[Sample]) -> None:
        """The samples of a second, in order; a session without any has ended."""
        self._heard = {}
        for sample in samples:
            if session := ACTIVE.get(sample.session):
                session.silent_since = self._heard[session.id] = _since(sample)
        self._told = {session: at for session, at in self._told.items() if session in self._heard}

    def change(self) -> Change:
        """What the database doesn't know yet."""
        silent = {
            session: since
            for session, since in self._heard.items()
            if since is not None and ((told := self._told.get(session)) is None or abs(since - told) > SAME)
        }
        return Change(silent, {session for session in self._told if self._heard.get(session) is None})

    def told(self, change: Change) -> None:
        self._told |= change.silent
        for session in change.speaking:
            self._told.pop(session, None)


def _since(sample: Sample) -> datetime | None:
    if sample.idle_ms < SILENT_MS:
        return None
    return sharedclock.of(sample.at_us / 1e6 - sample.idle_ms / 1000)
