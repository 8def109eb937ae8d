"""Who may see and lift bans, and drain nodes; the nightly deletion of old history, which is edited in the admin under Periodic tasks."""

from django.conf import settings
from django.db import migrations

from ingest import roles

NAME = "History: delete what is old"


def grant(apps, schema_editor):
    roles.grant(apps, roles.BANS_AND_DRAINS)


def schedule(apps, schema_editor):
    crontab, _ = apps.get_model("django_celery_beat", "CrontabSchedule").objects.get_or_create(
        minute="40", hour="3", day_of_week="*", day_of_month="*", month_of_year="*", timezone="UTC"
    )
    apps.get_model("django_celery_beat", "PeriodicTask").objects.get_or_create(
        name=NAME,
        defaults={
            "task": "ingest.tasks.prune",
            "crontab": crontab,
            "queue": "default",
            "description": "Deletes attempts, past bans and ended sessions that are older than the settings keep them.",
        },
    )


def unschedule(apps, schema_editor):
    apps.get_model("django_celery_beat", "PeriodicTask").objects.filter(name=NAME).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0006_node_stopped_at"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunPython(grant, migrations.RunPython.noop),
        migrations.RunPython(schedule, unschedule),
    ]
