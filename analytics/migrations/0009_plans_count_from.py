"""Plans of reports count from when they were last changed."""

import django.utils.timezone
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import F


def from_the_begin(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    apps.get_model("analytics", "ReportPlan").objects.update(counts_from=F("created_at"))


class Migration(migrations.Migration):
    dependencies = [
        ("analytics", "0008_report_schedule"),
    ]

    operations = [
        migrations.AddField(
            model_name="reportplan",
            name="counts_from",
            field=models.DateTimeField(
                default=django.utils.timezone.now,
                editable=False,
                help_text="What was due before this is not made: since then it is as it is.",
            ),
        ),
        migrations.RunPython(from_the_begin, migrations.RunPython.noop),
    ]
