"""What a report counts: the figures of its period, of all its streams and of each, from the hours' rollups.

Sums are made where the hours are, by the database or of the lake's files; percentiles are merged from the hours'
histograms, stream by stream.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analytics.figures import H_MS, NO_QUANTILES, Figures
from analytics.metrics import GOP_BINS
from analytics.models import Rollup
from analytics.players import distinct as distinct_players
from analytics.reports import document, peaks
from analytics.reports.periods import Period
from analytics.reports.scopes import Scope
from analytics.rollups import Rollups
from analytics.summing import figures_of_sums


@dataclass(frozen=True, slots=True)
class Gathered:
    """`streams`: {app/name: its figures}, by name; only those that were seen in the period, if only refused. `lacking`:
    sentences on hours that could not be read.
    """

    period: Period
    scope: Scope
    together: Figures
    streams: dict[str, Figures]
    lacking: Sequence[str] = ()

    @property
    def on_air(self) -> dict[str, Figures]:
        """Those that had a session."""
        return {path: of for path, of in self.streams.items() if of.elapsed_ms}


def gather(period: Period, scope: Scope, lake: Path) -> Gathered:
    each = scope.streams(period)
    whole = each if scope.name else scope.together(period)
    streams = dict(_by_stream(each))
    together = streams.get(scope.text, Figures()) if scope.name else peaks.across_apps(_summed(whole), whole, lake)
    if not scope.app:
        together = replace(together, **_attempts(scope.nodes(period)))
    unique = distinct_players(whole, period.first_hour, period.end_hour)
    together = replace(together, unique_players=unique)
    lacking = dict.fromkeys(filter(None, (each.lacking, whole.lacking)))
    return Gathered(period, scope, together, streams, [*lacking])


def _by_stream(rows: Rollups) -> Iterator[tuple[str, Figures]]:
    quantiles, counters = dict(rows.quantiles("app", "name")), rows.counters("app", "name")
    for key, sums in sorted(rows.sums("app", "name").items()):
        yield "/".join(key), figures_of_sums(sums, quantiles.get(key, NO_QUANTILES), **counters.get(key, {}))


def _summed(rows: Rollups) -> Figures:
    quantiles = dict(rows.quantiles()).get((), NO_QUANTILES)
    return figures_of_sums(rows.sums()[()], quantiles, **rows.counters().get((), {}))


def _attempts(nodes: Rollups) -> dict[str, Any]:
    """All attempts to publish: those at an application that there is not are no application's."""
    sums, counters = nodes.sums()[()], nodes.counters().get((), {})
    return {name: int(sums[name] or 0) for name in ("accepted", "refused")} | {"refusals": counters.get("refusals", {})}


def hours(period: Period, scope: Scope, path: str) -> list[Rollup]:
    """A stream's hours, in order."""
    return list((scope if scope.name else Scope.of(path)).streams(period).rows())


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
        "unique_players": of.unique_players,
        "player_hours": of.player_hours,
        "average_players": of.average_players,
        "peak_players": of.peak_players,
        "peak_at": of.peak_at.isoformat() if of.peak_at else None,
        "peak_streams": of.peak_streams,
        "delivered_gb": of.delivered_gb,
    }
