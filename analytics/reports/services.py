"""Reports: make one for a period, send it. What is due by a plan is in `analytics.reports.plans`."""

from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from analytics.models import Report, ReportDelivery, ReportPlan
from analytics.reports import broadcasts, making, periods
from analytics.reports.completeness import completeness
from analytics.reports.document import Completeness
from analytics.reports.periods import Period, PeriodProblem
from analytics.reports.scopes import Scope
from ingest.services import audit
from ingest.services.audit import Actor


def make(period: Period, scope: Scope, *, plan: ReportPlan | None = None, actor: Actor | None = None) -> Report:
    """Made from what is computed now. A plan has one for each period and scope: made again, it is the same row.

    A plan's goes to its recipients: their deliveries are made with it, and wait to be sent. `actor`: who asked for it,
    for the audit log. Never in a transaction: what takes time comes before the one that it is written in.
    """
    known = of_plan(plan, period, scope) if plan else None
    if known is not None:
        return known
    now = timezone.now()
    computed = completeness(period, settings.LAKE_DIR)
    document = making.make(
        period, scope, former=_former(period, scope), completeness=computed, now=now, lake=settings.LAKE_DIR
    )
    try:
        with transaction.atomic():
            report = Report.objects.create(
                plan=plan,
                kind=period.kind,
                scope=scope.text,
                since=period.since,
                until=period.until,
                time_zone=period.zone.key,
                hours_expected=computed["expected"],
                hours_done=computed["done"],
                document=document,
                made_at=now,
                made_by=actor.user if actor else None,
            )
            if plan:
                _address(report, plan.addresses, now)
            if actor:
                audit.record(actor, "report.make", str(report), report=report.pk)
    except IntegrityError:  # Another made it meanwhile.
        return Report.objects.get(plan=plan, since=period.since, until=period.until, scope=scope.text)
    return report


def of_plan(plan: ReportPlan, period: Period, scope: Scope) -> Report | None:
    """A plan's report of a period, if it was made. A broadcast's is known by its begin."""
    rows = Report.objects.filter(plan=plan, since=period.since, scope=scope.text)
    return (rows if period.kind == ReportPlan.Kind.BROADCAST else rows.filter(until=period.until)).first()


def is_complete(period: Period) -> bool:
    """Whether all that was recorded in the period has been computed."""
    found: Completeness = completeness(period, settings.LAKE_DIR)
    return found["done"] >= found["expected"]


def send(report: Report, recipients: Iterable[str]) -> int:
    """Has it sent to those who have not got it, and are not about to; how many. Whoever was given up is tried again."""
    wanted = list(dict.fromkeys(recipients))
    now = timezone.now()
    with transaction.atomic():
        given_up = report.deliveries.filter(recipient__in=wanted, state=ReportDelivery.State.FAILED)
        again = given_up.update(state=ReportDelivery.State.WAITING, attempts=0, next_at=now, error="")
        new = len(set(wanted) - set(report.deliveries.values_list("recipient", flat=True)))
        _address(report, wanted, now)
    return again + new


def _address(report: Report, recipients: Iterable[str], now: datetime) -> None:
    ReportDelivery.objects.bulk_create(
        [ReportDelivery(report=report, recipient=recipient, next_at=now) for recipient in recipients],
        ignore_conflicts=True,
    )


def _former(period: Period, scope: Scope) -> tuple[Period, Scope] | None:
    """What it is compared with: the period before, of a broadcast the one before it; None where there is none."""
    if scope.value:
        return broadcasts.before(period, scope)
    try:
        return periods.before(period), scope
    except PeriodProblem:  # Before the first year.
        return None
