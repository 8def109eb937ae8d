"""Reports: the archive with the plans, a report as a page and as files; those who make and send one."""

from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from analytics.models import Report, ReportPlan
from analytics.reports import apart, exports
from analytics.reports.document import MOST_ROWS, Document
from dashboard.actors import actor_of
from dashboard.analytics.periods import BY_HOUR_UP_TO
from dashboard.history import narrow
from dashboard.reporting import acts, archive, plots
from dashboard.reporting.forms import MailForm, MakeForm, known_scopes
from dashboard.views.access import require_ability
from ingest import mailing
from ingest.roles import Ability

PAGE_SIZE = 50

FILES: dict[str, tuple[str, str, Callable[[Document], str | bytes]]] = {
    "csv": ("CSV", "text/csv; charset=utf-8", exports.csv),
    "pdf": ("PDF", "application/pdf", apart.pdf),
    "json": ("JSON", "application/json", exports.as_json),
}
"""By the file's ending: the button's word, the content type, and what makes it."""

Kind = ReportPlan.Kind
KINDS = [(Kind.DAILY, "Daily"), (Kind.WEEKLY, "Weekly"), (Kind.MONTHLY, "Monthly"), (Kind.BROADCAST, "Of a broadcast")]


@require_safe
@require_ability(Ability.VIEW)
def reports(request: HttpRequest) -> HttpResponse:
    """Newest first, by pages. What can't be understood filters nothing."""
    return _archive(request, MakeForm())


def _archive(request: HttpRequest, form: MakeForm, status: int = 200) -> HttpResponse:
    names = (*archive.LOOKUPS, "whole")
    filters = {name: request.GET.get(name, "").replace("\0", "")[:400] for name in names}
    found = narrow(archive.rows(), archive.LOOKUPS, {name: filters[name] for name in archive.LOOKUPS})
    query = request.GET.copy()
    query.pop("page", None)
    context: dict[str, Any] = {
        "page": Paginator(archive.narrow_whole(found, filters["whole"]), PAGE_SIZE).get_page(request.GET.get("page")),
        "filters": filters,
        "is_filtered": any(filters.values()),
        "query": query.urlencode(),
        "kinds": KINDS,
        "scopes": archive.scopes(),
        "known_scopes": known_scopes(),
        "plans": archive.plans(timezone.now()),
        "may_plan": request.user.is_staff and request.user.has_perm("analytics.change_reportplan"),
        "mail_is_missing": not mailing.is_set(),
        "form": form,
    }
    return render(request, "dashboard/reports.html", context, status=status)


@require_safe
@require_ability(Ability.VIEW)
def report(request: HttpRequest, pk: int) -> HttpResponse:
    return _sheet(request, get_object_or_404(Report, pk=pk), None)


def _sheet(request: HttpRequest, row: Report, form: MailForm | None, status: int = 200) -> HttpResponse:
    """`form`: what was typed; None: the plan's recipients."""
    document = row.document
    deliveries = row.deliveries.all()
    context = {
        "report": row,
        "document": document,
        "rows": document["streams"][:MOST_ROWS],
        "more_rows": max(0, len(document["streams"]) - MOST_ROWS),
        "plots": [plots.plot(chart, document["period"]["time_zone"]) for chart in document["charts"]],
        "box": plots.BOX,
        "downloads": {form: words for form, (words, _, _) in FILES.items()},
        "dates": _dates(row),
        "deliveries": deliveries,
        "is_sending": any(each.state in ("waiting", "sending") for each in deliveries),
        "mail_form": form or MailForm(initial={"recipients": "\n".join(row.plan.addresses) if row.plan else ""}),
        "mail_is_missing": not mailing.is_set(),
    }
    return render(request, "dashboard/report.html", context, status=status)


def _dates(row: Report) -> str:
    """What names the days that it is of in the address of a stream's history: there days are of UTC, hours are not."""
    zone = timezone.get_current_timezone() if row.until - row.since <= BY_HOUR_UP_TO else UTC
    first, last = row.since.astimezone(zone), (row.until - timedelta(microseconds=1)).astimezone(zone)
    return urlencode({"from": first.date(), "to": last.date()})


@require_safe
@require_ability(Ability.VIEW)
def download(request: HttpRequest, pk: int, form: str) -> HttpResponse:
    """As a file: its streams as CSV, the sheet as PDF, or all that it says as JSON."""
    row = get_object_or_404(Report, pk=pk)
    if form not in FILES:
        raise Http404
    _, kind, made = FILES[form]
    try:
        answer = HttpResponse(made(row.document), content_type=kind)
    except apart.NotMade as problem:
        messages.error(request, str(problem))
        return _sheet(request, row, None, status=503)
    answer["Content-Disposition"] = f'attachment; filename="{exports.name(row)}.{form}"'
    return answer


@require_POST
@require_ability(Ability.RUN_ANALYTICS)
def make(request: HttpRequest) -> HttpResponse:
    """Makes one and leads to it."""
    form = MakeForm(request.POST)
    if not form.is_valid():
        return _archive(request, form, status=422)
    try:
        made = acts.make(actor_of(request), *form.wanted)
    except apart.NotMade as problem:
        form.add_error(None, str(problem))
        return _archive(request, form, status=503)
    return HttpResponseRedirect(reverse("dashboard:report", args=[made.pk]))


@require_POST
@require_ability(Ability.RUN_ANALYTICS)
def send(request: HttpRequest, pk: int) -> HttpResponse:
    """Sends it to each recipient who has not got it yet."""
    row = get_object_or_404(Report, pk=pk)
    form = MailForm(request.POST)
    if not form.is_valid():
        return _sheet(request, row, form, status=422)
    recipients = form.cleaned_data["recipients"]
    try:
        count = acts.send(actor_of(request), row, recipients)
    except acts.TooMany as problem:
        form.add_error("recipients", str(problem))
        return _sheet(request, row, form, status=429)
    got = len(recipients) - count
    words = f"It is sent to {count}." if count else "Nothing is sent."
    messages.success(request, f"{words} {got} of these had it already." if got else words)
    return HttpResponseRedirect(reverse("dashboard:report", args=[pk]))
