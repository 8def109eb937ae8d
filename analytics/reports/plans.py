"""Plans: which reports are due. The tables are the truth, not the queue."""

import logging
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import islice

from analytics.models import Report, ReportPlan
from analytics.reports import broadcasts, periods, services
from analytics.reports.periods import Period
from analytics.reports.scopes import Scope
from analytics.services import ask_for_run

logger = logging.getLogger(__name__)

Kind = ReportPlan.Kind

WAIT = timedelta(hours=6)
"""How long a report waits for hours that are not computed; then it is made, and says so."""
MISSED = timedelta(days=7)
"""Reports that nobody made since then, as the server was down, are made when it is back."""
MOST = 20
"""Of one plan, made in one go: the next goes on."""


def scope_of(plan: ReportPlan) -> Scope:
    """Whose streams it is about."""
    return Scope.of(plan.stream.path if plan.stream else plan.app)


def due_at(plan: ReportPlan, period: Period) -> datetime:
    """When a period's report is due: on the day after it, at the plan's time."""
    day: date = period.local_until.date()
    return datetime.combine(day, plan.send_at, period.zone)


def due(plan: ReportPlan, now: datetime) -> Iterator[tuple[Period, datetime]]:
    """Periods whose report is due and not made, the oldest first, and since when."""
    period = periods.last_ended(plan.kind, now, periods.zone_of(plan.time_zone))
    found = []
    while due_at(plan, period) > max(now - MISSED, plan.counts_from):
        if due_at(plan, period) <= now and services.of_plan(plan, period, scope_of(plan)) is None:
            found.append((period, due_at(plan, period)))
        period = periods.before(period)
    yield from reversed(found)


def make_due(plan: ReportPlan, now: datetime) -> list[Report]:
    """Makes what is due by a plan, unless it waits for hours that are yet to be computed: then it asks for a run."""
    return [services.make(period, scope, plan=plan) for period, scope in islice(ready(plan, now), MOST)]


def ready(plan: ReportPlan, now: datetime) -> Iterator[tuple[Period, Scope]]:
    """What is due by a plan and need not wait. For what has to, a run is asked for."""
    if plan.is_enabled:
        yield from _broadcasts(plan, now) if plan.kind == Kind.BROADCAST else _periods(plan, now)


def _periods(plan: ReportPlan, now: datetime) -> Iterator[tuple[Period, Scope]]:
    for period, since in due(plan, now):
        if _may_be_made(period, since, now):
            yield period, scope_of(plan)


def _broadcasts(plan: ReportPlan, now: datetime) -> Iterator[tuple[Period, Scope]]:
    """One is known by its time: when it began may be told to be another second once more of it is computed."""
    since = max(plan.counts_from, now - MISSED)
    known = list(plan.reports.filter(until__gte=since - WAIT).values_list("scope", "since", "until"))
    for broadcast in broadcasts.ended(scope_of(plan), since, now):
        path = f"{broadcast.app}/{broadcast.name}"
        if any(
            scope == path and begins <= broadcast.until and ends >= broadcast.since for scope, begins, ends in known
        ):
            continue
        if not broadcast.is_computed() and not _went_without(broadcast.until, f"the broadcast of {path}", now):
            continue
        counted = broadcast.counted(plan.time_zone)
        if counted is not None:
            yield counted


def _may_be_made(period: Period, since: datetime, now: datetime) -> bool:
    return services.is_complete(period) or _went_without(since, periods.words(period), now)


def _went_without(since: datetime, what: str, now: datetime) -> bool:
    """Whether it has waited for long enough for what is to be computed; if not a run is asked for."""
    if now - since < WAIT:
        ask_for_run()
        return False
    logger.warning("The report of %s is made although hours of it are not computed.", what)
    return True


def next_due(plan: ReportPlan, now: datetime) -> datetime | None:
    """When the next report of a plan is due; None: disabled, or after the next broadcast."""
    if not plan.is_enabled or plan.kind == Kind.BROADCAST:
        return None
    zone = periods.zone_of(plan.time_zone)
    period = periods.last_ended(plan.kind, now, zone)
    if due_at(plan, period) <= now:
        period = periods.containing(plan.kind, now.astimezone(zone).date(), zone)
    return due_at(plan, period)
