"""Figures as the sentences of issues say them: a figure and its unit joined by a no-break space."""

from typing import Final

NBSP: Final = "\N{NO-BREAK SPACE}"


def span(seconds: float) -> str:
    """A length of time: 14 s, 1 min 52 s, 2 h 5 min."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}{NBSP}s"
    if whole < 3600:
        return f"{whole // 60}{NBSP}min {whole % 60}{NBSP}s"
    return f"{whole // 3600}{NBSP}h {whole % 3600 // 60}{NBSP}min"


def whole(value: float) -> str:
    """2,310"""
    return f"{value:,.0f}"


def kbps(value: float | None) -> str:
    return f"{whole(value or 0)}{NBSP}kbit/s"


def percent(value: float | None) -> str:
    return f"{whole(value or 0)}{NBSP}%"


def at_most(value: float, limit: float, unit: str, digits: int = 0) -> str:
    """The limit behind a figure that is shown with so many digits, such as " (5 s at most)"; nothing where the figure,
    as it is shown, is no more than the limit.
    """
    return f" ({limit:,g}{NBSP}{unit} at most)" if round(value, digits) > limit else ""


def at_least(value: float, limit: float, unit: str, digits: int = 0) -> str:
    return f" ({limit:,g}{NBSP}{unit} at least)" if round(value, digits) < limit else ""


def times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
