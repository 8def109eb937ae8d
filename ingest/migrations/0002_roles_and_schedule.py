"""The groups viewer, operator, key manager, analyst and admin; the nightly deletion of old history."""

from django.conf import settings
from django.db import migrations

from ingest.services import roles
from ingest.tasks import schedule


def make_roles(apps, schema_editor):
    roles.grant(apps, roles.PERMISSIONS)


def schedule_tasks(apps, schema_editor):
    schedule(
        apps,
        name="History: delete what is old",
        task="ingest.tasks.prune",
        when=("3", "40"),
        queue="default",
        does="Deletes attempts, past bans and ended sessions that are older than the settings keep them.",
    )


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0001_initial"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunPython(make_roles, migrations.RunPython.noop),
        migrations.RunPython(schedule_tasks, migrations.RunPython.noop),
    ]
