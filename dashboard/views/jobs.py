"""Runs of the Spark jobs: their list with the ledger of hours, a run with its log, and what people ask of them."""

from datetime import UTC, timedelta

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from analytics import services
from analytics.models import AnalyticsRun, Grain, Partition
from dashboard import zones
from dashboard.actors import actor_of
from dashboard.history import narrow
from dashboard.jobs import strip, where
from dashboard.jobs.forms import RangeForm
from dashboard.system.parts import State as PartState
from dashboard.system.watch import get_watch
from dashboard.views.access import require_ability
from ingest import sharedclock
from ingest.roles import Ability
from ingest.services import audit

PAGE_SIZE = 25

MOST_LINES = 1000
"""Of a run's log, the last ones."""

MOST_PARTITIONS = 1000
"""In a table, the newest."""

NOTHING = "Nothing of it can be computed anew: no hour of it is done, or its samples have gone from the lake."

LOOKUPS = {"state": "state", "trigger": "trigger"}
CHOICES = {"state": AnalyticsRun.State.choices, "trigger": AnalyticsRun.Trigger.choices}


@require_safe
@require_ability(Ability.VIEW)
def jobs(request: HttpRequest) -> HttpResponse:
    """Newest first, by pages. What can't be understood filters nothing."""
    return _page(request, RangeForm())


def _page(request: HttpRequest, form: RangeForm, status: int = 200) -> HttpResponse:
    chosen = {name: request.GET.get(name, "") for name in CHOICES}
    filters = {name: value if value in dict(CHOICES[name]) else "" for name, value in chosen.items()}
    runs = narrow(AnalyticsRun.objects.select_related("requested_by"), LOOKUPS, filters)
    days = next((days for days in strip.RANGES if str(days) == request.GET.get("days")), min(strip.RANGES))
    now = timezone.now()
    partitions = Partition.objects.select_related("run")
    query = request.GET.copy()
    query.pop("page", None)
    context = {
        "active": services.active_run(),
        "page": Paginator(runs, PAGE_SIZE).get_page(request.GET.get("page")),
        "filters": filters,
        "choices": CHOICES,
        "is_filtered": any(filters.values()),
        "query": query.urlencode(),
        "days": strip.days(days, now),
        "range": days,
        "ranges": strip.RANGES,
        "bars": strip.BARS,
        "partitions": partitions.filter(grain=Grain.HOUR, start__gt=now - timedelta(days=days))[:MOST_PARTITIONS],
        "failed": partitions.filter(state=Partition.State.FAILED).order_by("-start", "grain")[:MOST_PARTITIONS],
        "places": where.places(sharedclock.utc_now()),
        "is_written": get_watch().report().state("database") is PartState.OK,
        "form": form,
    }
    return render(request, "dashboard/jobs.html", context, status=status)


@require_safe
@require_ability(Ability.VIEW)
def job(request: HttpRequest, pk: int) -> HttpResponse:
    """A run: how far it is, what it said, and what it did."""
    services.sweep()
    run = get_object_or_404(AnalyticsRun.objects.select_related("requested_by"), pk=pk)
    lines = list(run.lines.order_by("-pk")[: MOST_LINES + 1])
    return render(
        request,
        "dashboard/job.html",
        {
            "run": run,
            "lines": lines[:MOST_LINES][::-1],
            "lines_cut": len(lines) > MOST_LINES,
            "partitions": run.partitions.order_by("-start", "grain")[:MOST_PARTITIONS],
        },
    )


@require_POST
@require_ability(Ability.RUN_ANALYTICS)
def retry(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks for what a run left undone, without waiting for the next try."""
    run = get_object_or_404(AnalyticsRun, pk=pk)
    return _asked(request, services.retry(run, actor_of(request).user), f"run {run.pk}")


@require_POST
@require_ability(Ability.RUN_ANALYTICS)
def retry_failed(request: HttpRequest) -> HttpResponse:
    """Asks for all hours and days that failed, without waiting for their next tries."""
    failed = list(Partition.objects.filter(state=Partition.State.FAILED).order_by("-start"))
    return _asked(request, services.retry(failed, actor_of(request).user), f"{len(failed)} failed hours and days")


def _asked(request: HttpRequest, run: AnalyticsRun, what: str) -> HttpResponse:
    audit.record(actor_of(request), "analytics.retry", what, asked=f"run {run.pk}")
    return HttpResponseRedirect(reverse("dashboard:job", args=[run.pk]))


@require_POST
@require_ability(Ability.RUN_ANALYTICS)
def recompute(request: HttpRequest) -> HttpResponse:
    """Asks for a range of hours to be computed anew, done or not."""
    form = RangeForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    since, until = form.cleaned_data["since"], form.cleaned_data["until"]
    count = services.recompute(since, until)
    if not count:
        form.add_error(None, NOTHING)
        return _page(request, form, status=422)
    actor = actor_of(request)
    asked = services.start_run(trigger=AnalyticsRun.Trigger.PAGE, user=actor.user)
    words = f"{since.astimezone(UTC):%Y-%m-%d %H:%M} to {until.astimezone(UTC):%Y-%m-%d %H:%M}"
    audit.record(actor, "analytics.recompute", words, partitions=count, asked=f"run {asked.pk}")
    shown = " to ".join(zones.clock(at, "%-d %b %Y", "%H:%M") for at in (since, until))
    messages.success(request, f"{count} hours and days are computed anew: {shown}.")
    return HttpResponseRedirect(reverse("dashboard:job", args=[asked.pk]))
