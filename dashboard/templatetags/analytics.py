"""Runs of the Spark jobs, the hours and days that they compute, and reports, in words and marks; the ledger's hours as
a strip for each day: which are done, to do, failed, and in which nothing was recorded."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from django import template
from django.template import Context
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from analytics.models import METRIC_VERSION, AnalyticsRun, Grain, Partition, RunLine
from analytics.reports import document
from analytics.wording import marked, share_words
from dashboard import zones
from dashboard.system.parts import run_advice
from dashboard.templatetags.times import when
from dashboard.templatetags.ui import NO_FIGURE, Chip, chip_for, figure, icon, lasted, show_chip

HOUR, DAY = timedelta(hours=1), timedelta(days=1)

LEDGER_RANGES = {7: "7 days", 30: "30 days"}

PartitionState = Partition.State


@dataclass(frozen=True, slots=True)
class Bar:
    """An hour's bar, in a box 13 high, and its words. Trouble stands up."""

    y: int
    height: int
    words: str


LEDGER_BARS = {
    "done": Bar(9, 4, "done"),
    "todo": Bar(5, 8, "to do"),
    "running": Bar(5, 8, "being computed"),
    "failed": Bar(0, 13, "failed"),
    "none": Bar(12, 1, "no data"),
}


@dataclass(frozen=True, slots=True)
class Hour:
    start: datetime
    state: str
    x: str
    width: str

    @property
    def bar(self) -> Bar:
        return LEDGER_BARS[self.state]


@dataclass(frozen=True, slots=True)
class Day:
    start: date
    hours: list[Hour]

    @property
    def words(self) -> str:
        """Such as "22 done, 1 failed, 1 no data"."""
        counts = Counter(hour.state for hour in self.hours)
        return ", ".join(f"{counts[state]} {bar.words}" for state, bar in LEDGER_BARS.items() if counts[state])


def ledger_days(count: int, now: datetime) -> list[Day]:
    """The last `count` days (of the current zone), today first, with their hours until now."""
    today = timezone.localtime(now).date()
    rows = Partition.objects.filter(grain=Grain.HOUR, start__gte=_first_hour(today - (count - 1) * DAY))
    fields = rows.values_list("start", "state", "metric_version")
    known = {start: partition_state(state, version) for start, state, version in fields}
    return [_day(today - number * DAY, now, known) for number in range(count)]


def partition_state(state: str, version: int) -> str:
    """How an hour or a day stands. What was done by an older meaning of the metrics is to do again."""
    if state == PartitionState.DONE:
        return "done" if version == METRIC_VERSION else "todo"
    return {PartitionState.PENDING: "todo", PartitionState.RUNNING: "running", PartitionState.FAILED: "failed"}[
        PartitionState(state)
    ]


def _first_hour(day: date) -> datetime:
    """The whole hour (UTC) that the day begins in."""
    return zones.begin(day).replace(minute=0, second=0, microsecond=0)


def _day(day: date, now: datetime, known: Mapping[datetime, str]) -> Day:
    first = _first_hour(day)
    starts = [first + number * HOUR for number in range((_first_hour(day + DAY) - first) // HOUR)]
    share = 100 / len(starts)
    return Day(
        day,
        [
            Hour(hour, known.get(hour, "none"), f"{number * share:.3f}%", f"{share * 0.86:.3f}%")
            for number, hour in enumerate(starts)
            if hour <= now
        ],
    )


register = template.Library()

RunState = AnalyticsRun.State

RUN_CHIPS = {
    RunState.QUEUED: ("clock", "plain"),
    RunState.RUNNING: ("live", "plain"),
    RunState.DONE: ("good", "good"),
    RunState.FAILED: ("bad", "bad"),
}
"""By a run's state: icon, class."""

PARTITION_CHIPS = {
    "done": Chip("good", "good", "Done"),
    "todo": Chip("clock", "plain", "To do"),
    "running": Chip("live", "plain", "Being computed"),
    "failed": Chip("bad", "bad", "Failed"),
}
"""By how an hour or a day stands."""

LINE_MARKS = {
    RunLine.Level.INFO: ("info", "w-none", ""),
    RunLine.Level.WARNING: ("warn", "w-warn", "Warning:"),
    RunLine.Level.ERROR: ("bad", "w-bad", "Error:"),
}
"""By a line's level: icon, its class, what it says to those who don't see it."""

register.filter("run_advice", run_advice)
register.filter("breaks_head", document.breaks_head)
register.filter("breaks", document.breaks)
register.filter("lost_min", document.lost_min)


@register.simple_tag
def run_chip(run: AnalyticsRun) -> SafeString:
    return show_chip(Chip(*RUN_CHIPS[RunState(run.state)], run.get_state_display()))


@register.simple_tag
def run_took(run: AnalyticsRun) -> str:
    """How long it worked, until now while it does."""
    if run.duration_s is None:
        return NO_FIGURE
    now = timezone.now()
    return lasted(now - timedelta(seconds=run.duration_s), now)


@register.simple_tag
def partition_chip(part: Partition) -> SafeString:
    return show_chip(PARTITION_CHIPS[partition_state(part.state, part.metric_version)])


@register.simple_tag(takes_context=True)
def partition_words(context: Context, part: Partition) -> str:
    """Such as "14 Nov 2026, 20:00", of a day (of UTC) "14 Nov 2026, the day"."""
    if part.grain == Grain.HOUR:
        return when(context, part.start, "j M Y, H:i")
    return f"{part.start.astimezone(UTC):%-d %b %Y}, the day"


@register.simple_tag
def line_mark(line: RunLine) -> SafeString:
    name, classes, word = LINE_MARKS[RunLine.Level(line.level)]
    return format_html('{}<span class="vh">{}</span>', icon(name, classes), word)


@register.filter
def bolded(text: str) -> SafeString:
    """What stands between pairs of asterisks in bold."""
    parts = ((format_html("<b>{}</b>", part) if is_bold else part,) for part, is_bold in marked(text))
    return format_html_join("", "{}", parts)


@register.simple_tag
def health_share(
    health: str, bad_percent: float | Literal[""] | None, warning_percent: float | Literal[""] | None
) -> SafeString:
    """A health, and for how much of the time it was so bad. "" is what a template makes of what is not there."""
    known = chip_for(health)
    words = (
        f"{known.word} {share_words(health, bad_percent or 0, warning_percent or 0)}"
        if warning_percent != ""
        else known.word
    )
    return show_chip(known._replace(word=words.rstrip()), format_html(' data-health="{}"', health))


@register.filter
def spread(low: float | Literal[""] | None, high: float | Literal[""] | None) -> str:
    """From a percentile to another: 1,034 to 1,419."""
    return NO_FIGURE if low in (None, "") else f"{figure(low)} to {figure(high)}"


@register.simple_tag
def health_mark(health: str) -> SafeString:
    """A health as an icon; its word is for those who don't see it."""
    name, _, word = chip_for(health)
    return format_html('<span class="w-{}">{}<span class="vh">{}</span></span>', name, icon(name), word)
