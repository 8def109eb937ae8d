from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_save
from django.utils import timezone


class RtmpwebConfig(AppConfig):
    name = "rtmpweb"

    def ready(self) -> None:
        from django_celery_beat.models import CrontabSchedule, IntervalSchedule

        from rtmpweb import checks  # noqa: F401 - registers them.

        for schedule in (CrontabSchedule, IntervalSchedule):
            post_save.connect(_its_tasks_changed, sender=schedule)


def _its_tasks_changed(instance: Any, **_: Any) -> None:
    """A periodic task counts from when it was last changed (`rtmpweb.schedule`): its time is part of it."""
    instance.periodictask_set.update(date_changed=timezone.now())
