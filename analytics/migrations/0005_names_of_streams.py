"""What there is so far is of streams: each row's value is its stream's path."""

from django.db import migrations
from django.db.models import F, Value
from django.db.models.functions import Concat


def name_streams(apps, schema_editor):
    unnamed = apps.get_model("analytics", "Rollup").objects.filter(dimension="stream", value="")
    unnamed.update(value=Concat(F("app"), Value("/"), F("name")))


class Migration(migrations.Migration):
    dependencies = [("analytics", "0004_history_by_dimension")]

    operations = [migrations.RunPython(name_streams, migrations.RunPython.noop)]
