"""Groups are changed by superusers only."""

from django.db import migrations

from ingest import roles


def withdraw(apps, schema_editor):
    roles.withdraw(apps, roles.FORMERLY)


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0021_node_issues"),
    ]

    operations = [
        migrations.RunPython(withdraw, migrations.RunPython.noop),
    ]
