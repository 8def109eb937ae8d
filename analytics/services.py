"""Runs of the analytics: ask for one, claim it, follow it; why one ends before its time.

What a run does is in analytics.pipeline."""

import logging
import os
import socket
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, Required, TypedDict, Unpack

from celery import current_app
from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.expressions import Combinable
from django.utils import timezone
from kombu.exceptions import ChannelError, OperationalError

from analytics import ledger, locks
from analytics.java import JavaMissing, find_java
from analytics.models import AnalyticsRun, Grain, Partition, RunLine
from ingest import clean
from ingest.services.database import PASSING
from ingest.services.retention import in_pieces

FULL = "No space left on device"
FULL_DATABASE = "database or disk is full"  # SQLite's words.
CAUSE = "Caused by: "
MOST_WORDS = 500


class Stopped(Exception):  # noqa: N818
    """The run can't go on, whatever it would compute next."""

    def __init__(self, code: AnalyticsRun.ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class SparkGone(Exception):  # noqa: N818
    """Spark's JVM was lost over the same work again."""


def systemic(error: BaseException) -> Stopped | None:
    """Stopped, where an error would hit the next hour as well."""
    message = str(error)
    if FULL in message or FULL_DATABASE in message:
        text = f"{FULL}. Free some where the lake, the database and Spark's temporary files (RTMPWEB_DATA_DIR) are."
        return Stopped(AnalyticsRun.ErrorCode.FAILED, text)
    if isinstance(error, DatabaseError):
        return Stopped(AnalyticsRun.ErrorCode.FAILED, f"The database: {error_words(error)}")
    return None


def error_words(error: BaseException) -> str:
    """One line: what it was at the root, as far as it says. Java's errors are as long as their stack."""
    lines = str(error).strip().splitlines() or ["no description"]
    causes = [line.partition(CAUSE)[2] for line in lines if line.startswith(CAUSE)]
    return f"{type(error).__name__}: {causes[-1] if causes else lines[0]}"[:MOST_WORDS]


log = logging.getLogger(__name__)

State, Trigger, ErrorCode = AnalyticsRun.State, AnalyticsRun.Trigger, AnalyticsRun.ErrorCode

COMMAND_WAITS = timedelta(minutes=5)
"""A command claims its run itself, and does not wait for so long for another to end."""

KEEP_RUNS = timedelta(days=90)

MOST_FAILURES = 10
"""So many runs are looked at for how often they failed of late: enough for the longest pause."""

MOST_LINE = 1000

TASK = "analytics.tasks.run_analytics"
"""By its name, as tasks stand on services."""

LOST = "The process that ran this was lost. The next run, within a minute or two, takes up what it left undone."
UNSENT = "The task queue can't be reached. Check that it is running; a minute after it is back, the run is repeated."


class Busy(Exception):  # noqa: N818
    """Another run is going on."""


class RunRequest(TypedDict, total=False):
    """What whoever asks for a run may say of it: fields of its row."""

    trigger: Required[AnalyticsRun.Trigger]
    requested_by: AbstractBaseUser | None
    kind: str
    since: datetime | None
    until: datetime | None


def start_run(**asked: Unpack[RunRequest]) -> AnalyticsRun:
    """Queues a run for the analytics worker; the one that is waiting or going on already if there is one."""
    active = active_run()
    run = active or create_run(**asked)
    if active is None or _is_untaken(active):
        _send(run)
    return run


def start_scheduled() -> None:
    """Asks for a run, unless this machine has no Java to run it with."""
    if not settings.SPARK_REMOTE:
        try:
            find_java()
        except JavaMissing as error:
            log.warning("%s", error)
            return
    start_run(trigger=Trigger.SCHEDULE)


def request_run() -> None:
    """The same for whoever asks again and again: not while it rests after runs that failed."""
    if not _backs_off(_lately_ended(), timezone.now()):
        start_scheduled()


def create_run(**asked: Unpack[RunRequest]) -> AnalyticsRun:
    """A run that is to be claimed; nobody is told."""
    return AnalyticsRun.objects.create(stage="Waiting for the analytics worker", **asked)


def same_work(run: AnalyticsRun | None) -> dict[str, Any]:
    """The fields of a run that is to do what another was to."""
    return {"kind": run.kind, "since": run.since, "until": run.until} if run else {}


def resume_pending() -> None:
    """Asks for a run when the ledger shows work that nobody does, or a queue or a process has lost one: each minute.

    The ledger knows what runs have found to do and have not done, whatever became of them. Runs that fail one after the
    other without getting anything done are asked for less and less often.
    """
    active = active_run()
    if active is not None:
        if _is_untaken(active) and active.trigger != Trigger.COMMAND:  # The command claims its run itself.
            _send(active, expires_s=settings.RUN_RESENT_S)
        return
    ended, now = _lately_ended(), timezone.now()
    latest = ended[0] if ended else None
    if latest is not None and latest.error_code == ErrorCode.QUEUE:
        start_run(trigger=Trigger.SCHEDULE, kind=latest.kind)
        return
    if _backs_off(ended, now):
        return
    # What others say of a lost run is LOST: nobody was left to say why it failed.
    if ledger.due(now) or (_failures(ended) == 1 and latest is not None and latest.error == LOST):
        start_run(trigger=Trigger.SCHEDULE)


def _is_untaken(run: AnalyticsRun) -> bool:
    """Whether no worker took it for so long that the queue may have lost it."""
    return run.state == State.QUEUED and timezone.now() - run.requested_at > timedelta(seconds=settings.RUN_RESENT_S)


def _lately_ended() -> list[AnalyticsRun]:
    """The latest first."""
    return list(AnalyticsRun.objects.filter(ended_at__isnull=False)[:MOST_FAILURES])


def _failures(ended: list[AnalyticsRun]) -> int:
    """How many failed one after the other, up to the latest, without getting anything done.

    What the queue refused has not been tried.
    """
    tried = [run for run in ended if run.error_code != ErrorCode.QUEUE]
    return len(list(takewhile(lambda run: run.state == State.FAILED and not run.done, tried)))


def _backs_off(ended: list[AnalyticsRun], now: datetime) -> bool:
    """Whether it is too early to try again. `ended`: runs, the latest first."""
    if not ended:
        return False
    latest = ended[0]
    if latest.error_code == ErrorCode.JAVA_MISSING:
        return True  # Until somebody installs it, who then asks for a run; or the next hour comes.
    return latest.ended_at is not None and now < latest.ended_at + ledger.backoff(_failures(ended) - 1)


def _send(run: AnalyticsRun, expires_s: float | None = None) -> None:
    try:
        current_app.send_task(TASK, (run.pk,), retry=False, expires=expires_s)
    except (OperationalError, ChannelError, OSError) as error:
        log.error("Analytics run %d can't be queued: %s", run.pk, error)
        fail(run, code=ErrorCode.QUEUE, error=UNSENT)


def clear_failures(partitions: "QuerySet[Partition]") -> int:
    """Lets those that have failed be begun at once, as if it had never been; how many."""
    failed = partitions.filter(state=Partition.State.FAILED)
    return failed.update(state=Partition.State.PENDING, attempts=0, retry_at=None)


def recompute(since: datetime, until: datetime) -> int:
    """Marks what is done of the hours within since <= hour < until, and their days, to be done anew; how many.

    Hours whose samples the lake no longer has stay as they are. No run is asked for: `resume_pending` does.
    """
    hours = list(ledger.scan(settings.LAKE_DIR, since, until))
    done = Partition.objects.filter(state=Partition.State.DONE, sealed_at=None)
    return sum(
        done.filter(grain=grain, start__in=starts).update(state=Partition.State.PENDING, attempts=0, retry_at=None)
        for grain, starts in ((Grain.HOUR, hours), (Grain.DAY, {ledger.day_of(hour) for hour in hours}))
    )


def prune_runs(*, now: datetime) -> int:
    """Deletes runs that are long over, with their lines, in small pieces; how many rows went."""
    old = AnalyticsRun.objects.filter(ended_at__lt=now - KEEP_RUNS).order_by("ended_at")
    return in_pieces(RunLine.objects.filter(run__in=old).order_by("pk"), old)


def claim(*, run_id: int) -> AnalyticsRun | None:
    """Makes a queued run the running one. None: it is not waiting (any more). Raises Busy while another runs."""
    end_lost_runs()
    now = timezone.now()
    try:
        with transaction.atomic():
            claimed = AnalyticsRun.objects.filter(pk=run_id, state=State.QUEUED).update(
                state=State.RUNNING, started_at=now, heartbeat_at=now, stage="Starting"
            )
    except IntegrityError:
        raise Busy from None
    if not claimed:
        return None
    run = AnalyticsRun.objects.select_related("requested_by").get(pk=run_id)
    asker = f" by {run.requested_by.get_username()}" if run.requested_by else ""
    log_line(run, f"Begins on {socket.gethostname()}, process {os.getpid()}; asked for{asker} ({run.trigger}).")
    return run


def heartbeat(*, run: AnalyticsRun) -> bool:
    """Says that the run's process lives. False: the run is over, as others have seen no sign of life of it."""
    going_on = AnalyticsRun.objects.filter(pk=run.pk, state=State.RUNNING)
    return bool(going_on.update(heartbeat_at=timezone.now()))


def log_line(run: AnalyticsRun, text: str, level: RunLine.Level = RunLine.Level.INFO) -> None:
    """A line of the run's log, which pages show, and of the process's own."""
    log.log(logging.getLevelNamesMapping()[level.upper()], "Analytics run %d: %s", run.pk, text)
    RunLine.objects.create(run=run, level=level, text=clean.text(text, MOST_LINE))


def update_progress(run: AnalyticsRun, **changed: str | int | Combinable) -> None:
    """`stage`: what the run is doing; `expected`: how many hours and days it is to compute."""
    AnalyticsRun.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now(), **changed)


