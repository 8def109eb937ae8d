"""A node's own issues, for alerts."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0020_callback"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="issues",
            field=models.JSONField(
                blank=True,
                editable=False,
                help_text="Its own open issues, as it said when it was last seen.",
                null=True,
            ),
        ),
    ]
