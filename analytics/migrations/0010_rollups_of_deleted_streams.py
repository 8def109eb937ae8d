"""Rollups stay as they are when their stream is deleted."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("analytics", "0009_plans_count_from"),
        ("ingest", "0021_node_issues"),
    ]

    operations = [
        migrations.AlterField(
            model_name="rollup",
            name="stream",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="rollups",
                to="ingest.stream",
            ),
        ),
    ]
