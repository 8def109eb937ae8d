"""A new version's migrations, while processes of the former one still write."""

from django.apps.registry import Apps
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

FORMER = [("ingest", "0004_idle_timeout_validator")]
"""The migrations that the former version ended with."""


def former_models() -> Apps:
    """The models as a process of the former version has them."""
    found: Apps = MigrationLoader(connection).project_state(FORMER).apps
    return found


def test_processes_of_the_former_version_can_still_write(db: None) -> None:
    models = former_models()
    make = {name: models.get_model("ingest", name).objects.create for name in ("Application", "Stream", "StreamKey")}
    stream = make["Stream"](application=make["Application"](name="live"), name="cam1")
    make["StreamKey"](stream=stream, digest="0" * 64)
    now = timezone.now()
    models.get_model("ingest", "Node").objects.create(name="node-1", started_at=now, seen_at=now)
    attempt = models.get_model("ingest", "Attempt").objects.create(action="publish", address="192.0.2.1", reason="x")
    with connection.cursor() as cursor:
        cursor.execute("SELECT count FROM ingest_attempt WHERE id = %s", [attempt.pk])
        assert cursor.fetchone() == (1,)
