"""Template filters for figures: thousands by comma, a dash where there is none."""

from datetime import datetime, timedelta

from django import template

register = template.Library()

NONE = "–"


@register.filter
def figure(value: float | None, decimals: int = 0) -> str:
    """A number with thousands separated."""
    return NONE if value is None else f"{value:,.{decimals}f}"


@register.filter
def hours(milliseconds: int) -> str:
    """A duration as h:mm."""
    minutes = round(milliseconds / 60_000)
    return f"{minutes // 60}:{minutes % 60:02}"


@register.filter
def last_moment(until: datetime) -> datetime:
    """The moment before an exclusive end, to name the last day of a period."""
    return until - timedelta(microseconds=1)
