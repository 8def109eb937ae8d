"""Alerts as rows: opened once for each rule, and cleared once, in short transactions with pauses between them. Many
small writes are made without anybody being held up by them."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from dashboard.models import Alert, AlertRule
from ingest import clean
from ingest.services.database import PASSING

logger = logging.getLogger(__name__)

Outcome = Alert.Outcome

PAUSE_S = 0.02
"""At least."""
LONGEST_PAUSE_S = 0.2
PAUSES = 2
"""For as long as it took, so often: who waits for SQLite tries again each 0.1 s, and has to meet a pause."""


@contextmanager
def paced_transaction() -> Iterator[None]:
    """A short transaction, and then a pause that is longer than it.

    On SQLite one writes at a time: encoders are admitted in the pauses.
    """
    with transaction.atomic():
        began = time.monotonic()
        yield
    time.sleep(min(LONGEST_PAUSE_S, max(PAUSE_S, PAUSES * (time.monotonic() - began))))


@contextmanager
def isolated(name: str) -> Iterator[None]:
    """Logs what goes wrong with one, so that it doesn't hold up the others.

    Raises PASSING: the database is away, busy, or takes no writes. That is nobody's fault.
    """
    try:
        yield
    except PASSING:
        raise
    except Exception:
        logger.exception("%s is left out.", name)


def open_ones(alerts: "QuerySet[Alert]") -> "QuerySet[Alert]":
    return alerts.filter(cleared_at__isnull=True)


LENGTHS = {"level": 8, "title": 512, "actual": 255, "expected": 255, "advice": 512, "end_reason": 32}
"""Of what an alert has of its issue, in characters."""


def make(
    rules: Sequence[AlertRule],
    kind: str,
    subject: str,
    stream: int | None,
    session: Any,
    at: datetime,
    issue: Mapping[str, Any],
) -> None:
    """Opens one for each rule; those that are open already get the new words, and the session that it is of now: one
    that ended before it takes nothing with it.
    """
    if not rules:
        return
    words = {name: clean.text(issue.get(name) or "", length) for name, length in LENGTHS.items()}
    open_ = open_ones(Alert.objects.filter(subject=subject, check_code=issue["check"], rule__in=rules))
    known = set(open_.values_list("rule", flat=True))
    if known:
        open_.update(session_id=session, **words)
    made = [
        Alert(
            rule=rule,
            kind=kind,
            subject=subject,
            stream_id=stream,
            session_id=session,
            check_code=issue["check"],
            opened_at=at,
            due_at=at + timedelta(seconds=rule.delay_s),
            **words,
        )
        for rule in rules
        if rule.pk not in known
    ]
    Alert.objects.bulk_create(made, ignore_conflicts=True)  # Another worker may have been first.


def clear(alerts: "QuerySet[Alert]", at: datetime, outcome: Outcome, why: str, end_reason: str = "") -> None:
    """Those that nobody was told of go; marked first, so that nobody is told meanwhile."""
    ended = {"end_reason": end_reason} if end_reason else {}
    if open_ones(alerts).update(cleared_at=at, outcome=outcome, cleared_why=clean.text(why, 512), **ended):
        Alert.objects.filter(told=0, cleared_at__isnull=False, clear_told_at__isnull=True).delete()
