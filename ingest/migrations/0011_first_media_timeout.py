import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0010_encoder_login"),
    ]

    operations = [
        migrations.AddField(
            model_name="stream",
            name="first_media_timeout_s",
            field=models.PositiveIntegerField(
                db_default=20,
                default=20,
                help_text="Seconds in which a publisher must begin to send media.",
                validators=[django.core.validators.MinValueValidator(1)],
            ),
        ),
        migrations.AlterField(
            model_name="session",
            name="end_reason",
            field=models.CharField(
                blank=True,
                choices=[
                    ("client_unpublish", "client_unpublish"),
                    ("completed", "completed"),
                    ("tcp_reset", "tcp_reset"),
                    ("idle_timeout", "idle_timeout"),
                    ("kicked", "kicked"),
                    ("key_revoked", "key_revoked"),
                    ("replaced", "replaced"),
                    ("protocol_error", "protocol_error"),
                    ("over_limit", "over_limit"),
                    ("unsupported_codec", "unsupported_codec"),
                    ("node_shutdown", "node_shutdown"),
                    ("node_lost", "node_lost"),
                    ("lease_lost", "lease_lost"),
                ],
                max_length=32,
            ),
        ),
    ]
