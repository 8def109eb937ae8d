"""Plans' entries in beat's schedule: made, changed and taken away with them."""

from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver

from analytics import schedule
from analytics.models import ReportPlan

Kind = ReportPlan.Kind

CRONTABS: dict[str, dict[str, str]] = {
    Kind.DAILY: {},
    Kind.WEEKLY: {"day_of_week": "1"},
    Kind.MONTHLY: {"day_of_month": "1"},
}
"""When a plan's report is due, besides the time of day; broadcasts' have no entry, as they end at any time."""


def entry_name(plan: ReportPlan) -> str:
    """Of a plan's entry in the schedule."""
    return f"Report plan {plan.pk}"


@receiver(post_save, sender=ReportPlan, dispatch_uid="analytics.report_plan.keep")
def keep_entry(instance: ReportPlan, raw: bool = False, **_: object) -> None:
    """Brings the plan's entry in the schedule up to date."""
    if raw:
        return
    plan = ReportPlan.objects.get(pk=instance.pk)  # With times as times, whatever it was made from.
    if plan.kind not in CRONTABS:
        schedule.remove(entry_name(plan))
        return
    schedule.keep(
        entry_name(plan),
        task="analytics.reports.tasks.make_due",
        args=[plan.pk],
        minute=str(plan.send_at.minute),
        hour=str(plan.send_at.hour),
        time_zone=plan.time_zone,
        enabled=plan.is_enabled,
        description=f"Makes the report {plan.name}, and sends it.",
        **CRONTABS[plan.kind],
    )


@receiver(post_delete, sender=ReportPlan, dispatch_uid="analytics.report_plan.remove")
def remove_entry(instance: ReportPlan, **_: object) -> None:
    schedule.remove(entry_name(instance))
