"""Celery tasks on the queue `default`."""

import logging

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from ingest.readonly import PASSING
from ingest.services import retention

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
        "Deleted old history: %d attempts, %d bans, %d sessions with %d events, %d entries of the audit log%s.",
        done.attempts,
        done.bans,
        done.sessions,
        done.events,
        done.audit,
        "" if done.finished else "; the rest follows at the next run",
    )
