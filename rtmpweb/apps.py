"""The project's own application, and Django's admin with this project's site.

What the admin shows is loaded with the pages (rtmpweb.urls) and by its check. Nodes, workers and the schedule, which
have neither, do without."""

from typing import Any

from django.apps import AppConfig
from django.contrib import admin
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core.checks import CheckMessage, Tags, register
from django.db.models.signals import post_save
from django.utils import timezone


class RtmpwebConfig(AppConfig):
    name = "rtmpweb"
    default = True

    def ready(self) -> None:
        from django_celery_beat.models import CrontabSchedule, IntervalSchedule

        from rtmpweb import checks  # noqa: F401 - registers them.

        for schedule in (CrontabSchedule, IntervalSchedule):
            post_save.connect(_its_tasks_changed, sender=schedule)


def _its_tasks_changed(instance: Any, **_: Any) -> None:
    """A periodic task counts from when it was last changed (`rtmpweb.schedule`): its time is part of it."""
    instance.periodictask_set.update(date_changed=timezone.now())


class AuditedAdminConfig(SimpleAdminConfig):
    default_site = "ingest.admin_site.AuditedSite"

    def ready(self) -> None:
        register(check_dependencies, Tags.admin)
        register(_check, Tags.admin)


def _check(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    admin.autodiscover()
    return check_admin_app(app_configs, **kwargs)
