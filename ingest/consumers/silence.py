"""Which of a node's publishers are silent, and what the database was told of it: only changes are written."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

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


NO_CHANGE: Final = Change({}, set())


class Silences:
    def __init__(self) -> None:
        self._silent: dict[uuid.UUID, datetime] = {}
        """The publishers that are silent, and since when,"""
        self._told: dict[uuid.UUID, datetime] = {}
        """and what the database knows of that, of publishers that are still here."""

    def heard(self, samples: Sequence[Sample]) -> None:
        """The samples of a second, in order; a session without any has ended."""
        silent = self._silent = {}
        heard = set()
        for sample in samples:
            session = ACTIVE.get(sample.session)
            if session is None:
                continue
            if sample.idle_ms >= SILENT_MS:
                since = sharedclock.of(sample.at_us / 1e6 - sample.idle_ms / 1000)
                session.silent_since = silent[session.id] = since
            elif session.silent_since is not None:
                session.silent_since = None
                silent.pop(session.id, None)
            if self._told:
                heard.add(session.id)
        if self._told:
            self._told = {session: at for session, at in self._told.items() if session in heard}

    def change(self) -> Change:
        """What the database doesn't know yet."""
        told = self._told
        if not self._silent and not told:
            return NO_CHANGE
        silent = {
            session: since
            for session, since in self._silent.items()
            if (at := told.get(session)) is None or abs(since - at) > SAME
        }
        return Change(silent, told.keys() - self._silent.keys())

    def told(self, change: Change) -> None:
        self._told |= change.silent
        for session in change.speaking:
            self._told.pop(session, None)
