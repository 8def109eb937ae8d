"""A stream's broadcasts in a period: its sessions, joined over short gaps, each with its figures as a whole."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from django.utils.dateparse import parse_datetime

from analytics.figures import Figures, Part, Sums, merged
from analytics.ledger import DAY, HOUR, day_of
from analytics.models import Dimension, Grain, Report, ReportPlan
from analytics.rollups import Rollups, hours_in_lake
from analytics.summing import added, figures_of_sums
from dashboard.analytics.periods import Period

MOST = 50
"""On a page, the latest."""
MOST_IN_FILE = 2_000


@dataclass(frozen=True, slots=True)
class Broadcast:
    """`end`: of what was computed of it so far. `report`: the archived one's number, if there is one."""

    begin: datetime
    end: datetime
    figures: Figures
    report: int | None


def broadcasts(app: str, name: str, period: Period, most: int = MOST) -> list[Broadcast]:
    """Those that were on air in it, newest first, with their figures from begin to end."""
    own = partial(Rollups, Dimension.BROADCAST, app=app, name=name)
    since, until, beyond = period.since, period.until, period.grain
    if period.grain == Grain.HOUR and hours_in_lake(Dimension.BROADCAST, None, None).exists():
        # What they have before and after its days is taken from days: one that goes on for months has many files.
        since, until, beyond = day_of(since), day_of(until - HOUR) + DAY, Grain.DAY
    around = own(period.grain, since, until)
    last: dict[str, datetime] = {}
    for row in around.values("start", "value"):
        if period.since <= row["start"] < period.until:
            last[row["value"]] = row["start"]
    begins = sorted(last, key=lambda value: (last[value], value), reverse=True)[:most]
    parts: dict[str, list[Part]] = defaultdict(list)
    sums: dict[str, Sums] = {}
    before, after = own(beyond, None, since, values=begins), own(beyond, until, None, values=begins)
    for rows in (around, before, after) if begins else ():
        for (value,), some in rows.parts("value").items():
            parts[value] += some
        for (value,), more in rows.sums("value").items():
            sums[value] = added(sums[value], more) if value in sums else more
    reports = _reports(f"{app}/{name}")
    found = []
    for value in begins:
        begin = parse_datetime(value)
        if begin is None:
            continue
        figures = figures_of_sums(sums[value], merged(parts[value]))
        length = timedelta(milliseconds=figures.elapsed_ms + figures.recovery_ms)
        found.append(Broadcast(begin, begin + length, figures, reports.get(begin)))
    return sorted(found, key=lambda each: each.begin, reverse=True)


def _reports(scope: str) -> dict[datetime, int]:
    made = Report.objects.filter(kind=ReportPlan.Kind.BROADCAST, scope=scope).order_by("-made_at")
    return {since: pk for pk, since in reversed(made.values_list("pk", "since")[:MOST_IN_FILE])}
