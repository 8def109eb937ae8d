"""The limits that a stream is judged by, for its charts: the table's, but for the stream's own."""

from math import isfinite
from typing import TypedDict

from ingest.contracts import HealthRule
from ingest.live.health import CHECKS, ruled
from ingest.models import HealthOverride, Stream

NAMES = {check.code: check.name for check in CHECKS}
"""Of checks, as people read them."""


class Limits(TypedDict):
    """Limits are in the check's own unit; None: there is no such level."""

    name: str
    warning: float | None
    bad: float | None


def limits_of(stream: Stream) -> dict[str, Limits]:
    """By check. One that is off for the stream has its name alone."""
    rules = {
        row.check_code: HealthRule(enabled=row.enabled, warning=row.warning, bad=row.bad, hold_s=row.hold_s)
        for row in HealthOverride.objects.filter(stream=stream)
    }
    found = {code: Limits(name=name, warning=None, bad=None) for code, name in NAMES.items()}
    for check in ruled(CHECKS, rules):
        found[check.code] |= {"warning": _finite(check.warning), "bad": _finite(check.bad)}
    return found


def _finite(limit: float) -> float | None:
    return limit if isfinite(limit) else None
