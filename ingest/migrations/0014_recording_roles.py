"""Who may see recordings, mark them to be kept, and delete them."""

from django.db import migrations

from ingest import roles


def grant(apps, schema_editor):
    roles.grant(apps, roles.RECORDINGS)


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0013_slow_players"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(grant, migrations.RunPython.noop)]
