"""Template filters for figures: thousands by comma, a dash where there is none."""

from typing import Literal

from django import template

register = template.Library()

NONE = "–"


@register.filter
def figure(value: float | Literal[""] | None, decimals: int = 0) -> str:
    """A number with thousands separated. "" is what a template makes of what is not there."""
    return NONE if value is None or value == "" else f"{value:,.{decimals}f}"


@register.filter
def compact(value: float) -> str:
    """A number of three digits or so: 0.012, 2.50, 37.1, 14,000."""
    return figure(value, 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3)


@register.filter
def clock(milliseconds: int) -> str:
    """A duration as h:mm:ss."""
    seconds = round(milliseconds / 1000)
    return f"{seconds // 3600:,}:{seconds // 60 % 60:02}:{seconds % 60:02}"
