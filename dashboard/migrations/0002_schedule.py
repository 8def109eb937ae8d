"""Each few seconds what happened is taken from the outbox; each night what was told long ago goes."""

from django.db import migrations

from ingest.tasks import schedule


def schedule_tasks(apps, schema_editor):
    schedule(
        apps,
        name="Webhooks and alerts: what happened",
        task="dashboard.tasks.take_outbox",
        when=3,
        queue="default",
        expires_s=3,
        does="Takes events from the outbox, has what waits delivered: to webhooks, and by e-mail.",
    )
    schedule(
        apps,
        name="Webhooks and alerts: what was told long ago",
        task="dashboard.tasks.prune_told",
        when=("3", "53"),
        queue="default",
        does="Deletes events, deliveries and alerts older than RTMPWEB_KEEP_HOOKS_DAYS.",
    )


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0001_initial"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
    ]

    operations = [migrations.RunPython(schedule_tasks, migrations.RunPython.noop)]
