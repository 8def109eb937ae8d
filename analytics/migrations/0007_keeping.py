"""Each hour the lake's closed hours are compacted, and what is old is removed."""

from django.db import migrations

NAME = "Analytics: compaction and retention of the lake"


def create(apps, schema_editor):
    crontab, _ = apps.get_model("django_celery_beat", "CrontabSchedule").objects.get_or_create(
        minute="35", hour="*", day_of_week="*", day_of_month="*", month_of_year="*", timezone="UTC"
    )
    apps.get_model("django_celery_beat", "PeriodicTask").objects.get_or_create(
        name=NAME,
        defaults={
            "task": "analytics.tasks.keep_lake",
            "crontab": crontab,
            "queue": "analytics",
            "expire_seconds": 3600,
            "description": "Makes one file of many in closed hours; removes samples, minutes, hours and days by RTMPWEB_KEEP_*.",
        },
    )


def remove(apps, schema_editor):
    apps.get_model("django_celery_beat", "PeriodicTask").objects.filter(name=NAME).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("analytics", "0006_sealed_hours"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
    ]

    operations = [migrations.RunPython(create, remove)]
