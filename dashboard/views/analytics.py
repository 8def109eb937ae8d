"""History by hour and day, and the Spark job that makes it: the page, its progress, the button and the CSV."""

import csv
import io
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.text import slugify
from django.views.decorators.http import require_POST, require_safe

from analytics import services
from analytics.java import JavaMissing, find_java
from analytics.models import FIGURES, IDENTITY, AnalyticsRun, Rollup
from dashboard import rollups
from dashboard.permissions import Ability
from dashboard.views.access import require_ability

TABLE_ROWS = 200

UNTAKEN_AFTER = timedelta(seconds=15)
"""A run that waits longer has probably no worker."""


@require_safe
@require_ability(Ability.VIEW)
def analytics(request: HttpRequest) -> HttpResponse:
    choice = rollups.Choice.of(request.GET)
    rows = list(choice.rollups()) if choice.path else []
    target = rollups.target_kbps(choice)
    bars = rollups.strip(choice, rows)
    context = {
        **run_context(),
        "choice": choice,
        "paths": rollups.paths(),
        "ranges": rollups.RANGE_WORDS,
        "grains": rollups.GRAIN_WORDS,
        "query": request.GET.urlencode(),
        "rows": rows[:TABLE_ROWS],
        "more_rows": max(0, len(rows) - TABLE_ROWS),
        "totals": rollups.totals(choice),
        "target": target,
        "chart": rollups.chart(choice, rows, target),
        "bars": bars,
        "bar_counts": {health: sum(bar.health == health for bar in bars) for health in rollups.BARS},
    }
    return render(request, "dashboard/analytics.html", context)


@require_safe
@require_ability(Ability.VIEW)
def progress(request: HttpRequest) -> HttpResponse:
    """The part of the page that tells of the run, for the page to fetch while one goes on."""
    return render(request, "dashboard/_analytics_run.html", run_context())


@require_POST
@require_ability(Ability.RUN_ANALYTICS)
def run(request: HttpRequest) -> HttpResponse:
    """Asks for a run and goes back to the page, which shows its progress."""
    user = request.user
    services.start_run(trigger=AnalyticsRun.Trigger.PAGE, user=user if isinstance(user, User) else None)
    query = request.POST.get("query", "")
    return HttpResponseRedirect(reverse("dashboard:analytics") + (f"?{query}" if query.isprintable() and query else ""))


@require_safe
@require_ability(Ability.VIEW)
def export(request: HttpRequest) -> StreamingHttpResponse:
    """The page's rollups with all their figures as CSV, oldest first."""
    choice = rollups.Choice.of(request.GET)
    columns = [*IDENTITY, *FIGURES]
    rows = choice.rollups().order_by("start").values_list(*columns)
    name = f"{slugify(choice.path.replace('/', '-')) or 'rollups'}-{choice.grain}-{choice.since:%Y%m%d}.csv"
    return StreamingHttpResponse(
        _lines(columns, rows.iterator()),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _lines(columns: list[str], rows: Iterator[tuple[Any, ...]]) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in {"=", "+", "-", "@"}:
        return f"'{value}"  # Else a spreadsheet would take a stream's name for a formula.
    return value.isoformat() if hasattr(value, "isoformat") else value


def run_context() -> dict[str, Any]:
    """The run that goes on or waits, the last that ended, and whether Spark can run here."""
    active = services.active_run()
    ended = AnalyticsRun.objects.filter(ended_at__isnull=False).order_by("-ended_at").first()
    waited = timezone.now() - active.requested_at if active and active.state == AnalyticsRun.State.QUEUED else None
    return {
        "active": active,
        "ended": ended,
        "untaken": waited is not None and waited > UNTAKEN_AFTER,
        "java_missing": _java_missing(ended),
        "has_rollups": Rollup.objects.exists(),
    }


def _java_missing(ended: AnalyticsRun | None) -> str:
    """What to install; empty when Spark can run. Only the embedded form's worker is on this machine for certain."""
    if not settings.REDIS_URL and not settings.SPARK_REMOTE:
        try:
            find_java()
        except JavaMissing as error:
            return str(error)
        return ""
    return ended.error if ended and ended.error_code == AnalyticsRun.ErrorCode.JAVA_MISSING else ""
