from typing import Any

from django.db import migrations, models
from django.db.models import Q


def keep_what_was_chosen(apps: Any, schema_editor: Any) -> None:
    for name in ("AlertRule", "Webhook"):
        model = apps.get_model("dashboard", name)
        chosen = model.objects.filter(Q(applications__isnull=False) | Q(streams__isnull=False))
        model.objects.filter(pk__in=list(chosen.values_list("pk", flat=True))).update(is_scoped=True)


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0006_delivery_indexes"),
    ]

    operations = [
        migrations.AddField(
            model_name="alertrule",
            name="is_scoped",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddField(
            model_name="webhook",
            name="is_scoped",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.RunPython(keep_what_was_chosen, migrations.RunPython.noop),
    ]
