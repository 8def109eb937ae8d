"""The archive of reports as the page lists it."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce

from analytics.models import Report, ReportDelivery, ReportPlan
from analytics.reports.plans import next_due, scope_of

State = ReportDelivery.State

LOOKUPS = {"kind": "kind", "plan": "plan__name", "scope": "scope"}


def rows() -> QuerySet[Report]:
    """Newest first, without what they say but for `title` and `words`, the period's. `sent`, `waiting`, `given_up`:
    how many of its deliveries stand so.
    """
    return (
        Report.objects.defer("document")
        .select_related("plan", "made_by")
        .annotate(
            title=KT("document__title"),
            words=KT("document__period__words"),
            sent=_count(State.SENT),
            waiting=_count(State.WAITING, State.SENDING),
            given_up=_count(State.FAILED),
        )
        .order_by("-made_at", "-pk")
    )


def narrow_whole(reports: QuerySet[Report], whole: str) -> QuerySet[Report]:
    """ "yes": those whose hours had all been computed; "no": the others."""
    complete = Q(hours_done__gte=F("hours_expected"))
    return reports.filter(complete) if whole == "yes" else reports.exclude(complete) if whole == "no" else reports


def scopes() -> list[str]:
    """Those that reports were made of, but for all streams."""
    return list(Report.objects.exclude(scope="").order_by("scope").values_list("scope", flat=True).distinct())


def _count(*states: str) -> Coalesce:
    """By a query of its own: grouping would read every report's whole document."""
    found = ReportDelivery.objects.filter(report=OuterRef("pk"), state__in=states).order_by().values("report")
    return Coalesce(Subquery(found.annotate(count=Count("pk")).values("count")), 0)


@dataclass(frozen=True, slots=True)
class Planned:
    """`next`: when it is made again; None: at no set time. `last`: the id of the report that it made last."""

    plan: ReportPlan
    scope_words: str
    next: datetime | None
    last: int | None


def plans(now: datetime) -> list[Planned]:
    """By name."""
    newest = Report.objects.filter(plan=OuterRef("pk")).order_by("-made_at", "-pk").values("pk")[:1]
    rows = ReportPlan.objects.select_related("stream__application").annotate(last=Subquery(newest))
    return [Planned(row, scope_of(row).words, next_due(row, now), row.last) for row in rows]
