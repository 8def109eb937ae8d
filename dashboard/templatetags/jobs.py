"""Runs of the Spark jobs, and the hours and days that they compute, in words and marks."""

from datetime import UTC, timedelta

from django import template
from django.template import Context
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from analytics.models import AnalyticsRun, Grain, Partition, RunLine
from dashboard.jobs.strip import standing
from dashboard.jobs.words import advice
from dashboard.templatetags.figures import NONE
from dashboard.templatetags.times import when
from dashboard.templatetags.ui import icon, lasted

register = template.Library()

State = AnalyticsRun.State

RUNS = {
    State.QUEUED: ("clock", "plain"),
    State.RUNNING: ("live", "plain"),
    State.DONE: ("good", "good"),
    State.FAILED: ("bad", "bad"),
}
"""By a run's state: icon, class."""

PARTS = {
    "done": ("good", "good", "Done"),
    "todo": ("clock", "plain", "To do"),
    "running": ("live", "plain", "Being computed"),
    "failed": ("bad", "bad", "Failed"),
}
"""By how an hour or a day stands: icon, class, word."""

LINES = {
    RunLine.Level.INFO: ("info", "w-none", ""),
    RunLine.Level.WARNING: ("warn", "w-warn", "Warning:"),
    RunLine.Level.ERROR: ("bad", "w-bad", "Error:"),
}
"""By a line's level: icon, its class, what it says to those who don't see it."""

register.filter("run_advice", advice)


@register.simple_tag
def run_chip(run: AnalyticsRun) -> SafeString:
    name, classes = RUNS[State(run.state)]
    return format_html('<span class="chip {}">{}{}</span>', classes, icon(name), run.get_state_display())


@register.simple_tag
def run_took(run: AnalyticsRun) -> str:
    """How long it worked, until now while it does."""
    if run.duration_s is None:
        return NONE
    now = timezone.now()
    return lasted(now - timedelta(seconds=run.duration_s), now)


@register.simple_tag
def partition_chip(part: Partition) -> SafeString:
    name, classes, word = PARTS[standing(part.state, part.metric_version)]
    return format_html('<span class="chip {}">{}{}</span>', classes, icon(name), word)


@register.simple_tag(takes_context=True)
def partition_words(context: Context, part: Partition) -> str:
    """Such as "14 Nov 2026, 20:00", of a day (of UTC) "14 Nov 2026, the day"."""
    if part.grain == Grain.HOUR:
        return when(context, part.start, "j M Y, H:i")
    return f"{part.start.astimezone(UTC):%-d %b %Y}, the day"


@register.simple_tag
def line_mark(line: RunLine) -> SafeString:
    name, classes, word = LINES[RunLine.Level(line.level)]
    return format_html('{}<span class="vh">{}</span>', icon(name, classes), word)
