"""Plans' entries in beat's schedule: made, changed and taken away with them; the admin shows them all."""

import json
from collections.abc import Mapping

from django.db import transaction
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from analytics.models import ReportPlan

EACH = dict.fromkeys(("hour", "day_of_week", "day_of_month", "month_of_year"), "*")
HOURLY = {"minute": "0", **EACH, "timezone": "UTC"}


@transaction.atomic
def put_periodic_task(name: str, at: Mapping[str, str], **wanted: object) -> None:
    """Makes the entry, or brings it up to date; one that is as it should be is left alone. Beat sees it within 5 s.

    `at`: fields of CrontabSchedule other than HOURLY's, by the clock of its `timezone` (a name such as
    Europe/Berlin); rtmpweb/schedule.py says what happens as clocks change. `wanted`: fields of PeriodicTask. An entry
    counts from when it was last changed: a time that is past is not made up for. Raises ValidationError for a crontab
    or a time zone that there is not.
    """
    fields = {**HOURLY, **at}
    crontab = CrontabSchedule.objects.filter(**fields).first()
    if crontab is None:
        crontab = CrontabSchedule(**fields)
        crontab.full_clean()
        crontab.save()
    wanted |= {"crontab": crontab, "interval": None}
    entry = PeriodicTask.objects.select_related("crontab").filter(name=name).first() or PeriodicTask(name=name)
    former = entry.crontab
    if entry.pk is None or any(getattr(entry, field) != value for field, value in wanted.items()):
        for field, value in wanted.items():
            setattr(entry, field, value)
        entry.save()
        _tidy(former)


@transaction.atomic
def remove_periodic_task(name: str) -> None:
    entry = PeriodicTask.objects.select_related("crontab").filter(name=name).first()
    if entry is not None:
        entry.delete()
        _tidy(entry.crontab)


def _tidy(crontab: CrontabSchedule | None) -> None:
    """Takes away a crontab that no entry has any more; locked, as one that came meanwhile would go with it."""
    if crontab is not None:
        CrontabSchedule.objects.select_for_update().filter(pk=crontab.pk).first()
        if not PeriodicTask.objects.filter(crontab=crontab).exists():
            crontab.delete()


Kind = ReportPlan.Kind

CRONTABS: dict[str, dict[str, str]] = {
    Kind.DAILY: {},
    Kind.WEEKLY: {"day_of_week": "1"},
    Kind.MONTHLY: {"day_of_month": "1"},
}
"""When a plan's report is due, besides the time of day; broadcasts' have no entry, as they end at any time."""


def entry_name(plan: ReportPlan) -> str:
    return f"Report plan {plan.pk}"


@receiver(post_save, sender=ReportPlan, dispatch_uid="analytics.report_plan.keep")
def keep_entry(instance: ReportPlan, raw: bool = False, **_: object) -> None:
    if raw:
        return
    plan = ReportPlan.objects.get(pk=instance.pk)  # With times as times, whatever it was made from.
    if plan.kind not in CRONTABS:
        remove_periodic_task(entry_name(plan))
        return
    at = {"minute": str(plan.send_at.minute), "hour": str(plan.send_at.hour), "timezone": plan.time_zone}
    put_periodic_task(
        entry_name(plan),
        at | CRONTABS[plan.kind],
        task="analytics.reports.tasks.make_due",
        args=json.dumps([plan.pk]),
        enabled=plan.is_enabled,
        description=f"Makes the report {plan.name}, and sends it.",
    )


@receiver(post_delete, sender=ReportPlan, dispatch_uid="analytics.report_plan.remove")
def remove_entry(instance: ReportPlan, **_: object) -> None:
    remove_periodic_task(entry_name(instance))
