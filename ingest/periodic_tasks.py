"""Periodic tasks that migrations schedule; operators edit them in the admin under Periodic tasks."""

from collections.abc import Mapping
from typing import Any


def schedule(
    apps: Any, *, name: str, task: str, when: int | tuple[str, str], queue: str, does: str, expires_s: int | None = None
) -> None:
    """Makes the row, or leaves it as it is where it is there. `apps`: a migration's registry.

    `when`: each so many seconds, or (hour, minute) of a crontab in UTC. `expires_s`: a message that waited longer is
    dropped, as the next one has come.
    """
    timing: Mapping[str, Any]
    if isinstance(when, int):
        interval, _ = apps.get_model("django_celery_beat", "IntervalSchedule").objects.get_or_create(
            every=when, period="seconds"
        )
        timing = {"interval": interval}
    else:
        hour, minute = when
        crontab, _ = apps.get_model("django_celery_beat", "CrontabSchedule").objects.get_or_create(
            hour=hour, minute=minute, day_of_week="*", day_of_month="*", month_of_year="*", timezone="UTC"
        )
        timing = {"crontab": crontab}
    apps.get_model("django_celery_beat", "PeriodicTask").objects.get_or_create(
        name=name,
        defaults={"task": task, "queue": queue, "description": does, "expire_seconds": expires_s, **timing},
    )
