"""Which process has a node's name."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0021_node_issues"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="process",
            field=models.CharField(
                blank=True,
                db_default="",
                editable=False,
                help_text="Which process has the name (ingest.services.processes); empty: none, or one of a former version.",
                max_length=255,
            ),
        ),
    ]