def advance(run: AnalyticsRun, **rows: int) -> None:
    """One more hour or day is done. `rows_read`, `rows_written`: for it."""
    update_progress(run, done=F("done") + 1, **{name: F(name) + count for name, count in rows.items()})


def finish(run: AnalyticsRun) -> None:
    _end(run, state=State.DONE, stage="Done")
    log_line(
        run,
        f"Done: {run.done} hours and days in {run.duration_s or 0:.1f} s; "
        f"{run.rows_read:,} rows read, {run.rows_written:,} rollups written.",
    )


def fail(run: AnalyticsRun, *, code: AnalyticsRun.ErrorCode, error: str) -> None:
    if _end(run, state=State.FAILED, stage="Failed", error_code=code, error=error):
        log_line(run, error, RunLine.Level.ERROR)


def _end(run: AnalyticsRun, **fields: str) -> bool:
    waiting = AnalyticsRun.objects.filter(pk=run.pk, state__in=[State.QUEUED, State.RUNNING])
    ended = waiting.update(ended_at=timezone.now(), **fields)
    run.refresh_from_db()
    return bool(ended)


def end_lost_runs() -> None:
    now = timezone.now()
    since = now - timedelta(seconds=settings.RUN_LOST_S)
    silent = Q(state=State.RUNNING, heartbeat_at__lt=since)
    unclaimed = Q(state=State.QUEUED, trigger=Trigger.COMMAND, requested_at__lt=now - COMMAND_WAITS)
    for run in AnalyticsRun.objects.filter(silent | unclaimed):
        try:
            fail(run, code=ErrorCode.LOST, error=LOST)
            locks.expire(run)
        except PASSING as error:  # Nor could its sign of life be written; and who only reads is not refused for it.
            log.warning("Analytics run %d may be lost; that waits for the database: %s", run.pk, type(error).__name__)
            return
        log.error("Analytics run %d was lost: its last sign of life was at %s.", run.pk, run.heartbeat_at or "no time")


def active_run() -> AnalyticsRun | None:
    """The run that is going on, else the oldest that waits."""
    end_lost_runs()
    active = AnalyticsRun.objects.filter(state__in=[State.QUEUED, State.RUNNING])
    return active.order_by("-started_at", "requested_at").first()
