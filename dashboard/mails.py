"""What alerts say by e-mail: in plain text, and the same as simple HTML."""

from typing import Any

from django.template.loader import render_to_string

from ingest.contracts.figures import CHECK_NAMES
from ingest.delivery.kinds import MailContent, mail_of
from ingest.models import Delivery

SUBJECT_BEGINS = {"alert.opened": "", "alert.repeated": "Still: ", "alert.cleared": "Cleared: "}
"""By kind."""


@mail_of("alert")
def alert_mail(row: Delivery) -> MailContent:
    body = row.body
    context = {"alert": body["alert"], "kind": body["kind"], "rule": body["rule"], "url": body["url"]}
    return MailContent(
        alert_subject(body),
        render_to_string("dashboard/mail/alert.txt", context),
        render_to_string("dashboard/mail/alert.html", context),
    )


def alert_subject(body: dict[str, Any]) -> str:
    """Stream, fact and level; of what has cleared, what it was."""
    alert = body["alert"]
    is_over = body["kind"] == "alert.cleared"
    fact = str(CHECK_NAMES.get(alert["check"], alert["title"]) if is_over else alert["title"]).rstrip(".")
    level = "" if is_over else f" ({alert['level'].capitalize()})"
    return " ".join(f"{SUBJECT_BEGINS.get(body['kind'], '')}{alert['subject']}: {fact}{level}".split())
