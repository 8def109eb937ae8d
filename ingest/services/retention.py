"""What is old goes: attempts, past bans, entries of the audit log, sessions with their events. Never an open session.

In small pieces with pauses between them: encoders are admitted meanwhile, and on SQLite one writes at a time.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from ingest.models import Attempt, AuditEntry, Ban, Session, StatusEvent

PIECE_S = 0.05
"""How long one deletion should hold the database; the next one is made smaller if it took longer."""
PAUSE_S = 0.05
PIECE_ROWS = 500
CHANGED_ROWS = 4000
"""Of a piece whose rows stay."""
SESSIONS_AT_ONCE = 50
RUN_S = 600.0
"""What is left after so long is for the next run."""


@dataclass(slots=True)
class Pruned:
    """How many rows went. `finished`: nothing old is left."""

    attempts: int = 0
    bans: int = 0
    sessions: int = 0
    events: int = 0
    audit: int = 0
    finished: bool = True


@dataclass(slots=True)
class _Run:
    ends: float
    """Monotonic."""
    most: int = PIECE_ROWS
    size: int = PIECE_ROWS // 4
    done: Pruned = field(default_factory=Pruned)

    @property
    def is_over(self) -> bool:
        self.done.finished = self.done.finished and time.monotonic() < self.ends
        return not self.done.finished

    def delete(self, rows: "QuerySet[Any]") -> int:
        """All the rows, or as many as the time allows; how many."""
        return self.each(rows, lambda piece: piece.only("pk").delete())  # Their other columns may be long.

    def each(self, rows: "QuerySet[Any]", action: Callable[["QuerySet[Any]"], object]) -> int:
        """Does it to pieces of the rows until there are none any more, or the time is over; how many there were."""
        count = 0
        while not self.is_over:
            pks = list(rows.values_list("pk", flat=True)[: self.size])
            if not pks:
                break
            started = time.monotonic()
            action(rows.model._default_manager.filter(pk__in=pks))
            took = time.monotonic() - started
            self.size = min(self.most, self.size * 2) if took < PIECE_S else max(1, self.size // 2)
            count += len(pks)
            time.sleep(PAUSE_S)
        return count


def prune(
    *, now: datetime, attempts_days: int, sessions_days: int, audit_days: int = 0, run_s: float = RUN_S
) -> Pruned:
    """Deletes what is older than so many days; 0: nothing of it. Sessions count from their end."""
    run = _Run(time.monotonic() + run_s)
    if attempts_days:
        before = now - timedelta(days=attempts_days)
        run.done.attempts = run.delete(Attempt.objects.filter(at__lt=before).order_by("at"))
        run.done.bans = run.delete(Ban.objects.filter(until__lt=before).order_by("until"))
    if audit_days:
        old = AuditEntry.objects.filter(at__lt=now - timedelta(days=audit_days))
        run.done.audit = run.delete(old.order_by("at"))
    if sessions_days:
        _sessions(run, now - timedelta(days=sessions_days))
    return run.done


def in_pieces(*rows: "QuerySet[Any]") -> int:
    """Deletes rows of other kinds in the same way; how many went."""
    run = _Run(time.monotonic() + RUN_S)
    return sum(run.delete(each) for each in rows)


def set_in_pieces(rows: "QuerySet[Any]", fields: Mapping[str, object], *, run_s: float = RUN_S) -> bool:
    """Changes rows so that they are none of these any more, in the same way. False: the time was not enough."""
    run = _Run(time.monotonic() + run_s, most=CHANGED_ROWS)
    run.each(rows.order_by(), lambda piece: piece.update(**fields))
    return run.done.finished


def _sessions(run: _Run, before: datetime) -> None:
    """Events first, as a session may have thousands."""
    old = Session.objects.filter(started_at__lt=before, ended_at__lt=before).order_by("started_at")
    while not run.is_over:
        found = list(old.values_list("pk", flat=True)[:SESSIONS_AT_ONCE])
        if not found:
            return
        run.done.events += run.delete(StatusEvent.objects.filter(session__in=found).order_by())
        if not run.is_over:
            run.done.sessions += run.delete(Session.objects.filter(pk__in=found).order_by())
