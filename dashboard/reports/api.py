"""/reports: the archive, each report as JSON, PDF and CSV, and making one."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Body, Field, Query, Router, Schema, Status

from analytics import periods
from analytics.models import Report
from analytics.periods import Period, PeriodProblem
from analytics.reports import files, subprocess_jobs
from analytics.scopes import Scope
from dashboard.access import actor_of
from dashboard.api_base import ListOf, NameOf, Problem, Text, Times, When, allow, listed
from dashboard.lists import whole_file
from dashboard.reports import actions as reports_actions
from ingest.services.roles import Ability

router = Router(tags=["history"])

LOOKUPS = {"kind": "kind", "scope": "scope", "plan": "plan__name", "since": "since__gte", "until": "until__lte"}

Kind = Literal["daily", "weekly", "monthly", "broadcast"]


class ReportFilters(Times):
    kind: Kind | None = None
    scope: Text | None = Field(None, description="An application, or application/name.")
    plan: Text | None = Field(None, description="The name of the report schedule that it was made by.")
    since: When | None = Field(None, alias="from", description="Of periods that begin at this time or later.")
    until: When | None = Field(None, alias="to", description="Of periods that end at this time or earlier.")


class ReportOut(Schema):
    id: int
    kind: Kind
    scope: str = Field(description='Whose streams: "" all, an application, or application/name.')
    plan: NameOf
    since: datetime
    until: datetime = Field(description="The first moment after its period.")
    time_zone: str
    hours_expected: int = Field(description="Hours of its period in which something was recorded,")
    hours_done: int = Field(description="and how many of them had been computed.")
    metric_version: int
    made_at: datetime


class WholeReport(ReportOut):
    document: dict[str, Any] = Field(
        description="All that it says: figures, tiles, findings, streams from the worst on, charts' values."
    )


class ReportIn(Schema):
    """Without `from` the last day, week or month that has ended; without `to` the one with `from`."""

    kind: Literal["daily", "weekly", "monthly"]
    since: datetime | None = Field(None, alias="from", description="A time without a zone is of `time_zone`.")
    until: datetime | None = Field(None, alias="to", description="The first moment after the period.")
    time_zone: Annotated[str, Field(max_length=64)] = "UTC"
    scope: Text = Field("", description='"" for all streams, an application, or application/name.')

    def period(self) -> Period:
        """Raises PeriodProblem."""
        zone = periods.zone_of(self.time_zone)
        since, until = (
            moment if moment is None or moment.tzinfo else moment.replace(tzinfo=zone)
            for moment in (self.since, self.until)
        )
        if since is None:
            if until is not None:
                raise PeriodProblem("With `to`, give `from` as well.")
            return periods.last_ended(self.kind, timezone.now(), zone)
        if until is None:
            return periods.around(self.kind, since, zone)
        return periods.exact(self.kind, since, until, zone)


@router.get("/reports", response=ListOf[ReportOut])
def reports(request: HttpRequest, filters: Query[ReportFilters]) -> dict[str, object]:
    """Those that were made, the latest first, without what they say."""
    return listed(Report.objects.defer("document").select_related("plan"), filters, LOOKUPS)


@router.get("/reports/{int:report_id}", response=WholeReport)
def report(request: HttpRequest, report_id: int) -> Report:
    """One, with all that it says."""
    return _row(report_id)


@router.get("/reports/{int:report_id}.pdf", response={200: None, 503: Problem})
def as_pdf(request: HttpRequest, report_id: int) -> HttpResponse:
    """One as PDF."""
    row = _row(report_id)
    return whole_file(f"{files.file_name(row)}.pdf", "application/pdf", subprocess_jobs.pdf(row.document))


@router.get("/reports/{int:report_id}.csv", response=None)
def as_csv(request: HttpRequest, report_id: int) -> HttpResponse:
    """Its streams as CSV, the worst first."""
    row = _row(report_id)
    return whole_file(f"{files.file_name(row)}.csv", "text/csv; charset=utf-8", files.report_csv(row.document))


@router.post("/reports", response={201: WholeReport, 400: Problem, 503: Problem}, auth=allow(Ability.RUN_ANALYTICS))
def make(request: HttpRequest, wish: Body[ReportIn]) -> Status[Report]:
    """Make one of what is computed now. It says of how many of its hours that is."""
    return Status(201, reports_actions.make(actor_of(request), wish.period(), Scope.asked(wish.scope)))


def _row(report_id: int) -> Report:
    return get_object_or_404(Report.objects.select_related("plan"), pk=report_id)
