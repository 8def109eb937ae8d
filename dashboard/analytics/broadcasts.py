"""A stream's broadcasts in a period: its sessions, joined over short gaps, each with its figures as a whole."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Max
from django.utils.dateparse import parse_datetime

from analytics.figures import MEASURED, Figures, merged
from analytics.models import Dimension, Report, ReportPlan, Rollup
from analytics.summing import aggregates, figures_of_sums
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
    rows = Rollup.objects.filter(dimension=Dimension.BROADCAST, grain=period.grain, app=app, name=name)
    seen = rows.filter(start__gte=period.since, start__lt=period.until).order_by().values("value")
    begins = [row["value"] for row in seen.annotate(last=Max("start")).order_by("-last", "-value")[:most]]
    own = rows.filter(value__in=begins).order_by()
    parts: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for value, *measured in own.filter(samples__gt=0).values_list("value", *MEASURED):
        parts[value].append(tuple(measured))
    sums = {row["value"]: row for row in own.values("value").annotate(**aggregates())}
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
