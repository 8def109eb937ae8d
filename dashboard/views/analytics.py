"""History by hour and day of a stream: the page, its files, and the Spark job that makes it."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.text import slugify
from django.views.decorators.http import require_POST, require_safe

from analytics import services
from analytics.java import JavaMissing, find_java
from analytics.metrics import GOP_BINS
from analytics.models import AnalyticsRun, Grain, Rollup
from dashboard import exports
from dashboard.actors import actor_of
from dashboard.analytics import files
from dashboard.analytics.broadcasts import broadcasts
from dashboard.analytics.columns import FURTHER
from dashboard.analytics.happenings import Happening, happenings
from dashboard.analytics.periods import GRAIN_WORDS, RANGE_WORDS, Completeness, Period
from dashboard.analytics.stream import History, asked, paths
from dashboard.analytics.tiles import tiles
from dashboard.views.access import require_ability
from ingest.roles import Ability
from ingest.services import audit

UNTAKEN_AFTER = timedelta(seconds=15)
"""A run that waits longer has probably no worker."""

FEW_STREAMS = 50
"""Up to so many are chosen from a list, more by typing."""


@require_safe
@require_ability(Ability.VIEW)
def analytics(request: HttpRequest) -> HttpResponse:
    history = asked(request.GET)
    names = paths()
    context = {
        **run_context(),
        "history": history,
        "period": history.period,
        "paths": names,
        "by_typing": len(names) > FEW_STREAMS,
        "ranges": RANGE_WORDS,
        "grains": GRAIN_WORDS,
        "query": request.GET.urlencode(),
        "address": urlencode({"stream": history.path, **history.period.query}),
        "kept": urlencode({"stream": history.path}) + "&",
        "fixed": [("stream", history.path)],
        "chart_by_day": history.period.grain == Grain.DAY,
        "table_by_day": history.table_grain == Grain.DAY,
        "completeness": Completeness.of(history.period),
    }
    if history.path and not history.is_empty:
        context |= _shown(history)
    return render(request, "dashboard/analytics.html", context)


def _shown(history: History) -> dict[str, Any]:
    """What a page with figures has."""
    figures, former, period = history.figures, history.former, history.period
    found = happenings(history.app, history.name, history.stream, period)
    return {
        "tiles": tiles(figures, former, period),
        "further": [(column, column.text_with_unit(figures), column.text_with_unit(former)) for column in FURTHER],
        "chart": history.chart() | {"marks": [_mark(one, period) for one in found]},
        "happenings": found,
        "dots": [(one, f"{_place(one, period):.3f}%") for one in found],
        "intervals": _intervals(history),
        "refusals": sorted(figures.refusals.items(), key=lambda item: -item[1]),
        "broadcasts": broadcasts(history.app, history.name, period),
        "has_reports": _url("dashboard:report", 1) != "",
        "figures": figures,
    }


def _place(happening: Happening, period: Period) -> float:
    """In per cent of the period."""
    return 100 * ((happening.at - period.since) / (period.until - period.since))


def _mark(happening: Happening, period: Period) -> dict[str, Any]:
    return {"at": happening.at.timestamp(), "is_line": happening.is_mark}


def _intervals(history: History) -> list[tuple[str, int, float | None, bool]]:
    """Of keyframe intervals: words, how many, how many per cent, whether it is longer than 4 s."""
    total = history.figures.keyframe_intervals
    found, below = [], 0.0
    for name, bound in GOP_BINS.items():
        words = f"up to {bound:g} s" if not below else f"{below:g} to {bound:g} s"
        words = f"over {below:g} s" if bound == float("inf") else words
        count = getattr(history.figures, name)
        found.append((words, count, 100 * count / total if total else None, bound > 4))
        below = bound
    return found


def _url(name: str, *args: Any) -> str:
    """ "" while the part that brings the page is not installed."""
    try:
        return reverse(name, args=args)
    except NoReverseMatch:
        return ""


@require_safe
@require_ability(Ability.VIEW)
def progress(request: HttpRequest) -> HttpResponse:
    """The part of the page that tells of the run, for the page to fetch while one goes on."""
    return render(request, "dashboard/_analytics_run.html", run_context())


@require_POST
@require_ability(Ability.RUN_ANALYTICS)
def run(request: HttpRequest) -> HttpResponse:
    """Asks for a run and goes back to the page, which shows its progress; from the page of jobs (`back`) to the run."""
    actor = actor_of(request)
    asked = services.start_run(trigger=AnalyticsRun.Trigger.PAGE, user=actor.user)
    audit.record(actor, "analytics.run", f"run {asked.pk}", kind=asked.kind)
    if request.POST.get("back") == "jobs":
        return HttpResponseRedirect(reverse("dashboard:job", args=[asked.pk]))
    query = request.POST.get("query", "")
    return HttpResponseRedirect(reverse("dashboard:analytics") + (f"?{query}" if query.isprintable() and query else ""))


@require_safe
@require_ability(Ability.VIEW)
def export_csv(request: HttpRequest) -> HttpResponseBase:
    """The page's hours or days with all their figures, oldest first; or what `part` names: broadcasts, events."""
    history = asked(request.GET)
    if history.lacking and request.GET.get("part") != "events":  # Which are in the database.
        return exports.lacking_answer(history.lacking)
    name, columns, rows = _file(request, history)
    return exports.csv_answer(name, columns, ([row[column] for column in columns] for row in rows))


@require_safe
@require_ability(Ability.VIEW)
def export_json(request: HttpRequest) -> HttpResponseBase:
    """The same as JSON."""
    history = asked(request.GET)
    if history.lacking and request.GET.get("part") != "events":  # Which are in the database.
        return exports.lacking_answer(history.lacking)
    name, _, rows = _file(request, history)
    return exports.json_answer(name, rows)


Part = tuple[Sequence[str], Callable[[History], Iterator[dict[str, Any]]]]
PARTS: dict[str, Part] = {
    "rollups": (files.ROLLUP_COLUMNS, lambda history: files.rollups(history.rollups)),
    "broadcasts": (files.BROADCAST_COLUMNS, files.broadcast_rows),
    "events": (files.EVENT_COLUMNS, files.event_rows),
}
"""By the address' `part`: columns and rows of the file."""


def _file(request: HttpRequest, history: History) -> tuple[str, Sequence[str], Iterator[dict[str, Any]]]:
    part = request.GET.get("part", "")
    columns, rows = PARTS.get(part, PARTS["rollups"])
    what = part if part in PARTS and part != "rollups" else history.period.grain
    name = f"{slugify(history.path.replace('/', '-')) or 'rollups'}-{what}-{history.period.first_day:%Y%m%d}"
    return name, columns, rows(history)


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
