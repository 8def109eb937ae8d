"""The form of a report's plan in the admin, and what pages that ask for the same things share with it."""

from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from analytics.models import ReportPlan
from ingest.models import Application

MOST_RECIPIENTS = 50

NO_PLACES = ("Etc/", "SystemV/", "posix/", "right/")


def time_zones() -> list[tuple[str, str]]:
    """UTC, then those that are named for places."""
    names = sorted(name for name in available_timezones() if "/" in name and not name.startswith(NO_PLACES))
    return [(name, name) for name in ["UTC", *names]]


def addresses(text: str) -> list[str]:
    """Each e-mail address once, in order: one a line, or parted by commas. Raises ValidationError."""
    found = list(dict.fromkeys(text.replace(",", "\n").split()))
    for address in found:
        try:
            validate_email(address)
        except ValidationError:
            raise ValidationError(f"{address[:80]} is no e-mail address. Give one a line: ops@example.org") from None
    if len(found) > MOST_RECIPIENTS:
        raise ValidationError(f"At most {MOST_RECIPIENTS} recipients: give a mailing list's address for more.")
    return found


class PlanForm(forms.ModelForm[ReportPlan]):
    time_zone = forms.ChoiceField(
        choices=time_zones, initial="UTC", help_text=ReportPlan._meta.get_field("time_zone").help_text
    )

    class Meta:
        model = ReportPlan
        fields = ("name", "kind", "app", "stream", "time_zone", "send_at", "recipients", "is_enabled")
        widgets = {"recipients": forms.Textarea({"rows": 5, "cols": 50, "spellcheck": "false"})}
        error_messages = {"name": {"unique": "Another plan has this name: take another."}}

    def clean_recipients(self) -> str:
        return "\n".join(addresses(self.cleaned_data["recipients"]))

    def clean_app(self) -> str:
        name: str = self.cleaned_data["app"].strip()
        if name and not Application.objects.filter(name=name).exists():
            raise ValidationError(f"There is no application {name[:80]}. Leave it empty for all streams.")
        return name

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or {}
        stream, app = found.get("stream"), found.get("app")
        if stream and app and stream.application.name != app:
            self.add_error("app", f"{stream} is of another application. Give an application or a stream, not both.")
        return found
