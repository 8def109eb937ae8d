"""The groups viewer, operator, key manager, analyst and admin."""

from django.conf import settings
from django.db import migrations

from ingest import roles


def make_roles(apps, schema_editor):
    roles.grant(apps, roles.PERMISSIONS)


class Migration(migrations.Migration):

    dependencies = [
        ('ingest', '0001_initial'),
        ('auth', '0012_alter_user_first_name_max_length'),
        ('contenttypes', '0002_remove_content_type_name'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [migrations.RunPython(make_roles, migrations.RunPython.noop)]
