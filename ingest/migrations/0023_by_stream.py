"""A stream's history is found by its stream and a node's by its node, and what is open without either's history. What
waits to be told of a stream is found without what was told. Groups are changed by superusers only.
"""

from django.db import migrations, models

from ingest import roles
from ingest.indexes import AddIndexWhileWritten


def withdraw(apps, schema_editor):
    roles.withdraw(apps, roles.FORMERLY)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("ingest", "0022_told_in_order"),
    ]

    operations = [
        migrations.RunPython(withdraw, migrations.RunPython.noop, atomic=True),
        AddIndexWhileWritten(
            model_name="session",
            index=models.Index(fields=["stream", "kind", "-started_at"], name="session_stream_kind_started"),
        ),
        AddIndexWhileWritten(
            model_name="session",
            index=models.Index(
                fields=["stream", "kind", "ended_at", "-started_at"],
                name="session_open_by_stream",
                condition=models.Q(("ended_at__isnull", True)),
            ),
        ),
        AddIndexWhileWritten(
            model_name="session",
            index=models.Index(
                fields=["node", "ended_at", "-started_at"],
                name="session_open_on_node",
                condition=models.Q(("ended_at__isnull", True)),
            ),
        ),
        migrations.RemoveIndex(model_name="session", name="session_open_by_node"),
        AddIndexWhileWritten(
            model_name="session",
            index=models.Index(fields=["node", "-started_at"], name="session_node_started"),
        ),
        AddIndexWhileWritten(
            model_name="outboxevent",
            index=models.Index(
                fields=["stream", "sequence"],
                name="outbox_waiting_of_stream",
                condition=models.Q(("taken_at__isnull", True)),
            ),
        ),
        AddIndexWhileWritten(
            model_name="attempt",
            index=models.Index(fields=["app", "name", "-at"], name="attempt_path_at"),
        ),
    ]
