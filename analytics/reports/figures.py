"""What a report counts: the figures of its period, of all its streams and of each, from the hours' rollups.

Sums are made by the database; percentiles are merged from the hours' histograms, stream by stream.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from django.db.models import Q, QuerySet, Sum

from analytics.figures import H_MS, MEASURED, NO_QUANTILES, Figures, Quantiles, merged
from analytics.metrics import GOP_BINS
from analytics.models import PACKED, Rollup
from analytics.reports import document, peaks
from analytics.reports.periods import Period
from analytics.reports.scopes import Scope
from analytics.summing import MANY, aggregates, figures_of_sums, quantiles_of

COUNTERS = ("refusals", "end_reasons")


@dataclass(frozen=True, slots=True)
class Gathered:
    """`streams`: {app/name: its figures}, by name; only those that were seen in the period, if only refused."""

    period: Period
    scope: Scope
    together: Figures
    streams: dict[str, Figures]

    @property
    def on_air(self) -> dict[str, Figures]:
        """Those that had a session."""
        return {path: of for path, of in self.streams.items() if of.elapsed_ms}


def gather(period: Period, scope: Scope, lake: Path) -> Gathered:
    streams = dict(_by_stream(scope.streams(period)))
    if scope.name:
        together = streams.get(scope.text, Figures())
    else:
        together = peaks.across_apps(_summed(scope.together(period)), scope.together(period), lake)
    if not scope.app:
        together = replace(together, **_attempts(scope.nodes(period)))
    return Gathered(period, scope, together, streams)


def _by_stream(rows: QuerySet[Rollup]) -> Iterator[tuple[str, Figures]]:
    quantiles = dict(_quantiles_by_stream(rows))
    counters = _counters_by_stream(rows)
    for sums in rows.order_by("app", "name").values("app", "name").annotate(**aggregates()):
        path = f"{sums['app']}/{sums['name']}"
        yield path, figures_of_sums(sums, quantiles.get(path, NO_QUANTILES), **counters.get(path, {}))


def _summed(rows: QuerySet[Rollup]) -> Figures:
    counters: dict[str, Counter[str]] = {name: Counter() for name in COUNTERS}
    for row in _counted(rows):
        for name in COUNTERS:
            counters[name].update(row[name])
    return figures_of_sums(rows.aggregate(**aggregates()), quantiles_of(rows), **counters)


def _attempts(nodes: QuerySet[Rollup]) -> dict[str, Any]:
    """All attempts to publish: those at an application that there is not are no application's."""
    refusals: Counter[str] = Counter()
    for row in nodes.filter(refused__gt=0).values_list("refusals", flat=True).iterator(MANY):
        refusals.update(row)
    sums = nodes.aggregate(accepted=Sum("accepted"), refused=Sum("refused"))
    return {name: count or 0 for name, count in sums.items()} | {"refusals": dict(refusals)}


def _counted(rows: QuerySet[Rollup]) -> Iterator[dict[str, Any]]:
    found = rows.filter(Q(refused__gt=0) | Q(ends__gt=0)).order_by("app", "name")
    yield from found.values("app", "name", *COUNTERS).iterator(MANY)


def _counters_by_stream(rows: QuerySet[Rollup]) -> dict[str, dict[str, Counter[str]]]:
    found: dict[str, dict[str, Counter[str]]] = {}
    for row in _counted(rows):
        counters = found.setdefault(f"{row['app']}/{row['name']}", {name: Counter() for name in COUNTERS})
        for name in COUNTERS:
            counters[name].update(row[name])
    return found


def _quantiles_by_stream(rows: QuerySet[Rollup]) -> Iterator[tuple[str, Quantiles]]:
    found = rows.filter(samples__gt=0).order_by("app", "name").values_list("app", "name", *MEASURED).iterator(MANY)
    for (app, name), parts in groupby(found, key=lambda row: row[:2]):
        yield f"{app}/{name}", merged(measured for _, _, *measured in parts)


def hours(period: Period, scope: Scope, path: str) -> list[Rollup]:
    """A stream's hours, in order."""
    app, _, name = path.partition("/")
    return list(scope.streams(period).filter(app=app, name=name).defer(*PACKED).order_by("start"))


def raw(gathered: Gathered) -> document.Figures:
    """As the document tells them."""
    of = gathered.together
    counted = of.keyframe_intervals
    return {
        "live_h": of.live_h,
        "streams": len(gathered.on_air),
        "uptime_percent": of.uptime_percent,
        "starts": of.starts,
        "broadcasts": of.broadcasts,
        "reconnects": of.reconnects,
        "reconnects_per_h": of.reconnects_per_hour,
        "unplanned_ends": of.unplanned_ends,
        "mtbf_h": of.mtbf_h,
        "mttr_s": of.mttr_s,
        "health_percent": of.health_percent,
        "bad_h": of.bad_ms / H_MS,
        "warning_h": of.warning_ms / H_MS,
        "below_h": of.below_ms / H_MS,
        "below_percent": of.below_percent,
        "starved_percent": of.starvation_percent,
        "gaps_per_h": of.gaps_per_hour,
        "missing_percent": of.missing_percent,
        "mean_kbps": of.video_kbps_mean,
        "p5": of.video_kbps_p5,
        "p50": of.video_kbps_p50,
        "p95": of.video_kbps_p95,
        "cv": of.cv,
        "gop": {name: 100 * getattr(of, name) / counted for name in GOP_BINS} if counted else {},
        "keyframe_interval_max": of.keyframe_interval_max,
        "accepted": of.accepted,
        "refused": of.refused,
        "success_percent": of.success_percent,
        "plays": of.plays,
        "player_hours": of.player_hours,
        "average_players": of.average_players,
        "peak_players": of.peak_players,
        "peak_at": of.peak_at.isoformat() if of.peak_at else None,
        "peak_streams": of.peak_streams,
        "delivered_gb": of.delivered_gb,
    }
