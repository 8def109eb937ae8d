"""How much of a period has been computed: hours in which something was recorded, against the ledger."""

from datetime import datetime
from pathlib import Path

from analytics import ledger
from analytics.models import METRIC_VERSION, Grain, Partition
from analytics.reports.document import Completeness
from analytics.reports.periods import Period


def completeness(period: Period, lake: Path) -> Completeness:
    """Hours whose files are gone from the lake by now count as long as the ledger knows them."""
    since, until = period.first_hour, period.end_hour
    known: set[datetime] = set(
        Partition.objects.filter(
            grain=Grain.HOUR, start__gte=since, start__lt=until, metric_version=METRIC_VERSION
        ).values_list("start", flat=True)
    )
    hours = ledger.Hours(lake, since, until)
    expected = known.union(hours.starts)
    undone = {hour.start for hour in hours.pending()}
    return {"expected": len(expected), "done": len(expected - undone)}
