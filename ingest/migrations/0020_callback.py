"""About whom an application has the authorisation service asked."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0019_trial_ends"),
    ]

    operations = [
        migrations.AddField(
            model_name="application",
            name="callback",
            field=models.CharField(
                choices=[
                    ("none", "About nobody"),
                    ("publish", "About publishers"),
                    ("publish_play", "About publishers and players"),
                    ("all", "About connections, publishers and players"),
                ],
                db_default="none",
                default="none",
                help_text="RTMPWEB_AUTH_URL, once our own checks have passed. While it gives no answer, nobody gets in.",
                max_length=12,
                verbose_name="ask the authorisation service",
            ),
        ),
    ]
