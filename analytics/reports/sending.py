"""Sends reports that wait, to each recipient once.

A message is made first, then its row goes from waiting to sending by compare-and-swap, so that no two workers send it;
what is left is the talk with the mail server. A worker that dies within this second leaves a row that nobody can tell
of whether it arrived: it is given up and says so, rather than sent twice.
"""

import logging
import random
import time
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from django.core.mail import get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db.models import F
from django.utils import timezone

from analytics.models import ReportDelivery
from analytics.reports import mail
from ingest import clean, mailing

logger = logging.getLogger(__name__)

State = ReportDelivery.State

DELAYS_S = (60, 300, 900, 3600, 10_800, 21_600, 21_600, 21_600)
"""Between one try and the next: about a day in all, then it is given up."""
JITTER = 0.2
LOST_AFTER = timedelta(minutes=5)
"""Longer than the talk with a mail server may take: some ten steps of `EMAIL_TIMEOUT`."""
LOST = (
    "The worker was lost while this was being sent: it may have arrived, and is not sent twice. "
    "If it did not, send it again."
)
REFUSED_FOR_GOOD = 500
"""SMTP's status from which on it is of no use to try again."""
MOST_ERROR = 500
AT_ONCE = 50
"""Messages of one go,"""
GO_S = 30
"""and seconds, after which it begins no further one: others have their turn in the worker."""


class Outcome(Enum):
    """What the server did with one."""

    TAKEN = auto()
    NOT_TAKEN = auto()
    AWAY = auto()


_random = random.SystemRandom()


def send_due(now: datetime) -> int:
    """Sends what is due; how many were taken by the server. Repeating it, or two at a time, sends nothing twice.

    Where the server is away, the first that it did not answer is the last of this go.
    """
    give_up_lost(now)
    due = ReportDelivery.objects.filter(state=State.WAITING, next_at__lte=now).order_by("next_at", "pk")
    contents: dict[int, mail.Content] = {}
    connection = get_connection()
    ends = time.monotonic() + GO_S
    taken = 0
    try:
        for row in due.select_related("report")[:AT_ONCE]:
            outcome = _send(row, connection, contents)
            taken += outcome == Outcome.TAKEN
            if outcome == Outcome.AWAY or time.monotonic() > ends:
                break
    finally:
        mailing.close(connection)
    return taken


def give_up_lost(now: datetime) -> None:
    """Ends what was being sent by a worker that is gone."""
    lost = ReportDelivery.objects.filter(state=State.SENDING, next_at__lte=now - LOST_AFTER)
    if lost.update(state=State.FAILED, error=LOST):
        logger.error("%s", LOST)


def _send(row: ReportDelivery, connection: BaseEmailBackend, contents: dict[int, mail.Content]) -> Outcome:
    """`contents`: of reports by their ids, each made for its first recipient."""
    if not mailing.is_set():
        _try_again(row, mailing.NO_SERVER)
        return Outcome.NOT_TAKEN
    try:
        if row.report_id not in contents:
            contents[row.report_id] = mail.content(row.report)
        said = contents[row.report_id]
        message = mail.message(said, row.recipient, message_id=f"report-{row.report_id}-{row.pk}")
    except Exception:
        logger.exception("Report %d can't be made into a message.", row.report_id)
        _try_again(row, "It can't be made into a message: see the worker's log.")
        return Outcome.NOT_TAKEN
    if not _claim(row):
        return Outcome.NOT_TAKEN
    message.connection = connection
    status, error = mailing.hand_over(connection, message)
    if status == mailing.TAKEN:
        _settle(row, state=State.SENT, sent_at=timezone.now(), error="")
        return Outcome.TAKEN
    logger.warning("Report %d was not sent to one recipient: %s", row.report_id, error)
    if status is not None and status >= REFUSED_FOR_GOOD:
        _settle(row, state=State.FAILED, error=clean.text(error, MOST_ERROR))
    else:
        _try_again(row, error)
    return Outcome.AWAY if status is None else Outcome.NOT_TAKEN


def _claim(row: ReportDelivery) -> bool:
    """Whether it is ours to send: nobody else took it since it was read."""
    now = timezone.now()
    ours = ReportDelivery.objects.filter(pk=row.pk, state=State.WAITING, attempts=row.attempts)
    return bool(ours.update(state=State.SENDING, attempts=F("attempts") + 1, next_at=now))


def _try_again(row: ReportDelivery, error: str) -> None:
    """Later, or never if it was tried often enough. A try that came to no claim counts as well."""
    fields: dict[str, Any] = {"error": clean.text(error, MOST_ERROR), "attempts": row.attempts + 1}
    if row.attempts < len(DELAYS_S):
        delay = DELAYS_S[row.attempts] * _random.uniform(1 - JITTER, 1 + JITTER)
        fields |= {"state": State.WAITING, "next_at": timezone.now() + timedelta(seconds=delay)}
    else:
        fields |= {"state": State.FAILED}
    _settle(row, **fields)


def _settle(row: ReportDelivery, **fields: Any) -> None:
    """Unless another has settled it since."""
    ReportDelivery.objects.filter(
        pk=row.pk, state__in=[State.WAITING, State.SENDING], attempts__in=[row.attempts, row.attempts + 1]
    ).update(**fields)
