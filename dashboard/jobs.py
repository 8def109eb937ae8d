"""Runs of the Spark jobs: their list with the ledger of hours, a run with its log, where the jobs run, and what people
ask of them."""

from datetime import UTC, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone

from analytics import services
from analytics.models import AnalyticsRun, Grain, Partition
from dashboard import zones
from dashboard.access import actor_of, post_view, safe_view
from dashboard.lists import narrow, page_context
from dashboard.models import Heartbeat
from dashboard.system.parts import State as PartState
from dashboard.system.watch import get_watch
from dashboard.templatetags import analytics
from dashboard.zones import MomentField, MomentInput
from ingest.services import audit, database
from ingest.services.roles import Ability


def analytics_workers() -> QuerySet[Heartbeat]:
    """Those that run. `detail`: `spark` in words, `java_home`, and `java`, what stands in the way of Spark there; each
    may be missing.
    """
    since = database.shared_now() - timedelta(seconds=settings.PROCESS_LATE_S)
    alive = Heartbeat.objects.filter(kind=Heartbeat.Kind.WORKER_ANALYTICS, stopped_at__isnull=True, seen_at__gte=since)
    return alive.order_by("name")


LONGEST_RANGE = timedelta(days=31)
"""More at once would keep the one worker busy for long."""

HOUR_INPUT = {"step": 900}
"""A quarter of an hour: in some zones whole hours of UTC begin with it."""


class RangeForm(forms.Form):
    """Whole hours (UTC): since <= hour < until."""

    since = MomentField(label="From", widget=MomentInput(HOUR_INPUT))
    until = MomentField(label="Until", widget=MomentInput(HOUR_INPUT))

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        for name in ("since", "until"):
            at = data.get(name)
            if at and at != at.replace(minute=0, second=0, microsecond=0):
                self.add_error(name, f"Give a full hour of UTC: history is kept by these. This is {at:%H:%M} UTC.")
        since, until = data.get("since"), data.get("until")
        if since and until and since >= until:
            raise ValidationError("The range has to end after it begins.")
        if since and until and until - since > LONGEST_RANGE:
            raise ValidationError(f"At most {LONGEST_RANGE.days} days at once: recompute the rest afterwards.")
        return data


PAGE_SIZE = 25

MOST_LINES = 1000
"""Of a run's log, the last ones."""

MAX_PARTITIONS = 1000
"""In a table, the newest."""

NOTHING = "Nothing to recompute: none of these hours was computed, or their samples have been removed from the lake."

LOOKUPS = {"state": "state", "trigger": "trigger"}
CHOICES = {"state": AnalyticsRun.State.choices, "trigger": AnalyticsRun.Trigger.choices}


@safe_view(Ability.VIEW)
def jobs(request: HttpRequest) -> HttpResponse:
    return _page(request, RangeForm())


def _page(request: HttpRequest, form: RangeForm, status: int = 200) -> HttpResponse:
    chosen = {name: request.GET.get(name, "") for name in CHOICES}
    filters = {name: value if value in dict(CHOICES[name]) else "" for name, value in chosen.items()}
    runs = narrow(AnalyticsRun.objects.select_related("requested_by"), LOOKUPS, filters)
    days = next(
        (days for days in analytics.LEDGER_RANGES if str(days) == request.GET.get("days")), min(analytics.LEDGER_RANGES)
    )
    now = timezone.now()
    partitions = Partition.objects.select_related("run")
    context = page_context(request, runs, filters, PAGE_SIZE) | {
        "active": services.active_run(),
        "choices": CHOICES,
        "days": analytics.ledger_days(days, now),
        "range": days,
        "ranges": analytics.LEDGER_RANGES,
        "bars": analytics.LEDGER_BARS,
        "partitions": partitions.filter(grain=Grain.HOUR, start__gt=now - timedelta(days=days))[:MAX_PARTITIONS],
        "failed": partitions.filter(state=Partition.State.FAILED).order_by("-start", "grain")[:MAX_PARTITIONS],
        "places": analytics_workers(),
        "is_written": get_watch().report().state("database") is PartState.OK,
        "form": form,
    }
    return render(request, "dashboard/jobs.html", context, status=status)


@safe_view(Ability.VIEW)
def job(request: HttpRequest, pk: int) -> HttpResponse:
    services.end_lost_runs()
    run = get_object_or_404(AnalyticsRun.objects.select_related("requested_by"), pk=pk)
    lines = list(run.lines.order_by("-pk")[: MOST_LINES + 1])
    return render(
        request,
        "dashboard/job.html",
        {
            "run": run,
            "lines": lines[:MOST_LINES][::-1],
            "lines_cut": len(lines) > MOST_LINES,
            "partitions": run.partitions.order_by("-start", "grain")[:MAX_PARTITIONS],
        },
    )


@post_view(Ability.RUN_ANALYTICS)
def retry(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks for what a run left undone, without waiting for the next try."""
    run = get_object_or_404(AnalyticsRun, pk=pk)
    services.clear_failures(run.partitions.all())
    return _start(request, f"run {run.pk}", services.same_work(run))


@post_view(Ability.RUN_ANALYTICS)
def retry_failed(request: HttpRequest) -> HttpResponse:
    """Asks for all hours and days that failed, without waiting for their next tries."""
    count = services.clear_failures(Partition.objects.all())
    return _start(request, f"{count} failed hours and days", {})


def _start(request: HttpRequest, target: str, work: dict[str, Any]) -> HttpResponse:
    actor = actor_of(request)
    run = services.start_run(trigger=AnalyticsRun.Trigger.PAGE, requested_by=actor.user, **work)
    audit.record(actor, "analytics.retry", target, asked=f"run {run.pk}")
    return HttpResponseRedirect(reverse("dashboard:job", args=[run.pk]))


@post_view(Ability.RUN_ANALYTICS)
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
    new_run = services.start_run(trigger=AnalyticsRun.Trigger.PAGE, requested_by=actor.user)
    words = f"{since.astimezone(UTC):%Y-%m-%d %H:%M} to {until.astimezone(UTC):%Y-%m-%d %H:%M}"
    audit.record(actor, "analytics.recompute", words, partitions=count, asked=f"run {new_run.pk}")
    shown = " to ".join(zones.clock(at, "%-d %b %Y", "%H:%M") for at in (since, until))
    messages.success(request, f"{count} hours and days are being recomputed: {shown}.")
    return HttpResponseRedirect(reverse("dashboard:job", args=[new_run.pk]))
