"""Reports: the archive with the plans, a report as a page and as files; those who make and send one. What they say is
made in `analytics.reports`."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import F, OuterRef, Q, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone

from analytics import broadcasts, periods
from analytics.models import Report, ReportDelivery, ReportPlan
from analytics.periods import Period, PeriodProblem
from analytics.reports import files, subprocess_jobs
from analytics.reports.document import MOST_ROWS, Document
from analytics.reports.plans import addresses, next_due, scope_of, time_zones
from analytics.scopes import NoSuchScope, Scope
from dashboard.access import actor_of, post_view, safe_view
from dashboard.history.periods import BY_HOUR_UP_TO
from dashboard.lists import active_filters, narrow, page_context, whole_file
from dashboard.reports import actions as reports_actions
from dashboard.reports import charts as reports_charts
from ingest.delivery.email import is_mail_set
from ingest.models import Application, Stream
from ingest.services.roles import Ability

DeliveryState = ReportDelivery.State

LOOKUPS = {"kind": "kind", "plan": "plan__name", "scope": "scope"}


def archived_reports() -> QuerySet[Report]:
    """Newest first, without what they say but for `title` and `words`, the period's. `sent`, `waiting`, `given_up`:
    how many of its deliveries stand so.
    """
    return (
        Report.objects.defer("document")
        .select_related("plan", "made_by")
        .annotate(
            title=KT("document__title"),
            words=KT("document__period__words"),
            sent=ReportDelivery.counted(DeliveryState.DONE),
            waiting=ReportDelivery.counted(DeliveryState.WAITING),
            given_up=ReportDelivery.counted(DeliveryState.DEAD),
        )
        .order_by("-made_at", "-pk")
    )


WHOLE = Q(hours_done__gte=F("hours_expected"))
"""Those whose hours had all been computed."""


@dataclass(frozen=True, slots=True)
class Planned:
    """`next`: when it is made again; None: at no set time. `last`: the id of the report that it made last."""

    plan: ReportPlan
    scope_words: str
    next: datetime | None
    last: int | None


def planned_reports(now: datetime) -> list[Planned]:
    newest = Report.objects.filter(plan=OuterRef("pk")).order_by("-made_at", "-pk").values("pk")[:1]
    rows = ReportPlan.objects.select_related("stream__application").annotate(last=Subquery(newest))
    return [Planned(row, scope_of(row).words, next_due(row, now), row.last) for row in rows]


Kind = ReportPlan.Kind

MOST_STREAMS = 1000
"""That the field of the scope proposes; any may be typed."""

PERIODS = [
    (Kind.DAILY, "A day"),
    (Kind.WEEKLY, "A week, Monday to Sunday"),
    (Kind.MONTHLY, "A month"),
    (Kind.BROADCAST, "A stream's last broadcast"),
]


class MakeForm(forms.Form):
    """`wanted`, once it is valid: the period and the scope to make one of."""

    wanted: tuple[Period, Scope]

    kind = forms.ChoiceField(label="Period", choices=PERIODS, initial=Kind.WEEKLY)
    day = forms.DateField(
        label="Day in it",
        required=False,
        widget=forms.DateInput({"type": "date"}),
        help_text="The last complete one, if empty.",
    )
    scope = forms.CharField(
        label="Streams",
        required=False,
        max_length=400,
        widget=forms.TextInput({"list": "scopes", "autocomplete": "off", "spellcheck": "false", "placeholder": "All"}),
        help_text="An application such as live, or a stream such as live/studio-1. All, if empty.",
    )
    time_zone = forms.ChoiceField(
        choices=time_zones, initial="UTC", help_text="By which days begin and times are given."
    )

    def clean_scope(self) -> Scope:
        try:
            return Scope.asked(str(self.cleaned_data["scope"]))
        except NoSuchScope as problem:
            raise ValidationError(str(problem)) from None

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        if not self.errors:
            try:
                self.wanted = _wanted(data["kind"], data["scope"], data["day"], periods.zone_of(data["time_zone"]))
            except PeriodProblem as problem:
                raise ValidationError({"day": str(problem)}) from None
        return data


def _wanted(kind: str, scope: Scope, day: date | None, zone: ZoneInfo) -> tuple[Period, Scope]:
    """Raises PeriodProblem and ValidationError."""
    if kind == Kind.BROADCAST:
        return _broadcast(scope, day, zone)
    if day is None:
        return periods.last_ended(kind, timezone.now(), zone), scope
    return periods.containing(kind, day, zone), scope


def _broadcast(scope: Scope, day: date | None, zone: ZoneInfo) -> tuple[Period, Scope]:
    """The last that was on air on the day, or the last of all. Raises PeriodProblem and ValidationError."""
    if not scope.name:
        raise ValidationError({"scope": "Give the stream of the broadcast, such as live/studio-1."})
    now = timezone.now()
    since, until = now - broadcasts.LONGEST, now
    if day is not None:
        whole = periods.containing(Kind.DAILY, day, zone)
        since, until = whole.since, whole.until
    last = next((each for each in broadcasts.ended_broadcasts(scope, since, now) if each.since < until), None)
    if last is None:
        when = f"on {day} has ended" if day else f"has ended in the last {broadcasts.LONGEST.days} days"
        raise ValidationError({"day": f"No broadcast of {scope.text} {when}."})
    counted = last.counted(zone.key)
    if counted is None:
        raise ValidationError("It is not computed yet. Update the analytics (Analytics jobs), then make its report.")
    return counted


class MailForm(forms.Form):
    recipients = forms.CharField(
        label="To",
        widget=forms.Textarea({"rows": 4, "spellcheck": "false", "autocomplete": "off"}),
        max_length=8000,
        help_text="One address per line or comma. Those who already got this report do not get it again.",
        error_messages={"required": "Give at least one address."},
    )

    def clean_recipients(self) -> list[str]:
        found = addresses(str(self.cleaned_data["recipients"]))
        if not found:
            raise ValidationError("Give at least one address.")
        return found


def known_scopes() -> list[Any]:
    streams = Stream.objects.select_related("application").order_by("application__name", "name")[:MOST_STREAMS]
    return [*Application.objects.order_by("name").values_list("name", flat=True), *(each.path for each in streams)]


FILES: dict[str, tuple[str, str, Callable[[Document], str | bytes]]] = {
    "csv": ("CSV", "text/csv; charset=utf-8", files.report_csv),
    "pdf": ("PDF", "application/pdf", subprocess_jobs.pdf),
    "json": ("JSON", "application/json", files.report_json),
}
"""By the file's ending: the button's word, the content type, and what makes it."""

KINDS = [(Kind.DAILY, "Daily"), (Kind.WEEKLY, "Weekly"), (Kind.MONTHLY, "Monthly"), (Kind.BROADCAST, "Broadcast")]


@safe_view(Ability.VIEW)
def reports(request: HttpRequest) -> HttpResponse:
    return _archive(request, MakeForm())


def _archive(request: HttpRequest, form: MakeForm, status: int = 200) -> HttpResponse:
    filters = active_filters(request.GET, (*LOOKUPS, "whole"))
    rows = narrow(archived_reports(), LOOKUPS, filters)
    if filters["whole"] in ("yes", "no"):
        rows = rows.filter(WHOLE if filters["whole"] == "yes" else ~WHOLE)
    context = page_context(request, rows, filters) | {
        "kinds": KINDS,
        "scopes": list(Report.objects.exclude(scope="").order_by("scope").values_list("scope", flat=True).distinct()),
        "known_scopes": known_scopes(),
        "plans": planned_reports(timezone.now()),
        "may_plan": request.user.is_staff and request.user.has_perm("analytics.change_reportplan"),
        "mail_is_missing": not is_mail_set(),
        "form": form,
    }
    return render(request, "dashboard/reports.html", context, status=status)


@safe_view(Ability.VIEW)
def report(request: HttpRequest, pk: int) -> HttpResponse:
    return _sheet(request, get_object_or_404(Report, pk=pk), None)


def _sheet(request: HttpRequest, row: Report, form: MailForm | None, status: int = 200) -> HttpResponse:
    """`form`: what was typed; None: the plan's recipients."""
    document = row.document
    deliveries = row.deliveries
    context = {
        "report": row,
        "document": document,
        "rows": document["streams"][:MOST_ROWS],
        "more_rows": max(0, len(document["streams"]) - MOST_ROWS),
        "plots": [reports_charts.plot(chart, document["period"]["time_zone"]) for chart in document["charts"]],
        "box": reports_charts.BOX,
        "downloads": {form: words for form, (words, _, _) in FILES.items()},
        "dates": _dates(row),
        "deliveries": deliveries,
        "is_sending": any(each.state == DeliveryState.WAITING for each in deliveries),
        "mail_form": form or MailForm(initial={"recipients": "\n".join(row.plan.addresses) if row.plan else ""}),
        "mail_is_missing": not is_mail_set(),
    }
    return render(request, "dashboard/report.html", context, status=status)


