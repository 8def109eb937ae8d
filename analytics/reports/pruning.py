"""Old reports go, with how they were sent."""

from datetime import datetime, timedelta

from analytics.models import Report, ReportDelivery
from analytics.reports.plans import MISSED
from ingest.services.retention import in_pieces

LEAST = MISSED + timedelta(days=1)
"""Reports stay for so long whatever is set: a plan's that was gone sooner would be missed, made and sent again."""


def prune(*, now: datetime, days: int) -> int:
    """Deletes reports that were made so many days ago, in small pieces; how many rows went. 0: none."""
    if not days:
        return 0
    old = Report.objects.filter(made_at__lt=now - max(timedelta(days=days), LEAST)).order_by("made_at")
    return in_pieces(ReportDelivery.objects.filter(report__in=old.order_by()).order_by("pk"), old)
