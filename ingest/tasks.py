"""Celery tasks on the queue `default`, and the periodic tasks that migrations schedule; operators edit these in the
admin under Periodic tasks."""

import logging
from collections.abc import Mapping
from typing import Any

from celery import shared_task
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from ingest.delivery import engine
from ingest.services import retention
from ingest.services.database import PASSING


def schedule(
    apps: Any, *, name: str, task: str, when: int | tuple[str, str], queue: str, does: str, expires_s: int | None = None
) -> None:
    """Makes the row, or leaves it as it is where it is there. `apps`: a migration's registry.

    `when`: each so many seconds, or (hour, minute) of a crontab in UTC. `expires_s`: a message that waited longer is
    dropped, as the next one has come.
    """
    timing: Mapping[str, Any]
    if isinstance(when, int):
        interval, _ = apps.get_model("django_celery_beat", "IntervalSchedule").objects.get_or_create(
            every=when, period="seconds"
        )
        timing = {"interval": interval}
    else:
        hour, minute = when
        crontab, _ = apps.get_model("django_celery_beat", "CrontabSchedule").objects.get_or_create(
            hour=hour, minute=minute, day_of_week="*", day_of_month="*", month_of_year="*", timezone="UTC"
        )
        timing = {"crontab": crontab}
    apps.get_model("django_celery_beat", "PeriodicTask").objects.get_or_create(
        name=name,
        defaults={"task": task, "queue": queue, "description": does, "expire_seconds": expires_s, **timing},
    )


log = logging.getLogger(__name__)


@shared_task(autoretry_for=PASSING, retry_backoff=60, max_retries=5)
def prune() -> None:
    """What beat sends each night: deletes old history. Repeating it, or two at a time, does no harm."""
    done = retention.prune(
        now=timezone.now(),
        attempts_days=settings.KEEP_ATTEMPTS_DAYS,
        sessions_days=settings.KEEP_SESSIONS_DAYS,
        audit_days=settings.KEEP_AUDIT_DAYS,
    )
    log.info(
        "Deleted old history: %d refused connections, %d bans, %d sessions with %d events, %d entries of the audit "
        "log%s.",
        done.attempts,
        done.bans,
        done.sessions,
        done.events,
        done.audit,
        "" if done.finished else "; the rest follows at the next run",
    )


@shared_task
def deliver(channel: str, receiver: int | None = None) -> None:
    """Sends what is due by a channel, of webhooks and services to one. Repeating it sends nothing twice."""
    engine.deliver(channel, receiver)


def deliver_soon(channel: str, receiver: int | None = None) -> None:
    """Once it is committed, rather than with beat's next run. Without a broker that run does it."""
    transaction.on_commit(lambda: deliver.delay(channel, receiver), robust=True)
