"""A new version's migrations, while processes of the former one still write."""

from typing import Any

import pytest
from django.apps.registry import Apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ingest.models import Application

pytestmark = pytest.mark.both_forms

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


@pytest.mark.slow("the database is migrated back and forth")
def test_a_policy_of_recording_is_what_was_on_or_off(transactional_db: None) -> None:
    executor = MigrationExecutor(connection)
    latest = executor.loader.graph.leaf_nodes()  # Of all applications: others stand on it.
    executor.migrate([("ingest", "0008_recordings")])
    try:
        former: Any = executor.loader.project_state([("ingest", "0008_recordings")]).apps.get_model(
            "ingest", "Application"
        )
        for name, record in (("studio", True), ("live", False)):
            former.objects.create(name=name, record=record)
    finally:
        MigrationExecutor(connection).migrate(latest)
    assert dict(Application.objects.values_list("name", "record")) == {"studio": "all", "live": "none"}


@pytest.mark.slow("the database is migrated back and forth")
def test_the_sessions_are_written_while_their_indexes_are_built(transactional_db: None) -> None:
    """Also those that a run before left half built."""
    names = ("session_kind_started", "session_address_started", "session_reason_started", "session_ended")
    latest = MigrationExecutor(connection).loader.graph.leaf_nodes()  # Of all applications: others stand on it.
    MigrationExecutor(connection).migrate([("ingest", "0017_audit_outbox_overrides")])
    try:
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(f"CREATE INDEX {names[0]} ON ingest_session (kind)")
    finally:
        with CaptureQueriesContext(connection) as asked:
            MigrationExecutor(connection).migrate(latest)
    with connection.cursor() as cursor:
        there = connection.introspection.get_constraints(cursor, "ingest_session")
    assert {name: there[name]["columns"][0] for name in names} == dict(
        zip(names, ("kind", "address", "kind", "ended_at"), strict=True)
    )
    assert len(there[names[0]]["columns"]) == 3
    built = [
        each["sql"] for each in asked if each["sql"].startswith("CREATE INDEX") and "ingest_session" in each["sql"]
    ]
    assert len(built) >= len(names)
    if connection.vendor == "postgresql":
        assert [sql for sql in built if "CONCURRENTLY" not in sql] == []
