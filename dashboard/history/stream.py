"""One stream's history in a period: its figures and those before as tiles, the chart, the strips of bars below it, the
tables, and its broadcasts (sessions, joined over short gaps, each with its figures as a whole).

Positions in strips are in per cent of the width; trouble stands up."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import groupby
from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef
from django.utils import timezone

from analytics.broadcasts import computed_broadcasts
from analytics.figures import Figures
from analytics.models import Dimension, Grain, Report, ReportPlan, Rollup
from analytics.periods import STEPS, Period
from analytics.rollups import DIMENSION_WORDS, MOST_HOURS, Rollups, distinct_players, hours_in_lake
from analytics.wording import Compare, TileRow, plain, with_unit
from dashboard.history.periods import LONGEST, PagePeriod
from dashboard.templatetags.ui import figure
from ingest.models import Stream

SHAPES = {"good": (27.0, 7.0), "warning": (16.0, 18.0), "bad": (4.0, 30.0), "none": (33.0, 1.5)}
"""Top and height of a bar in a box 34 high."""

MAX_BARS = 240
"""Up to so many hours or days each has a bar of its own; beyond, neighbours of the same look are one."""
BAR_GAP = 0.18
"""Of a bar's place: between it and the next."""

UPTIME_GOOD, UPTIME_WARNING = 99.5, 95.0
"""Per cent from which on an hour's uptime is good, and only a warning."""


@dataclass(frozen=True, slots=True)
class Bar:
    start: datetime
    level: str
    x: str
    width: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Strip:
    """`counts`: how many hours or days have which look."""

    name: str
    good: str
    warning: str
    bad: str
    bars: list[Bar]
    counts: dict[str, int]


HEALTH_WORDS = ("good", "warning, taller", "bad, tallest")
UPTIME_WORDS = (f"{UPTIME_GOOD} % and more", f"{UPTIME_WARNING:.0f} % and more, taller", "less, tallest")


def _uptime_level(figures: Figures | None) -> str:
    percent = figures.uptime_percent if figures else None
    if percent is None:
        return "none"
    return "good" if percent >= UPTIME_GOOD else "warning" if percent >= UPTIME_WARNING else "bad"


def _strip(name: str, words: tuple[str, str, str], period: Period, levels: list[str]) -> Strip:
    counts = {level: levels.count(level) for level in SHAPES}
    return Strip(name, *words, _bars(period, levels), counts)


def _bars(period: Period, levels: list[str]) -> list[Bar]:
    """On the chart's axis, where what goes on now ends now."""
    length = (period.until - period.since) / period.step
    share = 100 / length
    single = len(levels) <= MAX_BARS
    alike: Callable[[int], object] = (lambda index: index) if single else levels.__getitem__
    bars = []
    for _, places in groupby(range(len(levels)), alike):
        run = list(places)
        level = levels[run[0]]
        top, height = SHAPES[level]
        width = share * (min(run[-1] + 1, length) - run[0]) * (1 - BAR_GAP if single else 1)
        start = period.since + run[0] * period.step
        bars.append(Bar(start, level, f"{run[0] * share:.3f}%", f"{width:.3f}%", top, height))
    return bars


def _was(name: str) -> Compare:
    def compare(_: Figures, then: Figures, before: str) -> str:
        value = getattr(then, name)
        return f"{before}: {figure(value, 1)}\u00a0%" if value is not None else f"no history the {before}"

    return compare


def _more(now: float | None, then: float | None, before: str, unit: str = "", decimals: int = 0) -> str:
    """ "4.1 h more": than in the period before."""
    if now is None or then is None:
        return f"none the {before}" if now is not None else ""
    difference = round(now - then, decimals)
    if not difference:
        return f"as the {before}"
    return f"{with_unit(figure(abs(difference), decimals), unit)} {'more' if difference > 0 else 'less'}"


def _live_unit(figures: Figures) -> tuple[int, str, int]:
    """How many of it an hour has, its name, and its decimals."""
    sizes = ((1, "h", 1), (60, "min", 1))
    return next((each for each in sizes if figures.live_h * each[0] >= 1), (3600, "s", 0))


def _live(figures: Figures) -> tuple[str, str]:
    size, unit, decimals = _live_unit(figures)
    return figure(figures.live_h * size, decimals), unit


def _live_more(now: Figures, then: Figures, before: str) -> str:
    size, unit, _ = _live_unit(now)
    return _more(now.live_h * size, then.live_h * size if then.elapsed_ms else None, before, unit, 1)


def _drops(now: Figures, then: Figures, before: str) -> str:
    return _more(now.unplanned_ends, then.unplanned_ends if then.elapsed_ms else None, before)


def _peak_at(now: Figures, _: Figures, __: str) -> str:
    return f"{timezone.localtime(now.peak_at):%a %-d %b, %H:%M}" if now.peak_at and now.peak_players else ""


