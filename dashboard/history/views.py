"""History by hour and day: a stream's page, the comparison, what files have of both, and the Spark job that makes
it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.text import slugify

from analytics import services
from analytics.completeness import completeness
from analytics.figures import DERIVED, MAX_FIELDS, SUM_FIELDS, Figures
from analytics.histograms import in_file
from analytics.java import JavaMissing, find_java
from analytics.metrics import BITRATES, GOP_BINS, PERCENTILES
from analytics.models import FIGURES, IDENTITY, AnalyticsRun, Grain, Rollup
from analytics.reports.findings import refusals_by_reason
from analytics.rollups import UNPACKED, Rollups
from analytics.wording import tiles
from dashboard import lists
from dashboard.access import actor_of, post_view, safe_view
from dashboard.history.comparison import COMPARED, DIMENSIONS, FURTHER, MAX_CHOSEN, MAX_ROWS, Comparison, text_with_unit
from dashboard.history.events import MOST_EVENTS_IN_FILE as MOST_EVENTS
from dashboard.history.events import history_events
from dashboard.history.periods import GRAIN_WORDS, RANGE_WORDS, PagePeriod
from dashboard.history.stream import (
    MOST_BROADCASTS_IN_FILE,
    ORDERS,
    PAGE_TILES,
    StreamHistory,
    broadcasts,
    choices,
    history_of,
)
from ingest.services import audit, own_redis
from ingest.services.roles import Ability

ROLLUP_COLUMNS = (*IDENTITY, *FIGURES, *DERIVED, "metric_version")
MERGED = (
    *SUM_FIELDS,
    *MAX_FIELDS,
    *("video_kbps_mean", "video_kbps_p5", "video_kbps_p50", "video_kbps_p95"),
    *DERIVED,
)
"""Of what was summed over several rows."""
BROADCAST_COLUMNS = ("app", "name", "begin", "end", *MERGED)
EVENT_COLUMNS = ("at", "kind", "words", "detail", "session")
COMPARED_COLUMNS = ("by", "value", "label", "stream", *MERGED)

RANKED = tuple(f"{kind}_kbps_{rank}" for kind in BITRATES for rank in PERCENTILES)


def rollup_rows(rows: Rollups) -> Iterator[dict[str, Any]]:
    for values in rows.values(*UNPACKED):
        yield _rounded({**values, **Figures.of_sums(values).derived()})


def broadcast_rows(history: StreamHistory) -> Iterator[dict[str, Any]]:
    app, name = history.app, history.name
    found = broadcasts(app, name, history.period, MOST_BROADCASTS_IN_FILE)
    return ({"app": app, "name": name, "begin": one.begin, "end": one.end, **_merged(one.figures)} for one in found)


def event_rows(history: StreamHistory) -> Iterator[dict[str, Any]]:
    found = history_events(history.app, history.name, history.stream, history.period, MOST_EVENTS)
    return ({name: getattr(one, name) for name in EVENT_COLUMNS} for one in found)


def compared_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    for line in comparison.every():
        about = {"by": str(comparison.dimension), "value": line.value, "label": line.label, "stream": line.stream}
        yield about | _merged(line.figures)


def _merged(figures: Figures) -> dict[str, Any]:
    return _rounded({name: getattr(figures, name) for name in MERGED})


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: in_file(value) if name in RANKED else value for name, value in row.items()}


UNTAKEN_AFTER = timedelta(seconds=15)
"""A run that waits longer has probably no worker."""

FEW_STREAMS = 50
"""Up to so many are chosen from a list, more by typing."""


@safe_view(Ability.VIEW)
def analytics(request: HttpRequest) -> HttpResponse:
    history = history_of(request.GET)
    streams = choices()
    context = {
        **run_context(),
        "history": history,
        "period": history.period,
        "streams": streams,
        "is_listed": any(each.path == history.path for each in streams),
        "by_typing": len(streams) > FEW_STREAMS,
        "ranges": RANGE_WORDS,
        "grains": GRAIN_WORDS,
        "query": request.GET.urlencode(),
        "address": urlencode({"stream": history.path, **history.period.query}),
        "kept": urlencode({"stream": history.path}) + "&",
        "fixed": [("stream", history.path)],
        "chart_by_day": history.period.grain == Grain.DAY,
        "table_by_day": history.table_grain == Grain.DAY,
        "orders": ORDERS,
        "completeness": completeness(history.period.since, history.period.until),
        "computed": computed_to(history.period),
    }
    if history.path and not history.is_empty:
        context |= _shown(history)
    return render(request, "dashboard/analytics.html", context)


def _shown(history: StreamHistory) -> dict[str, Any]:
    figures, former, period = history.figures, history.former, history.period
    found, length = history_events(history.app, history.name, history.stream, period), period.until - period.since
    return {
        "tiles": tiles(PAGE_TILES, figures, former, period.before_words),
        "further": [(column, text_with_unit(column, figures), text_with_unit(column, former)) for column in FURTHER],
        "chart": history.chart() | {"marks": [{"at": one.at.timestamp(), "is_line": one.is_mark} for one in found]},
        "happenings": found,
        "dots": [(one, f"{100 * ((one.at - period.since) / length):.3f}%") for one in found],
        "intervals": _intervals(history),
        "refusals": [(each["reason"], each["count"]) for each in refusals_by_reason(figures)],
        "broadcasts": broadcasts(history.app, history.name, period),
        "figures": figures,
    }


def _intervals(history: StreamHistory) -> list[tuple[str, int, float | None, bool]]:
    """Of keyframe intervals: words, how many, how many per cent, whether it is longer than 4 s."""
    total = history.figures.keyframe_intervals
    intervals, below = [], 0.0
    for name, bound in GOP_BINS.items():
        words = f"up to {bound:g} s" if not below else f"{below:g} to {bound:g} s"
        words = f"over {below:g} s" if bound == float("inf") else words
        count = getattr(history.figures, name)
        intervals.append((words, count, 100 * count / total if total else None, bound > 4))
        below = bound
    return intervals


@safe_view(Ability.VIEW)
def progress(request: HttpRequest) -> HttpResponse:
    """The part of the page that tells of the run, for the page to fetch while one goes on."""
    return render(request, "dashboard/_analytics_run.html", run_context())


@post_view(Ability.RUN_ANALYTICS)
def run(request: HttpRequest) -> HttpResponse:
    """Asks for a run and goes back to the page, which shows its progress; from the page of jobs (`back`) to the run."""
    actor = actor_of(request)
    new_run = services.start_run(trigger=AnalyticsRun.Trigger.PAGE, requested_by=actor.user)
    audit.record(actor, "analytics.run", f"run {new_run.pk}", kind=new_run.kind)
    if request.POST.get("back") == "jobs":
        return HttpResponseRedirect(reverse("dashboard:job", args=[new_run.pk]))
    query = request.POST.get("query", "")
    return HttpResponseRedirect(reverse("dashboard:analytics") + (f"?{query}" if query.isprintable() and query else ""))


@safe_view(Ability.VIEW)
def export(request: HttpRequest, form: str) -> HttpResponseBase:
    """The page's hours or days with all their figures, oldest first; or what `part` names: broadcasts, events."""
    history, part = history_of(request.GET), request.GET.get("part", "")
    if history.lacking and part != "events":  # Which are in the database.
        return lists.lacking_answer(history.lacking)
    columns, rows = PARTS.get(part, PARTS["rollups"])
    label = part if part in PARTS and part != "rollups" else history.period.grain
    name = f"{slugify(history.path.replace('/', '-')) or 'rollups'}-{label}-{history.period.first_day:%Y%m%d}"
    return lists.file_answer(name, form, columns, rows(history))


