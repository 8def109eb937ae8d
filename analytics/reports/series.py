"""A stream's bitrate over the period, for a chart: by hour, and of a short period by minute where the lake has them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from analytics.models import Rollup
from analytics.reports.document import Chart, Tick
from analytics.reports.minutes import minutes
from analytics.reports.periods import DAY, HOUR, Period, midnight
from analytics.tables import moment

MINUTE = timedelta(minutes=1)
BY_MINUTE = 6 * HOUR
"""A period of at most this length is shown by minute."""

BY_HOUR_WORDS = "Median and the band from p5 to p95, kbit/s. Gaps are hours off air."
BY_MINUTE_WORDS = "Mean and the band from the least to the greatest second, kbit/s. Gaps are minutes off air."

STEPS = (*(timedelta(minutes=count) for count in (1, 2, 5, 10, 15, 30)), HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR)
"""Between ticks of a period of at most two days: the first with which there are not too many."""
MOST_TICKS = 9
MOST_DAYS = 12

Band = tuple[float | None, float | None, float | None]
"""The low, middle and high of a step, kbit/s."""


def chart(period: Period, stream: str, rows: Sequence[Rollup], target: int | None, lake: Path) -> Chart:
    """`rows`: the stream's hours."""
    length = period.until - period.since
    by_minute = _by_minute(period, stream, lake) if length <= BY_MINUTE else {}
    step, known = (MINUTE, by_minute) if by_minute else (HOUR, _by_hour(rows))
    since = period.since.replace(second=0, microsecond=0) if by_minute else period.first_hour
    until = period.until if by_minute else period.end_hour
    slots = [known.get(since + number * step, (None, None, None)) for number in range(-(-(until - since) // step))]
    ticks, edges = _ticks(period, since, since + len(slots) * step, step)
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


def _by_hour(rows: Iterable[Rollup]) -> dict[datetime, Band]:
    """Of hours with media."""
    return {row.start: (row.video_kbps_p5, row.video_kbps_p50, row.video_kbps_p95) for row in rows if row.live_ms}


def _by_minute(period: Period, stream: str, lake: Path) -> dict[datetime, Band]:
    """Of minutes with media; of two sessions in one minute together."""
    columns = ["minute_us", "elapsed_ms", "live_ms", "video_bytes", "video_kbps_min", "video_kbps_max"]
    found: dict[int, list[dict[str, int | float]]] = defaultdict(list)
    for hour in period.hours:
        table = minutes(lake, hour, columns, stream)
        for row in table.to_pylist() if table is not None else []:
            if row["live_ms"]:
                found[row["minute_us"]].append(row)
    return {
        moment(minute): (
            min(row["video_kbps_min"] for row in rows),
            8 * sum(row["video_bytes"] for row in rows) / sum(row["elapsed_ms"] for row in rows),
            max(row["video_kbps_max"] for row in rows),
        )
        for minute, rows in found.items()
    }


def _ticks(period: Period, since: datetime, until: datetime, step: timedelta) -> tuple[list[Tick], list[float]]:
    """What stands below the axis, and where days begin, or of a short period each tick."""
    return (_clock if until - since <= 2 * DAY else _days)(period, since, until, step)


def _clock(period: Period, since: datetime, until: datetime, step: timedelta) -> tuple[list[Tick], list[float]]:
    """Round times of the period's clock, each at its line."""
    apart = next((each for each in STEPS if (until - since) / each < MOST_TICKS), STEPS[-1])
    ticks: list[Tick] = []
    moment = since
    while moment <= until:
        local = moment.astimezone(period.zone)
        if (timedelta(hours=local.hour, minutes=local.minute) % apart) == timedelta(0):
            ticks.append({"at": (moment - since) / step, "label": f"{local:%H:%M}"})
        moment += min(apart, HOUR) if local.minute % 60 == 0 else MINUTE
    return ticks, [tick["at"] for tick in ticks]


def _days(period: Period, since: datetime, until: datetime, step: timedelta) -> tuple[list[Tick], list[float]]:
    """Days, each named in its middle; of many only some."""
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
