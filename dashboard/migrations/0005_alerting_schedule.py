"""Each few seconds what happened is taken from the outbox; each night what was told long ago goes."""

from django.db import migrations

TAKE = "Webhooks and alerts: what happened"
PRUNE = "Webhooks and alerts: what was told long ago"


def create(apps, schema_editor):
    tasks = apps.get_model("django_celery_beat", "PeriodicTask").objects
    interval, _ = apps.get_model("django_celery_beat", "IntervalSchedule").objects.get_or_create(
        every=3, period="seconds"
    )
    tasks.get_or_create(
        name=TAKE,
        defaults={
            "task": "dashboard.tasks.take_outbox",
            "interval": interval,
            "queue": "default",
            "expire_seconds": 3,
            "description": "Takes events from the outbox, has webhooks and alerts delivered.",
        },
    )
    crontab, _ = apps.get_model("django_celery_beat", "CrontabSchedule").objects.get_or_create(
        minute="53", hour="3", day_of_week="*", day_of_month="*", month_of_year="*", timezone="UTC"
    )
    tasks.get_or_create(
        name=PRUNE,
        defaults={
            "task": "dashboard.tasks.prune_told",
            "crontab": crontab,
            "queue": "default",
            "description": "Deletes events, deliveries and alerts older than RTMPWEB_KEEP_HOOKS_DAYS.",
        },
    )


def remove(apps, schema_editor):
    apps.get_model("django_celery_beat", "PeriodicTask").objects.filter(name__in=(TAKE, PRUNE)).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0004_webhooks_and_alerts"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
    ]

    operations = [migrations.RunPython(create, remove)]