def _dates(row: Report) -> str:
    """What names the days that it is of in the address of a stream's history: there days are of UTC, hours are not."""
    zone = timezone.get_current_timezone() if row.until - row.since <= BY_HOUR_UP_TO else UTC
    first, last = row.since.astimezone(zone), (row.until - timedelta(microseconds=1)).astimezone(zone)
    return urlencode({"from": first.date(), "to": last.date()})


@safe_view(Ability.VIEW)
def download(request: HttpRequest, pk: int, form: str) -> HttpResponse:
    """As a file: its streams as CSV, the sheet as PDF, or all that it says as JSON."""
    row = get_object_or_404(Report, pk=pk)
    if form not in FILES:
        raise Http404
    _, kind, made = FILES[form]
    try:
        return whole_file(f"{files.file_name(row)}.{form}", kind, made(row.document))
    except subprocess_jobs.NotMade as problem:
        messages.error(request, str(problem))
        return _sheet(request, row, None, status=503)


@post_view(Ability.RUN_ANALYTICS)
def make(request: HttpRequest) -> HttpResponse:
    form = MakeForm(request.POST)
    if not form.is_valid():
        return _archive(request, form, status=422)
    try:
        made = reports_actions.make(actor_of(request), *form.wanted)
    except subprocess_jobs.NotMade as problem:
        form.add_error(None, str(problem))
        return _archive(request, form, status=503)
    return HttpResponseRedirect(reverse("dashboard:report", args=[made.pk]))


@post_view(Ability.RUN_ANALYTICS)
def send(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Report, pk=pk)
    form = MailForm(request.POST)
    if not form.is_valid():
        return _sheet(request, row, form, status=422)
    recipients = form.cleaned_data["recipients"]
    try:
        count = reports_actions.send(actor_of(request), row, recipients)
    except reports_actions.TooMany as problem:
        form.add_error("recipients", str(problem))
        return _sheet(request, row, form, status=429)
    got = len(recipients) - count
    words = f"It is sent to {count}." if count else "Nothing is sent."
    messages.success(request, f"{words} {got} of these had it already." if got else words)
    return HttpResponseRedirect(reverse("dashboard:report", args=[pk]))
