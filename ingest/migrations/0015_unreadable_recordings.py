from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0014_recording_roles"),
    ]

    operations = [
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
                    ("too_slow", "too_slow"),
                    ("over_limit", "over_limit"),
                    ("unsupported_codec", "unsupported_codec"),
                    ("unreadable", "unreadable"),
                    ("node_shutdown", "node_shutdown"),
                    ("node_lost", "node_lost"),
                    ("lease_lost", "lease_lost"),
                ],
                max_length=32,
            ),
        ),
    ]
