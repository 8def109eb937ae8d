"""Streams, keys, encoders, applications or nodes beside each other: a period's sums of each, and some in one chart.

The database sums; percentiles, which it can't merge, are merged for the rows that are shown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from analytics.figures import NO_QUANTILES, Figures, Sums
from analytics.metrics import BY_NAME, Figure
from analytics.models import Dimension, Grain
from analytics.periods import Period
from analytics.rollups import Rollups
from analytics.wording import with_unit
from dashboard.history.periods import PagePeriod
from dashboard.templatetags.ui import NO_FIGURE, figure
from ingest.models import StreamKey


def value_of(column: Figure, figures: Figures) -> float | None:
    found: float | None = getattr(figures, column.name)
    return found


def column_text(column: Figure, figures: Figures) -> str:
    value = value_of(column, figures)
    return figure(100 * value if column.shown.as_percent and value is not None else value, column.shown.decimals)


def text_with_unit(column: Figure, figures: Figures) -> str:
    text = column_text(column, figures)
    return text if text == NO_FIGURE else with_unit(text, column.shown_unit)


def _columns(names: str) -> tuple[Figure, ...]:
    return tuple(BY_NAME[name] for name in names.split())


COMPARED = _columns(
    "bad_percent warning_percent lost_min uptime_percent live_h unplanned_ends mtbf_h mttr_s video_kbps_mean "
    "below_percent health_percent missing_percent cv keyframe_late_percent peak_players average_players player_hours "
    "viewer_hours viewer_stalled_percent delivered_gb success_percent"
)
"""Of the comparison, each of which it can be sorted by."""

FURTHER = _columns(
    "health_percent bad_percent warning_percent lost_min unplanned_ends mtbf_h reconnects starvation_percent "
    "video_kbps_mean cv below_percent missing_percent gaps_per_hour media_faults keyframe_late_percent "
    "keyframe_interval_max success_percent plays unique_players "
    "average_players player_hours delivered_gb dropped_frames "
    "peak_viewers viewer_hours viewer_reports viewer_join_s viewer_stalled_percent"
)
"""Of a stream's page, below its tiles: beside the period before."""

DIMENSIONS = {
    Dimension.STREAM: ("Streams", "Stream"),
    Dimension.KEY: ("Keys", "Key"),
    Dimension.ENCODER: ("Encoders", "Encoder"),
    Dimension.APP: ("Applications", "Application"),
    Dimension.NODE: ("Nodes", "Node"),
}
"""Those that are compared: in the plural, and in a table's head."""

MAX_ROWS = 5_000
"""Things that are compared: those with the most live time."""
PAGE_ROWS = 50
SUMS_BY_HOUR_UP_TO = timedelta(days=2)
CHART_BY_HOUR_UP_TO = timedelta(days=14)
MAX_CHOSEN = 5
"""In the chart."""

Identity = tuple[str, str, str]
"""Application, stream's name and value, as Rollup has them."""


@dataclass(frozen=True)
class ComparisonRow:
    """A row of the table. `stream`: "app/name" of a key; "" of others."""

    value: str
    identity: Identity
    label: str
    stream: str
    figures: Figures

    @property
    def pick(self) -> str:
        """What names it in a page's address: its value, which keys of several streams may share when it is ""."""
        return f"{self.value}@{self.stream}" if self.stream else self.value


WORST = "health"
"""Sorted by it, the worst health comes first, and of these what was so bad for most of its time."""


@dataclass(frozen=True, slots=True)
class ColumnHead:
    """A column's head: where pressing it leads, and how the table is sorted by it now ("": it isn't)."""

    name: str
    words: str
    address: str
    order: str


