"""How much of a period has been computed: hours in which something was recorded, and what they lack."""

from datetime import datetime
from pathlib import Path

from analytics import incomplete, ledger
from analytics.models import METRIC_VERSION, Grain, Partition
from analytics.reports.document import Completeness, Lacking
from analytics.reports.periods import Period, clock_words


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
    found: Completeness = {"expected": len(expected), "done": len(expected - undone)}
    if lacking := [_lacking(note, period) for note in incomplete.notes(since, until)]:
        found["lacking"] = lacking
    return found


def _lacking(note: incomplete.Note, period: Period) -> Lacking:
    return {
        "what": note.kind.field,
        "count": note.count,
        "hours": len(note.starts),
        "first": [start.isoformat() for start in note.first],
        "words": note.sentence(lambda start: clock_words(start, period.zone)),
    }
