"""Who computes which hours and days: each is locked for a minute, which the run's heartbeat makes longer.

A lock is a token in the partition's row, taken and given back by compare-and-swap. What a run has done counts only
while its token still stands there: one that stood still, and whose work another has taken up, changes nothing any more.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import uuid4

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from analytics import ledger
from analytics.ledger import HOUR, State, backoff, day_of
from analytics.models import METRIC_VERSION, AnalyticsRun, Grain, Partition
from analytics.schemas import Computed

LOCKED_FOR = timedelta(seconds=60)
MOST_ERROR = 2000
"""Characters that are kept of what went wrong."""


class LockLost(Exception):  # noqa: N818
    """Another has taken up the work since."""

    def __init__(self, name: str = "its work") -> None:
        super().__init__(f"Another run has taken up {name} meanwhile.")


@dataclass(slots=True)
class Lock:
    """The partitions of one grain that one process computes."""

    grain: Grain
    token: str = field(default_factory=lambda: uuid4().hex)
    starts: list[datetime] = field(default_factory=list)

    def renew(self) -> None:
        self._held().update(locked_until=timezone.now() + LOCKED_FOR)

    def holds(self, start: datetime) -> bool:
        """Whether it is still ours. Inside a transaction nobody else can take it before that ends."""
        return bool(self._held(start).update(locked_until=timezone.now() + LOCKED_FOR))

    def require(self, start: datetime) -> None:
        """Raises LockLost."""
        if not self.holds(start):
            raise LockLost(f"the {self.grain} {start:%Y-%m-%d %H:%M}")

    @transaction.atomic
    def done(
        self, start: datetime, computed: Computed, *, fingerprint: str, files: int, damaged_files: int = 0
    ) -> None:
        """Notes the result, and what has to be done on account of it. Raises LockLost."""
        self.require(start)
        row = Partition.objects.get(grain=self.grain, start=start)
        self._held(start).update(
            **_unlocked(State.DONE),
            attempts=0,
            error="",
            fingerprint=fingerprint,
            metric_version=METRIC_VERSION,
            tail=computed.tail,
            files=files,
            rows_read=computed.rows,
            strays=computed.strays,
            damaged_files=damaged_files,
            rows_written=computed.rows_written,
            processed_at=timezone.now(),
        )
        if self.grain == Grain.HOUR:
            # One that is as it was, too: its day may have been made while a run that was killed had it away.
            ledger.note_pending(Grain.DAY, [day_of(start)])
        if computed.tail != row.tail:
            following = Partition.objects.filter(grain=self.grain, start=start + HOUR, state=State.DONE)
            following.update(state=State.PENDING, attempts=0)

    def failed(self, start: datetime, error: str) -> datetime | None:
        """Notes that it failed; when it may be begun again. None: it is not ours any more."""
        row = self._held(start).first()
        if row is None:
            return None
        retry_at = timezone.now() + backoff(row.attempts)
        self._held(start).update(**_unlocked(State.FAILED) | {"retry_at": retry_at, "error": error[:MOST_ERROR]})
        return retry_at

    def release(self, *, begun: bool = False) -> None:
        """Gives back what is neither done nor failed. `begun`: it counts as an attempt."""
        self._held().update(**_unlocked(State.PENDING), attempts=F("attempts") - (0 if begun else 1))

    @transaction.atomic
    def compacted(self, start: datetime, *, fingerprint: str, files: int) -> None:
        """Notes that other files hold the same, so that hour and day are as done as they were, and gives the hour back.

        Raises LockLost.
        """
        self.require(start)
        day = Partition.objects.filter(grain=Grain.DAY, start=day_of(start), fingerprint=_of_day(start)).first()
        self._held(start).filter(state=State.DONE).update(
            fingerprint=fingerprint, files=files, compacted_at=timezone.now()
        )
        if day:
            Partition.objects.filter(pk=day.pk).update(fingerprint=_of_day(start))
        self.give_back()

    def give_back(self) -> None:
        """After `hold`."""
        self._held().update(lock="", locked_until=None)

    def _held(self, start: datetime | None = None) -> "QuerySet[Partition]":
        held = Partition.objects.filter(grain=self.grain, lock=self.token)
        return held.filter(start=start) if start else held


def take(run: AnalyticsRun | None, grain: Grain, starts: Iterable[datetime]) -> Lock:
    """Locks those that nobody computes, which may be none."""
    lock, now = Lock(grain), timezone.now()
    nobodys = Partition.objects.filter(ledger.free(now), grain=grain, start__in=list(starts))
    nobodys.update(
        lock=lock.token,
        locked_until=now + LOCKED_FOR,
        state=State.RUNNING,
        attempts=F("attempts") + 1,
        retry_at=None,
        run=run,
    )
    lock.starts = list(lock._held().order_by("start").values_list("start", flat=True))
    return lock


def hold(start: datetime) -> Lock | None:
    """Locks an hour that is done, for who does something else to it than compute it. None: it is not to be had."""
    lock, now = Lock(Grain.HOUR, starts=[start]), timezone.now()
    nobodys = Partition.objects.filter(ledger.free(now), grain=Grain.HOUR, start=start, state=State.DONE)
    return lock if nobodys.update(lock=lock.token, locked_until=now + LOCKED_FOR) else None


def expire(run: AnalyticsRun) -> None:
    """Lets others take at once what the run has locked, as its process is known to be lost."""
    held = Partition.objects.filter(run=run, state=State.RUNNING).exclude(lock="")
    held.update(locked_until=timezone.now())


def _of_day(start: datetime) -> str:
    """Of what the day of an hour would be made from now; "": it can't be made."""
    day = ledger.Days().find(day_of(start))
    return day.fingerprint() if day else ""


def _unlocked(state: State) -> dict[str, object]:
    return {"state": state, "lock": "", "locked_until": None, "retry_at": None}
