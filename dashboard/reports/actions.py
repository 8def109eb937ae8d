"""What people do with reports, on pages and by the API: each act with its entry of the audit log."""

from collections.abc import Sequence

from django.db import transaction

from analytics.models import Report, ReportDelivery
from analytics.periods import Period
from analytics.reports import builder, subprocess_jobs
from analytics.scopes import Scope
from dashboard.throttle import MAILED
from ingest.delivery.email import EmailChannel
from ingest.services import audit
from ingest.services.audit import Actor
from ingest.tasks import deliver_soon


class TooMany(Exception):  # noqa: N818
    """Who has an account must not make a sender of mass mail of it."""

    def __init__(self) -> None:
        super().__init__(
            f"An account may send reports to {MAILED.most} addresses an hour, and these would be more. "
            "Try again later, or have a schedule send them."
        )


def make(actor: Actor, period: Period, scope: Scope) -> Report:
    """From what is computed now, by another process. Raises apart.NotMade."""
    return Report.objects.select_related("plan").get(pk=subprocess_jobs.report(period, scope, actor))


def send(actor: Actor, report: Report, recipients: Sequence[str]) -> int:
    """To those who have not got it; how many they are. Raises TooMany."""
    others = report.deliveries.exclude(state=ReportDelivery.State.DEAD).filter(address__in=recipients)
    if not MAILED.take(actor.name, len(recipients) - others.count()):
        raise TooMany
    with transaction.atomic():
        count = builder.send(report, recipients)
        audit.record(actor, "report.send", str(report), report=report.pk, recipients=list(recipients))
        deliver_soon(EmailChannel.name)
    return count
