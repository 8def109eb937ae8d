"""Others are told of a stream's events in their order, and by a number that grows."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0021_node_issues"),
    ]

    operations = [
        migrations.AddField(
            model_name="outboxevent",
            name="sequence",
            field=models.BigIntegerField(
                blank=True,
                help_text="Grows with each event of the stream. Empty: of none, or for alerts alone.",
                null=True,
            ),
        ),
        migrations.CreateModel(
            name="StreamTold",
            fields=[
                (
                    "stream",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="ingest.stream",
                    ),
                ),
                ("sequence", models.BigIntegerField(default=0)),
                ("at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
    ]
