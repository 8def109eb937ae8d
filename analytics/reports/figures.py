"""What a report counts: the figures of its period, of all its streams and of each, the peaks, and the charts' series.

Sums are made where the hours are, by the database or of the lake's files; percentiles are merged from the hours'
histograms, stream by stream. Most players and most streams at once across several applications are of the lake's
minutes, as rollups have them of each application; where these are gone, the sum is the most that it can have been. A
chart is by hour, and of a short period by minute where the lake has them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from analytics.figures import H_MS, NO_QUANTILES, Figures
from analytics.metrics import GOP_BINS, PERCENTILES
from analytics.models import Rollup
from analytics.periods import DAY, HOUR, Period, midnight
from analytics.reports import document
from analytics.reports.document import Chart, Tick
from analytics.rollups import Rollups, distinct_players
from analytics.scopes import Scope
from analytics.tables import PARTIALS, moment, partition_folder

if TYPE_CHECKING:
    import pyarrow as pa


def minutes_in_lake(lake: Path, hour: datetime, columns: Sequence[str], path: str = "") -> "pa.Table | None":
    """Of an hour: all streams', or one's (app/name). None where the lake has none of that hour."""
    import pyarrow.parquet as pq  # Loaded only where it is used.

    files = sorted(partition_folder(lake, PARTIALS, hour).glob("[!.]*/minutes.parquet"))
    if not files:
        return None
    app, _, name = path.partition("/")
    filters = [("app", "=", app), ("name", "=", name)] if path else None
    # Partitioning is left out: the folders' names say no more than the rows.
    return pq.ParquetDataset(list(map(str, files)), filters=filters, partitioning=None).read(list(columns))


class Peak(NamedTuple):
    most: int
    at: datetime | None = None


def across_apps(figures: Figures, rows: Rollups, lake: Path) -> Figures:
    """The figures with the peaks of all the applications together. `rows`: their hours, one for each application."""
    players: dict[datetime, list[Peak]] = defaultdict(list)
    viewers: dict[datetime, list[Peak]] = defaultdict(list)
    streams: dict[datetime, list[Peak]] = defaultdict(list)
    for row in rows.values("start", "peak_players", "peak_at", "peak_viewers", "peak_streams"):
        players[row["start"]].append(Peak(row["peak_players"], row["peak_at"]))
        viewers[row["start"]].append(Peak(row["peak_viewers"]))
        streams[row["start"]].append(Peak(row["peak_streams"]))
    most = _greatest(players, lake, "players")
    return replace(
        figures,
        peak_players=most.most,
        peak_at=most.at,
        peak_viewers=_greatest(viewers, lake, "viewers").most,
        peak_streams=_greatest(streams, lake, "streams").most,
    )


def _greatest(hours: dict[datetime, list[Peak]], lake: Path, of: str) -> Peak:
    """Hours are looked at from the one that may have most, until none can have more."""
    greatest = Peak(0)
    at_most = {hour: sum(peak.most for peak in peaks) for hour, peaks in hours.items()}
    for hour, most in sorted(at_most.items(), key=lambda item: (-item[1], item[0])):
        if most <= greatest.most:
            break
        found = hours[hour][0] if len(hours[hour]) == 1 else _in_minutes(lake, hour, of) or Peak(most)
        if found.most > greatest.most:
            greatest = found
    return greatest


def _in_minutes(lake: Path, hour: datetime, of: str) -> Peak | None:
    """The first minute of the hour with most; None where the lake has no minutes of it."""
    import pyarrow.compute as pc  # Loaded only where it is used.

    most_of = "peak_viewers" if of == "viewers" else "peak_players"
    minutes = minutes_in_lake(lake, hour, ["minute_us", "app", "name", most_of, "live_ms"])
    if minutes is None:
        return None
    if of == "streams":
        minutes = minutes.filter(pc.greater(minutes["live_ms"], 0))
    by_stream = minutes.group_by(["minute_us", "app", "name"]).aggregate([(most_of, "max")])
    counted = ("name", "count") if of == "streams" else (f"{most_of}_max", "sum")
    most = by_stream.group_by("minute_us").aggregate([counted])
    ordered = [(-each["_".join(counted)], each["minute_us"]) for each in most.to_pylist()]
    if not ordered:
        return Peak(0)
    amount, minute = min(ordered)
    return Peak(-amount, moment(minute))


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
    together = streams.get(scope.text, Figures()) if scope.name else across_apps(_summed(whole), whole, lake)
    if not scope.app:
        together = replace(together, **_attempts(scope.nodes(period)))
    unique = distinct_players(whole, period.first_hour, period.end_hour)
    together = replace(together, unique_players=unique)
    lacking = dict.fromkeys(filter(None, (each.lacking, whole.lacking)))
    return Gathered(period, scope, together, streams, [*lacking])


def _by_stream(rows: Rollups) -> Iterator[tuple[str, Figures]]:
    quantiles, counters = dict(rows.quantiles("app", "name")), rows.counters("app", "name")
    for key, sums in sorted(rows.sums("app", "name").items()):
        yield "/".join(key), Figures.of_sums(sums | counters.get(key, {}), quantiles.get(key, NO_QUANTILES))


def _summed(rows: Rollups) -> Figures:
    quantiles = dict(rows.quantiles()).get((), NO_QUANTILES)
    return Figures.of_sums(rows.sums()[()] | rows.counters().get((), {}), quantiles)


def _attempts(nodes: Rollups) -> dict[str, Any]:
    """All attempts to publish: those at an application that there is not are no application's."""
    sums, counters = nodes.sums()[()], nodes.counters().get((), {})
    return {name: int(sums[name] or 0) for name in ("accepted", "refused")} | {"refusals": counters.get("refusals", {})}