PAGE_TILES = (
    TileRow("Uptime", plain("uptime_percent", "%", partial(figure, decimals=1)), _was("uptime_percent")),
    TileRow("Live time", _live, _live_more),
    TileRow(
        "Median bitrate",
        plain("video_kbps_p50", "kbit/s", figure),
        lambda now, then, before: _more(now.video_kbps_p50, then.video_kbps_p50, before),
    ),
    TileRow(
        "Below target",
        plain("below_percent", "% of time", partial(figure, decimals=1)),
        lambda *of: _was("below_percent")(*of) if of[0].targeted_ms else "no target bitrate is known",
    ),
    TileRow("Drops", plain("unplanned_ends", "", figure), _drops),
    TileRow(
        "Mean time to recover",
        plain("mttr_s", "s", figure),
        lambda now, then, before: (
            _more(now.mttr_s, then.mttr_s, before, "s") if now.reconnects else "nothing to recover from"
        ),
    ),
    TileRow("Peak players", plain("peak_players", "", figure), _peak_at),
)

MOST_BROADCASTS = 50
"""On a page, the latest."""
MOST_BROADCASTS_IN_FILE = 2_000


class BroadcastRow(NamedTuple):
    """`end`: of what was computed of it so far. `report`: the archived one's number, if there is one."""

    begin: datetime
    end: datetime
    figures: Figures
    report: int | None


def broadcasts(app: str, name: str, period: Period, most: int = MOST_BROADCASTS) -> list[BroadcastRow]:
    """Those that were on air in it, newest first."""
    reports = _reports(f"{app}/{name}")
    found = computed_broadcasts(app, name, period, most)
    return [BroadcastRow(each.since, each.until, figures, reports.get(each.since)) for each, figures in found]


def _reports(scope: str) -> dict[datetime, int]:
    made = Report.objects.filter(kind=ReportPlan.Kind.BROADCAST, scope=scope).order_by("-made_at")
    return {since: pk for pk, since in reversed(made.values_list("pk", "since")[:MOST_BROADCASTS_IN_FILE])}


MAX_STREAMS = 1000
"""In the page's list of streams; any stream may be asked for by its path."""

TABLE_ROWS = 200
"""Hours or days in a table; files have them all."""

HOURS_IN_TABLE = timedelta(days=2)
"""Up to this length the figures' table is of hours, else of days."""

WARN_BELOW, BAD_BELOW = 0.7, 0.4
"""Of the target bitrate, as the health check `bitrate_low` has it."""

SLOT_FIELDS = (
    *("start", "good_ms", "warning_ms", "bad_ms", "live_ms", "elapsed_ms", "recovery_ms"),
    *("video_kbps_p5", "video_kbps_p50", "video_kbps_p95"),
)

ORDERS = {"newest": "Newest first", "worst": "Worst first"}
"""Of the figures' table, by the address' `order`."""


@dataclass(frozen=True)
class Row:
    start: datetime
    until: datetime
    figures: Figures
    rollup: Rollup


