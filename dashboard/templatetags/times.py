"""Times on pages, by the clocks of the page's zone (Django's current one), each with UTC behind it, or beside it in
sentences and on the pages of who wants it so.
"""

from datetime import UTC, datetime

from django import template
from django.template import Context
from django.utils import timezone
from django.utils.dateformat import format as date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString

from analytics.models import Grain
from dashboard import zones
from dashboard.zones import MomentInput

register = template.Library()


@register.simple_tag(takes_context=True)
def when(context: Context, at: datetime, form: str = "H:i:s") -> SafeString:
    """A time, in a form of the filter `date`; who points at it is shown UTC."""
    return _time(at, form, _beside(context, at, "%H:%M:%S" if "s" in form else "%H:%M"))


@register.simple_tag(takes_context=True)
def stamp(context: Context, at: datetime, day: str = "j M") -> SafeString:
    """The time of day, and its day beside it."""
    words = date_format(timezone.localtime(at), day)
    return format_html('{} <span class="dim small">{}</span>{}', _time(at), words, _beside(context, at))


def _time(at: datetime, form: str = "H:i:s", beside: str = "") -> SafeString:
    """`beside` stands within the element, so that it stays with the time whatever the time stands in."""
    words, iso = date_format(timezone.localtime(at), form), at.astimezone(UTC).isoformat()
    return format_html('<time datetime="{}" title="{}">{}{}</time>', iso, zones.utc(at), words, beside)


def _beside(context: Context, at: datetime, time: str = "%H:%M:%S") -> SafeString | str:
    zone = context.get("zone")
    other = zones.beside(at, time) if isinstance(zone, zones.Zone) and zone.shows_utc else ""
    return format_html(' <span class="utc">({})</span>', other) if other else ""


register.filter("instant", zones.instant)
register.filter("with_utc", zones.clock)  # In a sentence; the day in the form that is given, such as "%-d %b".


@register.filter
def day_utc(at: datetime) -> str:
    """In a sentence: "23 Nov 2026, 14:31 (13:31 UTC)"."""
    return zones.clock(at, "%-d %b %Y", "%H:%M")


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
