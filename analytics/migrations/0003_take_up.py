"""Each minute runs that a queue has lost are asked for again: their rows are the truth."""

from django.db import migrations

NAME = "Analytics: runs that were asked for and not taken"


def create(apps, schema_editor):
    interval, _ = apps.get_model("django_celery_beat", "IntervalSchedule").objects.get_or_create(
        every=60, period="seconds"
    )
    apps.get_model("django_celery_beat", "PeriodicTask").objects.get_or_create(
        name=NAME,
        defaults={
            "task": "analytics.tasks.take_up",
            "interval": interval,
            "queue": "default",
            "expire_seconds": 60,
            "description": "Sends runs again that no worker took within a minute, or that could not be queued.",
        },
    )


def remove(apps, schema_editor):
    apps.get_model("django_celery_beat", "PeriodicTask").objects.filter(name=NAME).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("analytics", "0002_schedule"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
    ]

    operations = [migrations.RunPython(create, remove)]
