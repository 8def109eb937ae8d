"""What is due of reports is found on the queue `default`; only the making is on `analytics`."""

from django.db import migrations

TASK = "analytics.reports.tasks.due_reports"


def move(old, new):
    def change(apps, schema_editor):
        apps.get_model("django_celery_beat", "PeriodicTask").objects.filter(task=TASK, queue=old).update(queue=new)

    return change


class Migration(migrations.Migration):
    dependencies = [
        ("analytics", "0012_report_deliveries"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
    ]

    operations = [migrations.RunPython(move("analytics", "default"), move("default", "analytics"))]