DOCUMENT_NAMES = {
    "reconnects_per_h": "reconnects_per_hour",
    "gaps_per_h": "gaps_per_hour",
    "starved_percent": "starvation_percent",
    "mean_kbps": "video_kbps_mean",
    **{name: f"video_kbps_{name}" for name in PERCENTILES},
}
"""What documents call otherwise than the metrics."""


def documented(names: Iterable[str], of: Figures, **others: Any) -> dict[str, Any]:
    """By the document's names, in their order. `others`: what is no metric."""
    return {name: others[name] if name in others else getattr(of, DOCUMENT_NAMES.get(name, name)) for name in names}


def figures_of_document(gathered: Gathered) -> document.Figures:
    of = gathered.together
    counted = of.keyframe_intervals
    made = documented(
        document.Figures.__annotations__,
        of,
        streams=len(gathered.on_air),
        bad_h=of.bad_ms / H_MS,
        warning_h=of.warning_ms / H_MS,
        below_h=of.below_ms / H_MS,
        gop={name: 100 * getattr(of, name) / counted for name in GOP_BINS} if counted else {},
        peak_at=of.peak_at.isoformat() if of.peak_at else None,
    )
    return cast(document.Figures, made)


MINUTE = timedelta(minutes=1)
BY_MINUTE = 6 * HOUR
"""A period of at most this length is shown by minute."""

BY_HOUR_WORDS = "Median, and the band from the 5th to the 95th percentile, kbit/s. Gaps are hours off air."
BY_MINUTE_WORDS = "Mean, and the band from the lowest to the highest second, kbit/s. Gaps are minutes off air."

STEPS = (*(timedelta(minutes=count) for count in (1, 2, 5, 10, 15, 30)), HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR)
"""Between ticks of a period of at most two days: the first with which there are not too many."""
MOST_TICKS = 9
MOST_DAYS = 12

Band = tuple[float | None, float | None, float | None]
"""The low, middle and high of a step, kbit/s."""


def bitrate_chart(period: Period, stream: str, rows: Sequence[Rollup], target: int | None, lake: Path) -> Chart:
    """`rows`: the stream's hours."""
    by_hour = {row.start: (row.video_kbps_p5, row.video_kbps_p50, row.video_kbps_p95) for row in rows if row.live_ms}
    by_minute = _by_minute(period, stream, lake) if period.until - period.since <= BY_MINUTE else {}
    step, known = (MINUTE, by_minute) if by_minute else (HOUR, by_hour)
    since = period.since.replace(second=0, microsecond=0) if by_minute else period.first_hour
    until = period.until if by_minute else period.end_hour
    slots = [known.get(since + number * step, (None, None, None)) for number in range(-(-(until - since) // step))]
    end = since + len(slots) * step
    ticks, edges = (_clock if end - since <= 2 * DAY else _days)(period, since, end, step)
    return {
        "title": f"{stream}, bitrate by {'minute' if by_minute else 'hour'}",
        "caption": BY_MINUTE_WORDS if by_minute else BY_HOUR_WORDS,
        "stream": stream,
        "step_s": round(step.total_seconds()),
        "from": since.isoformat(),
        "p5": [slot[0] for slot in slots],
        "p50": [slot[1] for slot in slots],
        "p95": [slot[2] for slot in slots],
        "target": target,
        "ticks": ticks,
        "edges": edges,
    }


def _by_minute(period: Period, stream: str, lake: Path) -> dict[datetime, Band]:
    """Of minutes with media; of two sessions in one minute together."""
    columns = ["minute_us", "elapsed_ms", "live_ms", "video_bytes", "video_kbps_min", "video_kbps_max"]
    by_minute: dict[int, list[dict[str, int | float]]] = defaultdict(list)
    for hour in period.starts:
        table = minutes_in_lake(lake, hour, columns, stream)
        for row in table.to_pylist() if table is not None else []:
            if row["live_ms"]:
                by_minute[row["minute_us"]].append(row)
    return {
        moment(minute): (
            min(row["video_kbps_min"] for row in rows),
            8 * sum(row["video_bytes"] for row in rows) / sum(row["elapsed_ms"] for row in rows),
            max(row["video_kbps_max"] for row in rows),
        )
        for minute, rows in by_minute.items()
    }


def _clock(period: Period, since: datetime, until: datetime, step: timedelta) -> tuple[list[Tick], list[float]]:
    """What stands below the axis, and where lines are: round times of the period's clock, each at its line."""
    interval = next((each for each in STEPS if (until - since) / each < MOST_TICKS), STEPS[-1])
    ticks: list[Tick] = []
    moment = since
    while moment <= until:
        local = moment.astimezone(period.zone)
        if (timedelta(hours=local.hour, minutes=local.minute) % interval) == timedelta(0):
            ticks.append({"at": (moment - since) / step, "label": f"{local:%H:%M}"})
        moment += min(interval, HOUR) if local.minute % 60 == 0 else MINUTE
    return ticks, [tick["at"] for tick in ticks]


def _days(period: Period, since: datetime, until: datetime, step: timedelta) -> tuple[list[Tick], list[float]]:
    """The same of days, each named in its middle; of many only some. Lines are where they begin."""
    days = period.days
    nth = -(-len(days) // MOST_DAYS)
    label = "{0:%a} {0.day}" if len(days) <= 7 else "{0.day} {0:%b}"
    ticks: list[Tick] = []
    edges: list[float] = []
    for number, day in enumerate(days):
        begins, ends = (midnight(each, period.zone) for each in (day, day + DAY))
        if since < begins < until:
            edges.append((begins - since) / step)
        if number % nth == 0:
            middle = (max(begins, since) + (min(ends, until) - max(begins, since)) / 2 - since) / step
            ticks.append({"at": middle, "label": label.format(day)})
    return ticks, edges
