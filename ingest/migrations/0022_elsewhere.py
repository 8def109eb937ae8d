"""Streams on other nodes: how players reach a node, and the end of those who asked the wrong one."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0021_node_issues"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="url",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="How players reach it, as rtmp://host:port.",
                max_length=255,
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
                    ("elsewhere", "elsewhere"),
                    ("protocol_error", "protocol_error"),
                    ("too_slow", "too_slow"),
                    ("test_over", "test_over"),
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
