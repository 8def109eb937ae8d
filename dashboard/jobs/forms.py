"""The range of hours that somebody wants to be computed anew."""

from datetime import timedelta
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from dashboard.moments import MomentField, MomentInput

LONGEST = timedelta(days=31)
"""More at once would keep the one worker busy for long."""

HOUR_INPUT = {"step": 900}
"""A quarter of an hour: in some zones whole hours of UTC begin with it."""


class RangeForm(forms.Form):
    """Whole hours (UTC): since <= hour < until."""

    since = MomentField(label="From", widget=MomentInput(HOUR_INPUT))
    until = MomentField(label="Until", widget=MomentInput(HOUR_INPUT))

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or {}
        for name in ("since", "until"):
            at = found.get(name)
            if at and at != at.replace(minute=0, second=0, microsecond=0):
                self.add_error(name, f"Give a whole hour of UTC, by which history is kept: this is {at:%H:%M} there.")
        since, until = found.get("since"), found.get("until")
        if since and until and since >= until:
            raise ValidationError("The range has to end after it begins.")
        if since and until and until - since > LONGEST:
            raise ValidationError(f"At most {LONGEST.days} days at once: compute the rest after them.")
        return found