Part = tuple[Sequence[str], Callable[[StreamHistory], Iterator[dict[str, Any]]]]
PARTS: dict[str, Part] = {
    "rollups": (ROLLUP_COLUMNS, lambda history: rollup_rows(history.rollups)),
    "broadcasts": (BROADCAST_COLUMNS, broadcast_rows),
    "events": (EVENT_COLUMNS, event_rows),
}
"""By the address' `part`: columns and rows of the file."""


@dataclass(frozen=True, slots=True)
class Computed:
    """`run`: the last that computed what there was; what was recorded until it began is in the figures."""

    run: AnalyticsRun
    until: datetime

    @property
    def to(self) -> datetime | None:
        return self.run.started_at


def computed_to(period: PagePeriod) -> Computed | None:
    """Up to when a period that ends now has been computed; None of others, and before the first run."""
    whole = AnalyticsRun.objects.filter(
        state=AnalyticsRun.State.DONE, since__isnull=True, until__isnull=True, started_at__isnull=False
    ).exclude(kind=AnalyticsRun.Kind.DAILY)
    run = whole.order_by("-started_at").first() if period.is_range else None
    return Computed(run, period.until) if run else None


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
    if not own_redis.is_apart() and not settings.SPARK_REMOTE:
        try:
            find_java()
        except JavaMissing as error:
            return str(error)
        return ""
    return ended.error if ended and ended.error_code == AnalyticsRun.ErrorCode.JAVA_MISSING else ""


@safe_view(Ability.VIEW)
def compare(request: HttpRequest) -> HttpResponse:
    comparison = Comparison.of(request.GET)
    context = {
        "comparison": comparison,
        "period": comparison.period,
        "completeness": completeness(comparison.period.since, comparison.period.until),
        "computed": computed_to(comparison.period),
        "columns": COMPARED,
        "dimensions": DIMENSIONS,
        "words": DIMENSIONS[comparison.dimension],
        "ranges": RANGE_WORDS,
        "most": MAX_ROWS,
        "most_chosen": MAX_CHOSEN,
        "chart": comparison.chart() if comparison.chosen else None,
        "period_address": urlencode(comparison.time),
        "kept": urlencode({"by": str(comparison.dimension), "pick": comparison.picks}, doseq=True) + "&",
        "fixed": [("by", comparison.dimension), *(("pick", pick) for pick in comparison.picks)],
    }
    return render(request, "dashboard/analytics_compare.html", context)


@safe_view(Ability.VIEW)
def compare_file(request: HttpRequest, form: str) -> HttpResponseBase:
    """All that the page compares, in its order."""
    comparison = Comparison.of(request.GET)
    if comparison.lacking:
        return lists.lacking_answer(comparison.lacking)
    period = comparison.period
    name = f"by-{comparison.dimension}-{period.first_day:%Y%m%d}-{period.last_day:%Y%m%d}"
    return lists.file_answer(name, form, COMPARED_COLUMNS, compared_rows(comparison))
