"""The forms of the page of keys."""

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone

from dashboard.moments import MomentField
from ingest.forms import NetworksField
from ingest.models import Application, StreamKey
from ingest.validators import validate_stream_name

GRACES = {"0": timedelta(0), "1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
"""How long a rotated key may go on working."""
GRACE_WORDS = {
    "0": "Not at all: what is live with it ends now",
    "1h": "For an hour",
    "24h": "For 24 hours",
    "7d": "For 7 days",
}

MOST_KBPS = 2_000_000


class RightsForm(forms.Form):
    """What a key may do."""

    label = forms.CharField(max_length=128, required=False, empty_value="")
    expires_at = MomentField(required=False)
    max_kbps = forms.IntegerField(required=False, min_value=1, max_value=MOST_KBPS)
    over_limit = forms.ChoiceField(
        choices=StreamKey.OverLimit.choices, initial=StreamKey.OverLimit.WARN, required=False
    )
    allowed_networks = NetworksField(required=False)
    test_only = forms.BooleanField(required=False)

    def clean_label(self) -> str:
        label: str = self.cleaned_data["label"]
        if not label.isprintable():
            raise ValidationError("Use printable characters.")
        return label

    def clean_over_limit(self) -> str:
        return self.cleaned_data["over_limit"] or StreamKey.OverLimit.WARN

    def rights(self) -> dict[str, Any]:
        """As `keyacts.create` and `keyacts.change` take them."""
        return {name: self.cleaned_data[name] for name in RightsForm.base_fields}


class ChangeForm(RightsForm):
    """Of a key that is there."""


class CreateForm(RightsForm):
    """Of a new one. The stream is made if it isn't there."""

    stream = forms.CharField(max_length=400)

    def clean_stream(self) -> tuple[Application, str]:
        app, slash, name = self.cleaned_data["stream"].strip().partition("/")
        if not slash or not name:
            raise ValidationError("Give the application and the stream, such as live/cam1.")
        application = Application.objects.filter(name=app).first()
        if application is None:
            known = ", ".join(Application.objects.values_list("name", flat=True)[:10])
            raise ValidationError(
                f"There is no application {app}. There is: {known}." if known else "There is no application yet."
            )
        validate_stream_name(name)
        return application, name

    def clean_expires_at(self) -> datetime | None:
        expires: datetime | None = self.cleaned_data["expires_at"]
        if expires is not None and expires <= timezone.now():
            raise ValidationError(f"This time is over: now it is {timezone.localtime():%-d %b, %H:%M}.")
        return expires

    def rights(self) -> dict[str, Any]:
        return {name: value for name, value in super().rights().items() if name != "stream"}


class RotateForm(forms.Form):
    grace = forms.ChoiceField(choices=list(GRACE_WORDS.items()), initial="0")

    def grace_time(self) -> timedelta:
        return GRACES[self.cleaned_data["grace"]]
