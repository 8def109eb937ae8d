"""Alerts by e-mail: plain text with the same as simple HTML, by Django's mail."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.template.loader import render_to_string

from dashboard.alerting.models import Delivery
from dashboard.alerting.outbound import Answer
from ingest.live.health import CHECK_NAMES
from ingest.mailing import NO_SERVER, close, hand_over, is_set

WORDS = {"alert.opened": "", "alert.repeated": "Still: ", "alert.cleared": "Cleared: "}
"""How a subject begins, by kind."""

LEVELS = {"bad": "Bad", "warning": "Warning"}


def subject(body: dict[str, Any]) -> str:
    """Stream, fact and level; of what has cleared, what it was."""
    alert = body["alert"]
    is_over = body["kind"] == "alert.cleared"
    fact = str(CHECK_NAMES.get(alert["check"], alert["title"]) if is_over else alert["title"]).rstrip(".")
    level = "" if is_over else f" ({LEVELS.get(alert['level'], alert['level'])})"
    return " ".join(f"{WORDS.get(body['kind'], '')}{alert['subject']}: {fact}{level}".split())


@contextmanager
def server() -> Iterator[Callable[[Sequence[Delivery]], list[Answer]]]:
    """What sends messages, all by one connection. An answer's status is SMTP's: None where the server is away."""
    if not is_set():
        yield lambda those: [Answer(None, NO_SERVER, "", 0) for _ in those]
        return
    connection = get_connection()
    try:
        yield lambda those: [_send(connection, row) for row in those]
    finally:
        close(connection)


def _send(connection: BaseEmailBackend, row: Delivery) -> Answer:
    began = time.monotonic()
    status, error = hand_over(connection, message(row))
    return Answer(status, error, "", round((time.monotonic() - began) * 1000))


def message(row: Delivery) -> EmailMultiAlternatives:
    """Its Message-ID is the delivery's: one that is sent again, since its worker died, is known for the same."""
    body = row.body
    context = {"alert": body["alert"], "kind": body["kind"], "rule": body["rule"], "url": body["url"]}
    domain = settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].rstrip(">") or "localhost"
    made = EmailMultiAlternatives(
        subject(body),
        render_to_string("dashboard/mail/alert.txt", context),
        to=[row.email],
        headers={"Message-ID": f"<{row.pk}@{domain}>", "Auto-Submitted": "auto-generated"},
    )
    made.attach_alternative(render_to_string("dashboard/mail/alert.html", context), "text/html")
    return made
