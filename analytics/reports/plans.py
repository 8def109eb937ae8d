"""Plans of reports: which reports are due, how long they stay, and a plan's form. The tables are the truth, not the
queue."""

import logging
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from analytics import periods
from analytics.broadcasts import ended_broadcasts
from analytics.models import Report, ReportDelivery, ReportPlan
from analytics.periods import Period
from analytics.reports import builder
from analytics.scopes import Scope
from analytics.services import request_run
from ingest.models import Application
from ingest.services.retention import in_pieces

logger = logging.getLogger(__name__)

Kind = ReportPlan.Kind

WAIT_FOR_HOURS = timedelta(hours=6)
"""How long a report waits for hours that are not computed; then it is made, and says so."""
CATCH_UP = timedelta(days=7)
"""Reports that nobody made since then, as the server was down, are made when it is back."""
MAX_MADE = 20
"""Of one plan, made in one go: the next goes on."""


def scope_of(plan: ReportPlan) -> Scope:
    return Scope.of(plan.stream.path if plan.stream else plan.app)


def due_at(plan: ReportPlan, period: Period) -> datetime:
    """When a period's report is due: on the day after it, at the plan's time."""
    day: date = period.local_until.date()
    return datetime.combine(day, plan.send_at, period.zone)


def due(plan: ReportPlan, now: datetime) -> Iterator[tuple[Period, datetime]]:
    """Periods whose report is due and not made, the oldest first, and since when."""
    period = periods.last_ended(plan.kind, now, periods.zone_of(plan.time_zone))
    found = []
    while due_at(plan, period) > max(now - CATCH_UP, plan.counts_from):
        if due_at(plan, period) <= now and builder.of_plan(plan, period, scope_of(plan)) is None:
            found.append((period, due_at(plan, period)))
        period = period.before
    yield from reversed(found)


def make_due(plan: ReportPlan, now: datetime) -> list[Report]:
    """Makes what is due by a plan, unless it waits for hours that are yet to be computed: then it asks for a run."""
    return [builder.make(period, scope, plan=plan) for period, scope in islice(due_and_computed(plan, now), MAX_MADE)]


def due_and_computed(plan: ReportPlan, now: datetime) -> Iterator[tuple[Period, Scope]]:
    """What is due by a plan and need not wait. For what has to, a run is asked for."""
    if not plan.is_enabled:
        return
    if plan.kind == Kind.BROADCAST:
        yield from _broadcasts(plan, now)
        return
    for period, since in due(plan, now):
        if builder.is_complete(period) or _waited_long_enough(since, period.words, now):
            yield period, scope_of(plan)


def _broadcasts(plan: ReportPlan, now: datetime) -> Iterator[tuple[Period, Scope]]:
    """One is known by its time: when it began may be told to be another second once more of it is computed."""
    since = max(plan.counts_from, now - CATCH_UP)
    known = list(plan.reports.filter(until__gte=since - WAIT_FOR_HOURS).values_list("scope", "since", "until"))
    for broadcast in ended_broadcasts(scope_of(plan), since, now):
        path = f"{broadcast.app}/{broadcast.name}"
        if any(
            scope == path and begins <= broadcast.until and ends >= broadcast.since for scope, begins, ends in known
        ):
            continue
        if not broadcast.is_computed() and not _waited_long_enough(broadcast.until, f"the broadcast of {path}", now):
            continue
        counted = broadcast.counted(plan.time_zone)
        if counted is not None:
            yield counted


def _waited_long_enough(since: datetime, name: str, now: datetime) -> bool:
    """Whether it has waited for long enough for what is to be computed; if not a run is asked for."""
    if now - since < WAIT_FOR_HOURS:
        request_run()
        return False
    logger.warning("The report of %s is made although hours of it are not computed.", name)
    return True


def next_due(plan: ReportPlan, now: datetime) -> datetime | None:
    """When the next report of a plan is due; None: disabled, or after the next broadcast."""
    if not plan.is_enabled or plan.kind == Kind.BROADCAST:
        return None
    zone = periods.zone_of(plan.time_zone)
    period = periods.last_ended(plan.kind, now, zone)
    if due_at(plan, period) <= now:
        period = periods.containing(plan.kind, now.astimezone(zone).date(), zone)
    return due_at(plan, period)


LEAST_KEPT = CATCH_UP + timedelta(days=1)
"""Reports stay for so long whatever is set: a plan's that was gone sooner would be missed, made and sent again."""


def prune_reports(*, now: datetime, days: int) -> int:
    """Deletes reports that were made so many days ago, in small pieces; how many rows went. 0: none."""
    if not days:
        return 0
    old = Report.objects.filter(made_at__lt=now - max(timedelta(days=days), LEAST_KEPT)).order_by("made_at")
    return in_pieces(ReportDelivery.of(old.order_by()).order_by("number"), old)


MOST_RECIPIENTS = 50

NO_PLACES = ("Etc/", "SystemV/", "posix/", "right/")


def time_zones() -> list[tuple[str, str]]:
    """UTC, then those that are named for places."""
    names = sorted(name for name in available_timezones() if "/" in name and not name.startswith(NO_PLACES))
    return [(name, name) for name in ["UTC", *names]]


def addresses(text: str) -> list[str]:
    """Each e-mail address once, in order: one a line, or parted by commas. Raises ValidationError."""
    entries = list(dict.fromkeys(text.replace(",", "\n").split()))
    for address in entries:
        try:
            validate_email(address)
        except ValidationError:
            raise ValidationError(f"{address[:80]} is no e-mail address. Give one a line: ops@example.org") from None
    if len(entries) > MOST_RECIPIENTS:
        raise ValidationError(f"At most {MOST_RECIPIENTS} recipients: give a mailing list's address for more.")
    return entries


class PlanForm(forms.ModelForm[ReportPlan]):
    time_zone = forms.ChoiceField(
        choices=time_zones, initial="UTC", help_text=ReportPlan._meta.get_field("time_zone").help_text
    )

    class Meta:
        model = ReportPlan
        fields = ("name", "kind", "app", "stream", "time_zone", "send_at", "recipients", "is_enabled")
        widgets = {"recipients": forms.Textarea({"rows": 5, "cols": 50, "spellcheck": "false"})}
        error_messages = {"name": {"unique": "Another report schedule has this name: take another."}}

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
