"""Users and passwords of encoders that know no stream keys; who manages keys manages them."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import ingest.validators
from ingest import roles


def grant(apps, schema_editor):
    roles.grant(apps, roles.ENCODER_LOGINS)


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0009_record_policy"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.AddField(
            "application",
            "encoder_login",
            models.BooleanField(
                db_default=False,
                default=False,
                help_text="Then those that connect without a key in the application's URL have to log in. Players never.",
                verbose_name="ask encoders for a user and password",
            ),
        ),
        migrations.CreateModel(
            "EncoderLogin",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("user", models.CharField(max_length=64, validators=[ingest.validators.validate_encoder_user])),
                ("label", models.CharField(blank=True, max_length=128)),
                ("salt", models.CharField(editable=False, max_length=32)),
                ("adobe", models.CharField(editable=False, max_length=32)),
                ("llnw", models.CharField(editable=False, max_length=32)),
                ("enabled", models.BooleanField(default=True)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ("revoked_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "stream",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="logins", to="ingest.stream"
                    ),
                ),
            ],
            options={
                "verbose_name": "encoder log-in",
                "ordering": ["-created_at"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("revoked_at__isnull", True)),
                        fields=("user",),
                        name="encoder_login_user_unique",
                    )
                ],
            },
        ),
        migrations.AddField(
            "session",
            "login",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="sessions",
                to="ingest.encoderlogin",
            ),
        ),
        migrations.RunPython(grant, migrations.RunPython.noop),
    ]
