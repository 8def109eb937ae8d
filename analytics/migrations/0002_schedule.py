"""The hourly run, five minutes past each hour (UTC); it is edited in the admin under Periodic tasks."""

from django.db import migrations

NAME = "Analytics: hour and day rollups"


def create(apps, schema_editor):
    crontab, _ = apps.get_model("django_celery_beat", "CrontabSchedule").objects.get_or_create(
        minute="5", hour="*", day_of_week="*", day_of_month="*", month_of_year="*", timezone="UTC"
    )
    apps.get_model("django_celery_beat", "PeriodicTask").objects.get_or_create(
        name=NAME,
        defaults={
            "task": "analytics.tasks.scheduled_run",
            "crontab": crontab,
            "queue": "analytics",
            "description": "Computes the hours and days of the lake that are new or changed.",
        },
    )


def remove(apps, schema_editor):
    apps.get_model("django_celery_beat", "PeriodicTask").objects.filter(name=NAME).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("analytics", "0001_initial"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
    ]

    operations = [migrations.RunPython(create, remove)]
