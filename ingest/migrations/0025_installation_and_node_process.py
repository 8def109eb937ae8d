"""Which secrets the installation has, by their marks, and which process has a node's name."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0024_playing"),
    ]

    operations = [
        migrations.CreateModel(
            name="Installation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "pepper_mark",
                    models.CharField(editable=False, help_text="Made under RTMPWEB_KEY_PEPPER.", max_length=64),
                ),
                (
                    "secret_mark",
                    models.CharField(editable=False, help_text="Made under RTMPWEB_SECRET_KEY.", max_length=64),
                ),
            ],
        ),
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
