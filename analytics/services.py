"""Runs of the analytics: ask for one, claim it, follow it. Spark itself is in `analytics.pipeline`."""

import logging
from datetime import datetime, timedelta

from celery import current_app
from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone
from kombu.exceptions import ChannelError, OperationalError

from analytics.models import HEARTBEAT_LOST, METRIC_VERSION, AnalyticsRun

log = logging.getLogger(__name__)

State, Trigger, ErrorCode = AnalyticsRun.State, AnalyticsRun.Trigger, AnalyticsRun.ErrorCode

RESEND_AFTER = timedelta(seconds=60)
"""A request that no worker took in this time is sent again: by `take_up`, or when it is asked for again."""

TASK = "analytics.tasks.run_analytics"
"""By its name, as tasks stand on services."""

LOST = "The process that ran this was lost. The next run, within a minute or two, takes up what it left undone."
UNSENT = "The task queue can't be reached. Check that it is running; a minute after it is back, the run is repeated."


class Busy(Exception):  # noqa: N818
    """Another run is going on."""


def start_run(
    *, trigger: AnalyticsRun.Trigger, user: AbstractBaseUser | None = None, kind: str = AnalyticsRun.Kind.ALL
) -> AnalyticsRun:
    """Queues a run for the analytics worker; the one that is waiting or going on already if there is one."""
    run = active_run()
    if run is None:
        run = create_run(trigger=trigger, user=user, kind=kind)
        _send(run)
    elif run.state == State.QUEUED and timezone.now() - run.requested_at > RESEND_AFTER:
        _send(run)
    return run


def create_run(
    *,
    trigger: AnalyticsRun.Trigger,
    user: AbstractBaseUser | None = None,
    kind: str = AnalyticsRun.Kind.ALL,
    since: datetime | None = None,
    until: datetime | None = None,
) -> AnalyticsRun:
    """A run that is to be claimed; nobody is told."""
    return AnalyticsRun.objects.create(
        kind=kind,
        trigger=trigger,
        requested_by_id=user.pk if user else None,
        since=since,
        until=until,
        stage="Waiting for the analytics worker",
        metric_version=METRIC_VERSION,
    )


def take_up() -> None:
    """Sends again what the table shows undone, since a queue or a process has lost it: for each minute.

    A run whose process was lost is repeated once, as the next may be the death of its process as well.
    """
    active = active_run()
    if active is None:
        latest, former = [*AnalyticsRun.objects.all()[:2], None, None][:2]
        if latest is not None and (
            latest.error_code == ErrorCode.QUEUE or (_was_lost(latest) and not (former and _was_lost(former)))
        ):
            start_run(trigger=Trigger.SCHEDULE, kind=latest.kind)
    elif (
        active.state == State.QUEUED
        and active.trigger != Trigger.COMMAND  # The command claims its run itself.
        and timezone.now() - active.requested_at > RESEND_AFTER
    ):
        _send(active, expires=RESEND_AFTER)


def _was_lost(run: AnalyticsRun) -> bool:
    """Nobody was left to say why it failed."""
    return run.error_code == ErrorCode.LOST and run.error == LOST


def _send(run: AnalyticsRun, expires: timedelta | None = None) -> None:
    try:
        current_app.send_task(TASK, (run.pk,), retry=False, expires=expires.total_seconds() if expires else None)
    except (OperationalError, ChannelError, OSError) as error:
        log.error("Analytics run %d can't be queued: %s", run.pk, error)
        fail(run, code=ErrorCode.QUEUE, error=UNSENT)


def claim(*, run_id: int) -> AnalyticsRun | None:
    """Makes a queued run the running one. None: it is not waiting (any more). Raises Busy while another runs."""
    sweep()
    now = timezone.now()
    try:
        with transaction.atomic():
            claimed = AnalyticsRun.objects.filter(pk=run_id, state=State.QUEUED).update(
                state=State.RUNNING, started_at=now, heartbeat_at=now, stage="Starting"
            )
    except IntegrityError:
        raise Busy from None
    return AnalyticsRun.objects.get(pk=run_id) if claimed else None


def beat(*, run: AnalyticsRun) -> None:
    """Says that the run's process lives."""
    AnalyticsRun.objects.filter(pk=run.pk, state=State.RUNNING).update(heartbeat_at=timezone.now())


def report(run: AnalyticsRun, *, stage: str | None = None, expected: int | None = None) -> None:
    """What the run is doing, and how many hours and days it is to compute."""
    changed = {"stage": stage, "expected": expected, "heartbeat_at": timezone.now()}
    AnalyticsRun.objects.filter(pk=run.pk).update(**{key: value for key, value in changed.items() if value is not None})


def advance(run: AnalyticsRun, *, rows_read: int, rows_written: int) -> None:
    """One more hour or day is computed."""
    AnalyticsRun.objects.filter(pk=run.pk).update(
        done=F("done") + 1,
        rows_read=F("rows_read") + rows_read,
        rows_written=F("rows_written") + rows_written,
        heartbeat_at=timezone.now(),
    )


def finish(run: AnalyticsRun) -> None:
    _end(run, state=State.DONE, stage="Done")


def fail(run: AnalyticsRun, *, code: AnalyticsRun.ErrorCode, error: str) -> None:
    _end(run, state=State.FAILED, stage="Failed", error_code=code, error=error)


def _end(run: AnalyticsRun, **fields: str) -> None:
    waiting = AnalyticsRun.objects.filter(pk=run.pk, state__in=[State.QUEUED, State.RUNNING])
    waiting.update(ended_at=timezone.now(), **fields)
    run.refresh_from_db()


def sweep() -> None:
    """Ends runs whose process was lost."""
    lost = AnalyticsRun.objects.filter(state=State.RUNNING, heartbeat_at__lt=timezone.now() - HEARTBEAT_LOST)
    for run in lost:
        log.error("Analytics run %d was lost: its last sign of life was at %s.", run.pk, run.heartbeat_at)
        fail(run, code=ErrorCode.LOST, error=LOST)


def active_run() -> AnalyticsRun | None:
    """The run that is going on, else the oldest that waits."""
    sweep()
    active = AnalyticsRun.objects.filter(state__in=[State.QUEUED, State.RUNNING])
    return active.order_by("-started_at", "requested_at").first()


def latest_runs(limit: int = 5) -> list[AnalyticsRun]:
    """Newest first."""
    sweep()
    return list(AnalyticsRun.objects.select_related("requested_by")[:limit])
