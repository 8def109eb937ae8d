"""The hourly run, the lake's maintenance, and what a queue or a worker has lost of runs and reports."""

from django.db import migrations

from ingest.tasks import schedule


def schedule_tasks(apps, schema_editor):
    schedule(
        apps,
        name="Analytics: hour and day rollups",
        task="analytics.tasks.scheduled_run",
        when=("*", "5"),
        queue="analytics",
        does="Computes the hours and days of the lake that are new or changed.",
    )
    schedule(
        apps,
        name="Analytics: runs that were asked for and not taken",
        task="analytics.tasks.take_up",
        when=60,
        queue="default",
        expires_s=60,
        does="Sends runs again that no worker took within a minute, or that could not be queued.",
    )
    schedule(
        apps,
        name="Analytics: compaction and retention of the lake",
        task="analytics.tasks.keep_lake",
        when=("*", "35"),
        queue="analytics",
        expires_s=3600,
        does="Makes one file of many in closed hours; removes samples, minutes, hours and days by RTMPWEB_KEEP_*.",
    )
    schedule(
        apps,
        name="Reports: what is due and not made",
        task="analytics.reports.tasks.due_reports",
        when=300,
        queue="default",
        expires_s=300,
        does="Makes reports that are due by their plans.",
    )


class Migration(migrations.Migration):
    dependencies = [
        ("analytics", "0001_initial"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
    ]

    operations = [migrations.RunPython(schedule_tasks, migrations.RunPython.noop)]
