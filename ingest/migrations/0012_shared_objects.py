"""Shared objects that are kept, and which applications have any."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

from ingest import roles


def grant(apps, schema_editor):
    roles.grant(apps, roles.SHARED_OBJECTS)


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0011_first_media_timeout"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.AddField(
            "application",
            "shared_objects",
            models.CharField(
                choices=[
                    ("none", "None"),
                    ("temporary", "Temporary ones, which end with their last client"),
                    ("persistent", "Persistent ones too, which are kept in the database"),
                ],
                db_default="none",
                default="none",
                help_text="Who may connect may read and change all of them. For connections from now on.",
                max_length=12,
            ),
        ),
        migrations.CreateModel(
            "SharedObject",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(blank=True, max_length=255)),
                ("version", models.BigIntegerField(default=0)),
                ("data", models.BinaryField(default=b"{}")),
                ("updated_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "application",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="kept_objects",
                        to="ingest.application",
                    ),
                ),
            ],
            options={
                "ordering": ["application__name", "name"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("application", "name"), name="shared_object_name_unique_in_application"
                    )
                ],
            },
        ),
        migrations.RunPython(grant, migrations.RunPython.noop),
    ]
