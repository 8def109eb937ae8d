"""What is asked of somebody who makes a report, or sends one."""

from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone

from analytics.models import ReportPlan
from analytics.planform import addresses, time_zones
from analytics.reports import broadcasts, periods
from analytics.reports.periods import Period, PeriodProblem
from analytics.reports.scopes import NoSuchScope, Scope
from ingest.models import Application, Stream

Kind = ReportPlan.Kind

MOST_STREAMS = 1000
"""That the field of the scope proposes; any may be typed."""

PERIODS = [
    (Kind.DAILY, "A day"),
    (Kind.WEEKLY, "A week, Monday to Sunday"),
    (Kind.MONTHLY, "A month"),
    (Kind.BROADCAST, "A stream's last broadcast"),
]


class MakeForm(forms.Form):
    """`wanted`, once it is valid: the period and the scope to make one of."""

    wanted: tuple[Period, Scope]

    kind = forms.ChoiceField(label="Of", choices=PERIODS, initial=Kind.WEEKLY)
    day = forms.DateField(
        label="With this day",
        required=False,
        widget=forms.DateInput({"type": "date"}),
        help_text="Empty: the last one that has ended.",
    )
    scope = forms.CharField(
        label="Streams",
        required=False,
        max_length=400,
        widget=forms.TextInput({"list": "scopes", "autocomplete": "off", "spellcheck": "false", "placeholder": "All"}),
        help_text="An application such as live, or a stream such as live/studio-1. Empty: all.",
    )
    time_zone = forms.ChoiceField(choices=time_zones, initial="UTC", help_text="Whose days it speaks of.")

    def clean_scope(self) -> Scope:
        try:
            return Scope.asked(str(self.cleaned_data["scope"]))
        except NoSuchScope as problem:
            raise ValidationError(str(problem)) from None

    def clean(self) -> dict[str, Any]:
        """Sets `wanted`."""
        found: dict[str, Any] = super().clean() or {}
        if not self.errors:
            try:
                self.wanted = _wanted(found["kind"], found["scope"], found["day"], periods.zone_of(found["time_zone"]))
            except PeriodProblem as problem:
                raise ValidationError({"day": str(problem)}) from None
        return found


def _wanted(kind: str, scope: Scope, day: date | None, zone: ZoneInfo) -> tuple[Period, Scope]:
    """Raises PeriodProblem and ValidationError."""
    if kind == Kind.BROADCAST:
        return _broadcast(scope, day, zone)
    if day is None:
        return periods.last_ended(kind, timezone.now(), zone), scope
    return periods.containing(kind, day, zone), scope


def _broadcast(scope: Scope, day: date | None, zone: ZoneInfo) -> tuple[Period, Scope]:
    """The last that was on air on the day, or the last of all. Raises PeriodProblem and ValidationError."""
    if not scope.name:
        raise ValidationError({"scope": "Give the stream whose broadcast it is about, such as live/studio-1."})
    now = timezone.now()
    since, until = now - broadcasts.LONGEST, now
    if day is not None:
        whole = periods.containing(Kind.DAILY, day, zone)
        since, until = whole.since, whole.until
    last = next((each for each in broadcasts.ended(scope, since, now) if each.since < until), None)
    if last is None:
        when = f"on {day} has ended" if day else f"has ended in the last {broadcasts.LONGEST.days} days"
        raise ValidationError({"day": f"No broadcast of {scope.text} {when}."})
    counted = last.counted(zone.key)
    if counted is None:
        raise ValidationError("It is not computed yet. Run the analytics (Jobs), then make its report.")
    return counted


class MailForm(forms.Form):
    recipients = forms.CharField(
        label="To",
        widget=forms.Textarea({"rows": 4, "spellcheck": "false", "autocomplete": "off"}),
        max_length=8000,
        help_text="E-mail addresses, one a line. Whoever has got this report already gets it no second time.",
        error_messages={"required": "Give at least one address."},
    )

    def clean_recipients(self) -> list[str]:
        found = addresses(str(self.cleaned_data["recipients"]))
        if not found:
            raise ValidationError("Give at least one address.")
        return found


def known_scopes() -> list[Any]:
    """Applications, and the first streams."""
    streams = Stream.objects.select_related("application").order_by("application__name", "name")[:MOST_STREAMS]
    return [*Application.objects.order_by("name").values_list("name", flat=True), *(each.path for each in streams)]
