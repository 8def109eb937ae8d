"""One stream's history in a period: its figures and those before, the chart, the strips and the tables."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from django.db.models import Exists, OuterRef

from analytics.figures import Figures
from analytics.models import Dimension, Grain, Rollup
from analytics.players import distinct as distinct_players
from analytics.rollups import MOST_HOURS, WORDS, Rollups, hours_in_lake
from dashboard.analytics.periods import STEPS, Period
from dashboard.analytics.strips import Strip, health_strip, uptime_strip
from ingest.models import Stream

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


@dataclass(frozen=True)
class Row:
    """An hour or a day of the table."""

    start: datetime
    until: datetime
    figures: Figures
    rollup: Rollup


@dataclass(frozen=True)
class History:
    """`path`: "app/name", "" where there is none yet."""

    path: str
    period: Period

    @property
    def app(self) -> str:
        return self.path.partition("/")[0]

    @property
    def name(self) -> str:
        return self.path.partition("/")[2]

    @cached_property
    def rollups(self) -> Rollups:
        """Its hours or days of the period."""
        return self._rollups(self.period)

    def _rollups(self, period: Period, dimension: Dimension = Dimension.STREAM) -> Rollups:
        return Rollups(dimension, period.grain, period.since, period.until, app=self.app, name=self.name)

    @cached_property
    def broadcasts(self) -> Rollups:
        """The same of each of its broadcasts."""
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
        """The same of the time that it is compared with."""
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
        return [health_strip(self.period, figures), uptime_strip(self.period, figures)]

    @property
    def table_grain(self) -> Grain:
        return Grain.HOUR if self.period.until - self.period.since <= HOURS_IN_TABLE else Grain.DAY

    def table(self) -> list[Row]:
        """Hours of a short period, else its days (the first and the last whole), newest first, TABLE_ROWS at most."""
        return self._rows(self.table_grain)

    def chart_table(self) -> list[Row]:
        """What the chart shows, newest first, TABLE_ROWS at most."""
        return self._rows(self.period.grain)

    def _rows(self, grain: Grain) -> list[Row]:
        found = self.rollups
        if grain != self.period.grain:
            since = self.period.since.replace(hour=0) if grain == Grain.DAY else self.period.since
            found = self._rollups(replace(self.period, grain=grain, since=since))
        rows = found.page(0, TABLE_ROWS)
        return [Row(row.start, row.start + STEPS[grain], Figures.of([row]), row) for row in rows]

    @property
    def more_slots(self) -> int:
        """Hours or days that the chart's table has no room for."""
        return max(0, sum(slot is not None for slot in self._slots) - TABLE_ROWS)


def asked(query: Mapping[str, str]) -> History:
    """The history that a page's address names: by day where its hours are more files than a page reads."""
    period = Period.of(query)
    if period.grain == Grain.HOUR:
        for dimension in (Dimension.STREAM, Dimension.BROADCAST):
            if hours_in_lake(dimension, period.since, period.until).count() > MOST_HOURS:
                fault = f"Shown by day: hours of {WORDS[dimension]} are kept in the lake, of which a page reads"
                by_day = Period.of({name: query[name] for name in query} | {"grain": Grain.DAY})
                period = replace(by_day, fault=f"{fault} {MOST_HOURS // 24} days at most.")
                break
    return History(asked_path(query), period)


def asked_path(query: Mapping[str, str]) -> str:
    """The stream that a page's address names; else the one that was computed last."""
    path = query.get("stream", "").strip().replace("\0", "")
    return path if "/" in path else latest_path()


def latest_path() -> str:
    """The stream that was rolled up last; "" without any. Of hours that are in the lake alone, the last day's."""
    for grain in Grain:
        rows = Rollup.objects.filter(grain=grain, dimension=Dimension.STREAM)
        latest = rows.order_by("-start").values_list("start", flat=True).first()
        if latest is not None:
            return "/".join(rows.filter(start=latest).order_by("app", "name").values_list("app", "name")[0])
    return ""


def paths() -> list[str]:
    """The streams with a history, by name. One that was deleted is found by the comparison."""
    own = Rollup.objects.filter(
        dimension=Dimension.STREAM, grain__in=Grain.values, app=OuterRef("application__name"), name=OuterRef("name")
    )
    found = Stream.objects.filter(Exists(own)).order_by("application__name", "name")
    return [f"{app}/{name}" for app, name in found.values_list("application__name", "name")[:MAX_STREAMS]]
