"""Every five minutes what is due of reports is made and sent: whatever a queue or a worker has lost."""

from django.db import migrations

NAME = "Reports: what is due and not made, or not sent"


def create(apps, schema_editor):
    interval, _ = apps.get_model("django_celery_beat", "IntervalSchedule").objects.get_or_create(
        every=300, period="seconds"
    )
    apps.get_model("django_celery_beat", "PeriodicTask").objects.get_or_create(
        name=NAME,
        defaults={
            "task": "analytics.reports.tasks.due_reports",
            "interval": interval,
            "queue": "analytics",
            "expire_seconds": 300,
            "description": "Makes reports that are due by their plans, and sends those that wait.",
        },
    )


def remove(apps, schema_editor):
    apps.get_model("django_celery_beat", "PeriodicTask").objects.filter(name=NAME).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("analytics", "0007_keeping"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
    ]

    operations = [migrations.RunPython(create, remove)]
