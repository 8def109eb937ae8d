"""Times on pages, by the clocks of the page's zone (Django's current one), each with UTC beside it or behind it."""

from datetime import UTC, datetime

from django import template
from django.utils import timezone
from django.utils.dateformat import format as date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString

from analytics.models import Grain
from dashboard import zones
from dashboard.moments import MomentInput

register = template.Library()


@register.simple_tag
def when(at: datetime, form: str = "H:i:s") -> SafeString:
    """A time, in a form of the filter `date`; who points at it is shown UTC."""
    words = date_format(timezone.localtime(at), form)
    return format_html('<time datetime="{}" title="{}">{}</time>', at.astimezone(UTC).isoformat(), zones.utc(at), words)


@register.simple_tag
def stamp(at: datetime, day: str = "j M") -> SafeString:
    """The time of day, and its day beside it."""
    return format_html('{} <span class="dim small">{}</span>', when(at), date_format(timezone.localtime(at), day))


@register.filter
def with_utc(at: datetime, day: str = "") -> str:
    """In a sentence: "14:31:46 (13:31:46 UTC)", after its day in the form that is given, such as "%-d %b"."""
    return zones.clock(at, day)


@register.filter
def day_utc(at: datetime) -> str:
    """In a sentence: "23 Nov 2026, 14:31 (13:31 UTC)"."""
    return zones.clock(at, "%-d %b %Y", "%H:%M")


@register.filter
def instant(at: datetime) -> str:
    """For the address of a page, whatever its zone."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


@register.filter
def slot(start: datetime, grain: str) -> str:
    """An hour of history, "Mon 23 Nov, 14:00", or one of its days, which are of UTC: "Mon 23 Nov"."""
    if grain == Grain.DAY:
        return date_format(start.astimezone(UTC), "D j M")
    return date_format(timezone.localtime(start), "D j M, H:i")


@register.filter
def utc_day(start: datetime) -> str:
    """A day of history, for the address of a page."""
    return f"{start.astimezone(UTC):%Y-%m-%d}"


@register.simple_tag
def moment_input(name: str, value: datetime | str | None, ident: str = "") -> SafeString:
    """The input of a moment, for a form that is written by hand."""
    return MomentInput().render(name, value, {"id": ident} if ident else None)
