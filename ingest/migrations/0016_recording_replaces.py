from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0015_unreadable_recordings"),
    ]

    operations = [
        migrations.AddField(
            model_name="recording",
            name="replaces",
            field=models.BooleanField(
                db_default=False,
                default=False,
                editable=False,
                help_text="Older ones of its name go when it is complete.",
            ),
        ),
    ]
