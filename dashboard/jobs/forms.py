"""The range of hours that somebody wants to be computed anew."""

from datetime import timedelta
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

LONGEST = timedelta(days=31)
"""More at once would keep the one worker busy for long."""

HOUR_INPUT = {"type": "datetime-local", "step": 3600}


class RangeForm(forms.Form):
    """Whole hours (UTC): since <= hour < until."""

    since = forms.DateTimeField(label="From, UTC", widget=forms.DateTimeInput(HOUR_INPUT, "%Y-%m-%dT%H:%M"))
    until = forms.DateTimeField(label="Until, UTC", widget=forms.DateTimeInput(HOUR_INPUT, "%Y-%m-%dT%H:%M"))

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or {}
        for name in ("since", "until"):
            if name in found and found[name] != found[name].replace(minute=0, second=0, microsecond=0):
                self.add_error(name, "Give a whole hour: history is kept by hours of UTC.")
        since, until = found.get("since"), found.get("until")
        if since and until and since >= until:
            raise ValidationError("The range has to end after it begins.")
        if since and until and until - since > LONGEST:
            raise ValidationError(f"At most {LONGEST.days} days at once: compute the rest after them.")
        return found
