"""What is recorded is a choice of three: what was on records everything, what was off nothing.

The former column stays, for processes of the former version, which write it.
"""

from django.db import migrations, models

NAMES = {True: "all", False: "none"}


def name(apps, schema_editor):
    application = apps.get_model("ingest", "Application")
    for was, now in NAMES.items():
        application.objects.filter(recorded_before=was).update(record=now)


def unname(apps, schema_editor):
    apps.get_model("ingest", "Application").objects.filter(record="all").update(recorded_before=True)


class Migration(migrations.Migration):
    dependencies = [("ingest", "0008_recordings")]

    operations = [
        migrations.AlterField(
            "application",
            "record",
            models.BooleanField(db_column="record", db_default=False, default=False, editable=False),
        ),
        migrations.RenameField("application", "record", "recorded_before"),
        migrations.AddField(
            "application",
            "record",
            models.CharField(
                choices=[
                    ("none", "Nothing"),
                    ("requested", "What publishers ask for: publish types record and append"),
                    ("all", "Everything"),
                ],
                db_column="record_policy",
                db_default="requested",
                default="requested",
                max_length=12,
            ),
        ),
        migrations.RunPython(name, unname),
    ]
