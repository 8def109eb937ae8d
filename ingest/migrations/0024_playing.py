"""Playing: how a node is reached, the end of who asked another, who may play recordings, a start's unit; instances."""

from django.db import migrations, models
from django.db.models.functions import Left, Replace, StrIndex


def instance_column() -> models.GeneratedField:
    """What is in it already is filled in with it."""
    before_slash = Left("name", StrIndex("name", models.Value("/")))
    return models.GeneratedField(
        expression=Replace(before_slash, models.Value("/")),
        output_field=models.CharField(max_length=255),
        db_persist=True,
    )


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0023_by_stream"),
    ]

    operations = [
        migrations.AddField(
            model_name="application",
            name="max_instances",
            field=models.PositiveSmallIntegerField(
                db_default=16,
                default=16,
                help_text="Namespaces of its streams, between its name and theirs in a URL. 0: none.",
                verbose_name="most instances",
            ),
        ),
        migrations.AddField(model_name="recording", name="instance", field=instance_column()),
        migrations.AddField(model_name="stream", name="instance", field=instance_column()),
        migrations.AddIndex(
            model_name="recording", index=models.Index(fields=["application", "instance"], name="recording_instance")
        ),
        migrations.AddIndex(
            model_name="stream", index=models.Index(fields=["application", "instance"], name="stream_instance")
        ),
        migrations.AddField(
            model_name="sharedobject",
            name="instance",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Of the application; each has objects of its own.",
                max_length=64,
            ),
        ),
        migrations.AlterModelOptions(
            name="sharedobject", options={"ordering": ["application__name", "instance", "name"]}
        ),
        migrations.RemoveConstraint(model_name="sharedobject", name="shared_object_name_unique_in_application"),
        migrations.AddConstraint(
            model_name="sharedobject",
            constraint=models.UniqueConstraint(
                fields=("application", "instance", "name"), name="shared_object_name_unique"
            ),
        ),
        migrations.AddField(
            model_name="application",
            name="play_recordings",
            field=models.CharField(
                choices=[
                    ("signed", "With a signed link or token, whoever may play what is live"),
                    ("as_live", "Whoever may play what is live"),
                ],
                db_default="signed",
                default="signed",
                help_text="Their names can be guessed. Where playing takes a token, recordings take one too.",
                max_length=8,
                verbose_name="who may play recordings",
            ),
        ),
        migrations.AlterField(
            model_name="application",
            name="play_start_unit",
            field=models.CharField(
                choices=[("ms", "Milliseconds, as clients send"), ("s", "Seconds, as the specification says")],
                default="ms",
                help_text="Of those that players give with play and play2, of 0 and above. A seek is in milliseconds "
                "always.",
                max_length=2,
                verbose_name="unit of play's start and duration",
            ),
        ),
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