@dataclass(frozen=True)
class StreamHistory:
    """`path`: "app/name", "" where there is none yet."""

    path: str
    period: PagePeriod
    order: str = "newest"

    @property
    def app(self) -> str:
        return self.path.partition("/")[0]

    @property
    def name(self) -> str:
        return self.path.partition("/")[2]

    @cached_property
    def rollups(self) -> Rollups:
        return self._rollups(self.period)

    def _rollups(self, period: Period, dimension: Dimension = Dimension.STREAM) -> Rollups:
        return Rollups(dimension, period.grain, period.since, period.until, app=self.app, name=self.name)

    @cached_property
    def broadcasts(self) -> Rollups:
        return self._rollups(self.period, Dimension.BROADCAST)

    @cached_property
    def _before(self) -> Rollups:
        return self._rollups(self.period.before)

    @property
    def lacking(self) -> str:
        """A sentence on what of the period could not be read; "" if nothing is lacking."""
        return self.rollups.lacking or self.broadcasts.lacking

    @property
    def lacking_before(self) -> str:
        return self._before.lacking

    @cached_property
    def stream(self) -> Stream | None:
        return Stream.objects.filter(application__name=self.app, name=self.name).first()

    @cached_property
    def target(self) -> int | None:
        """The stream's expected video bitrate, kbit/s, if it was told."""
        return self.stream.target_kbps if self.stream else None

    @cached_property
    def figures(self) -> Figures:
        return self._figures(self.rollups, self.period)

    @cached_property
    def former(self) -> Figures:
        return self._figures(self._before, self.period.before)

    def _figures(self, rows: Rollups, period: Period) -> Figures:
        return replace(rows.figures(), unique_players=distinct_players(rows, period.since, period.until))

    @cached_property
    def _slots(self) -> list[dict[str, Any] | None]:
        """One for each hour or day of the period; None where nothing was recorded."""
        known = {row["start"]: row for row in self.rollups.values(*SLOT_FIELDS)}
        return [known.get(start) for start in self.period.starts]

    @property
    def is_empty(self) -> bool:
        return not any(self._slots)

    def chart(self) -> dict[str, Any]:
        """The chart's columns, one value for each hour or day of the period; null where the stream was off air."""
        slots = self._slots
        return {
            "from": self.period.since.timestamp(),
            "until": self.period.until.timestamp(),
            "step": self.period.step.total_seconds(),
            "p5": [slot and slot["video_kbps_p5"] for slot in slots],
            "p50": [slot and slot["video_kbps_p50"] for slot in slots],
            "p95": [slot and slot["video_kbps_p95"] for slot in slots],
            "target": self.target,
            "warnBelow": self.target and self.target * WARN_BELOW,
            "badBelow": self.target and self.target * BAD_BELOW,
        }

    @cached_property
    def strips(self) -> list[Strip]:
        figures = [Figures.of_sums(slot) if slot else None for slot in self._slots]
        health = [one.health if one else "none" for one in figures]
        uptime = [_uptime_level(one) for one in figures]
        return [
            _strip("Health", HEALTH_WORDS, self.period, health),
            _strip("Uptime", UPTIME_WORDS, self.period, uptime),
        ]

    @property
    def table_grain(self) -> Grain:
        return Grain.HOUR if self.period.until - self.period.since <= HOURS_IN_TABLE else Grain.DAY

    def table(self) -> list[Row]:
        """Hours of a short period, else its days (the first whole), on air, TABLE_ROWS at most: newest first, or the
        worst first: by health and the share of their time.
        """
        if self.order == "newest":
            return self._rows(self.table_grain)
        rows = self._rows(self.table_grain, LONGEST[Grain.DAY].days)
        return sorted(rows, key=lambda row: row.figures.badness, reverse=True)[:TABLE_ROWS]

    def chart_table(self) -> list[Row]:
        """What the chart shows, newest first, TABLE_ROWS at most, without what was off air."""
        return self._rows(self.period.grain)

    def _rows(self, grain: Grain, most: int = TABLE_ROWS) -> list[Row]:
        found = self.rollups
        if grain != self.period.grain:
            since = self.period.since.replace(hour=0) if grain == Grain.DAY else self.period.since
            found = self._rollups(replace(self.period, grain=grain, since=since))
        rows = found.page(0, most)
        return [Row(row.start, row.start + STEPS[grain], Figures.of_row(row), row) for row in rows if row.elapsed_ms]

    @property
    def more_slots(self) -> int:
        """Hours or days that the chart's table has no room for."""
        return max(0, sum(bool(slot and slot["elapsed_ms"]) for slot in self._slots) - TABLE_ROWS)


def history_of(query: Mapping[str, str]) -> StreamHistory:
    """The history that a page's address names, else of the stream that was computed last: by day where its hours are
    more files than a page reads.
    """
    period = PagePeriod.of(query)
    if period.grain == Grain.HOUR:
        for dimension in (Dimension.STREAM, Dimension.BROADCAST):
            if hours_in_lake(dimension, period.since, period.until).count() > MOST_HOURS:
                fault = (
                    f"Shown by day: hours of {DIMENSION_WORDS[dimension]} are kept in the lake, of which a page reads"
                )
                by_day = PagePeriod.of({name: query[name] for name in query} | {"grain": Grain.DAY})
                period = replace(by_day, fault=f"{fault} {MOST_HOURS // 24} days at most.")
                break
    path = query.get("stream", "").strip().replace("\0", "")
    order = query.get("order", "")
    return StreamHistory(path if "/" in path else latest_path(), period, order if order in ORDERS else "newest")


def latest_path() -> str:
    """The stream that was rolled up last; "" without any. Of hours that are in the lake alone, the last day's."""
    for grain in Grain:
        rows = Rollup.objects.filter(grain=grain, dimension=Dimension.STREAM)
        latest = rows.order_by("-start").values_list("start", flat=True).first()
        if latest is not None:
            return "/".join(rows.filter(start=latest).order_by("app", "name").values_list("app", "name")[0])
    return ""


class Choice(NamedTuple):
    path: str
    label: str


def choices() -> list[Choice]:
    """The streams with a history, by name; then those that were deleted since and have a day of it."""
    own = Rollup.objects.filter(
        dimension=Dimension.STREAM, grain__in=Grain.values, app=OuterRef("application__name"), name=OuterRef("name")
    )
    found = Stream.objects.filter(Exists(own)).order_by("application__name", "name")
    paths = [f"{app}/{name}" for app, name in found.values_list("application__name", "name")[:MAX_STREAMS]]
    there = Stream.objects.filter(application__name=OuterRef("app"), name=OuterRef("name"))
    days = Rollup.objects.filter(~Exists(there), dimension=Dimension.STREAM, grain=Grain.DAY)
    gone = days.order_by("app", "name").values_list("app", "name").distinct()[:MAX_STREAMS]
    return [
        *(Choice(path, path) for path in paths),
        *(Choice(path, f"{path} {DELETED}") for path in map("/".join, gone)),
    ]


DELETED = "(deleted)"