@dataclass(frozen=True)
class Comparison:
    dimension: Dimension
    period: PagePeriod
    sort: str
    is_descending: bool
    number: int
    """Of the page, from 1 on."""
    picks: tuple[str, ...]

    @classmethod
    def of(cls, query: Any) -> "Comparison":
        """From a page's address; what can't be understood is taken as not given."""
        by = query.get("by", "")
        sort = query.get("sort", "")
        by_what = sort.removeprefix("-")
        known = by_what == WORST or any(column.name == by_what for column in COMPARED)
        page = query.get("page", "")
        picks = dict.fromkeys(pick.replace("\0", "") for pick in query.getlist("pick"))
        return cls(
            Dimension(by) if by in DIMENSIONS else Dimension.STREAM,
            PagePeriod.of({name: query.get(name, "") for name in ("range", "from", "to")}, "7d", SUMS_BY_HOUR_UP_TO),
            by_what if known else WORST,
            sort.startswith("-") or not known,
            int(page) if page.isdecimal() and len(page) < 6 and int(page) else 1,
            tuple(picks)[:MAX_CHOSEN],
        )

    def _rollups(self, period: Period, lines: Sequence[ComparisonRow] | None = None) -> Rollups:
        """`lines`: of these alone, and of others that share a value with one, such as those without a key."""
        values = None if lines is None else {line.value for line in lines}
        return Rollups(self.dimension, period.grain, period.since, period.until, values=values)

    @cached_property
    def _all(self) -> Rollups:
        return self._rollups(self.period)

    @property
    def lacking(self) -> str:
        """A sentence on what of its time could not be read; "" if nothing is lacking."""
        return self._all.lacking

    @cached_property
    def lines(self) -> list[ComparisonRow]:
        """All of them, sorted, as yet without percentiles: those alike by how bad they were, without a value last."""
        found = self._all.sums("app", "name", "value", longest_live=MAX_ROWS)
        labels = key_labels(value for _, _, value in found) if self.dimension == Dimension.KEY else {}
        lines = [self._line(identity, sums, labels) for identity, sums in found.items()]
        lines.sort(key=lambda line: (*(-part for part in line.figures.badness), -line.figures.live_ms, line.label))
        column = self.column
        if column is None:
            return lines if self.is_descending else lines[::-1]
        lines.sort(key=lambda line: value_of(column, line.figures) or 0, reverse=self.is_descending)
        return sorted(lines, key=lambda line: value_of(column, line.figures) is None)

    def _line(self, identity: tuple[str, ...], sums: Sums, labels: Mapping[str, str]) -> ComparisonRow:
        app, name, value = identity
        label = labels.get(value, value or "Unknown")
        stream = f"{app}/{name}" if self.dimension == Dimension.KEY else ""
        return ComparisonRow(value, (app, name, value), label, stream, Figures.of_sums(sums))

    @property
    def column(self) -> Figure | None:
        """That it is sorted by; None: by WORST."""
        return next((column for column in COMPARED if column.name == self.sort), None)

    @property
    def pages(self) -> int:
        return max(1, -(-len(self.lines) // PAGE_ROWS))

    @property
    def page(self) -> int:
        return min(self.number, self.pages)

    @property
    def cells(self) -> list[tuple[ComparisonRow, list[str]]]:
        return [(line, [column_text(column, line.figures) for column in COMPARED]) for line in self.shown]

    @property
    def is_cut(self) -> bool:
        return len(self.lines) >= MAX_ROWS

    @cached_property
    def shown(self) -> list[ComparisonRow]:
        """The page's rows, with percentiles."""
        return self._with_quantiles(self.lines[(self.page - 1) * PAGE_ROWS : self.page * PAGE_ROWS])

    def every(self) -> Iterator[ComparisonRow]:
        """All rows with percentiles, merged as they are asked for."""
        for first in range(0, len(self.lines), PAGE_ROWS):
            yield from self._with_quantiles(self.lines[first : first + PAGE_ROWS])

    def _with_quantiles(self, lines: Sequence[ComparisonRow]) -> list[ComparisonRow]:
        found = dict(self._rollups(self.period, lines).quantiles("app", "name", "value"))
        of = {line.identity: found.get(line.identity, NO_QUANTILES) for line in lines}
        return [replace(line, figures=replace(line.figures, quantiles=of[line.identity])) for line in lines]

    @cached_property
    def chosen(self) -> list[ComparisonRow]:
        """Those in the chart, in the table's order."""
        wanted = set(self.picks)
        return self._with_quantiles([line for line in self.lines if line.pick in wanted])

    @property
    def unknown_picks(self) -> int:
        """How many of the chosen have nothing in this period."""
        return len(self.picks) - len(self.chosen)

    @property
    def chart_period(self) -> PagePeriod:
        """The same time, by hour as long as that can be seen."""
        by_hour = self.period.until - self.period.since <= CHART_BY_HOUR_UP_TO
        return replace(self.period, grain=Grain.HOUR if by_hour else Grain.DAY)

    def chart(self) -> dict[str, Any]:
        """The chosen ones' medians by hour or day, null where one was off air; and the address without each."""
        period = self.chart_period
        fields = ("app", "name", "value", "start", "video_kbps_p50")
        rows = (tuple(row[field] for field in fields) for row in self._rollups(period, self.chosen).values(*fields))
        medians = {(*identity, start): median for *identity, start, median in rows}
        lines = [
            {
                "label": " · ".join(filter(None, (line.label, line.stream))),
                "values": [medians.get((*line.identity, start)) for start in period.starts],
                "without": self.address(pick=[pick for pick in self.picks if pick != line.pick]),
            }
            for line in self.chosen
        ]
        axis = {
            "from": period.since.timestamp(),
            "until": period.until.timestamp(),
            "step": period.step.total_seconds(),
        }
        return {**axis, "lines": lines}

    # --- Addresses ---

    @property
    def query(self) -> dict[str, Any]:
        """What names this page, but for its number."""
        sort = f"-{self.sort}" if self.is_descending else self.sort
        return {"by": str(self.dimension), **self.time, "sort": sort, "pick": list(self.picks)}

    @property
    def time(self) -> dict[str, str]:
        return {name: value for name, value in self.period.query.items() if name != "grain"}

    def address(self, **changes: Any) -> str:
        return urlencode(self.query | changes, doseq=True)

    @property
    def heads(self) -> list[ColumnHead]:
        """The columns: pressed once a column comes with its worst end first, once more with the other."""
        return [self._head(column.head, column.name, not column.shown.low_is_bad) for column in COMPARED]

    @property
    def health_head(self) -> ColumnHead:
        return self._head("Health", WORST, True)

    def _head(self, words: str, name: str, is_worst_high: bool) -> ColumnHead:
        is_sorted = name == self.sort
        descending = not self.is_descending if is_sorted else is_worst_high
        order = ("descending" if self.is_descending else "ascending") if is_sorted else ""
        return ColumnHead(name, words, self.address(sort=f"-{name}" if descending else name), order)

    @property
    def picks_elsewhere(self) -> list[str]:
        """Those chosen that this page's rows don't have."""
        here = {line.pick for line in self.shown}
        return [pick for pick in self.picks if pick not in here]


def key_labels(values: Iterable[str]) -> dict[str, str]:
    """What pages call the keys of rollups' values, which are their ids: never a part of a secret."""
    known = set(values)
    numbers = {int(value) for value in known if value.isdecimal()}
    labels = dict(StreamKey.objects.filter(pk__in=numbers).values_list("pk", "label"))
    return {value: labels.get(int(value)) or f"Key {value}" for value in known if value.isdecimal()} | {"": "No key"}
