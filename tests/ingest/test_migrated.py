"""What is said of a database that is of another version."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder

from ingest.services import database

pytestmark = pytest.mark.both_forms


@pytest.mark.parametrize(
    ("statement", "lacks"),
    [
        ("SELECT 1 FROM there_is_none", True),
        ("SELECT there_is_none FROM ingest_node", True),
        ("INSERT INTO ingest_node (there_is_none) VALUES (1)", True),
        ("SELECT FROM WHERE", False),
    ],
)
@pytest.mark.django_db
def test_a_missing_table_or_column_is_told_with_the_act(statement: str, lacks: bool) -> None:
    with pytest.raises(DatabaseError) as raised, connection.cursor() as cursor:
        cursor.execute(statement)
    assert database.lacks_tables(raised.value) is lacks
    said = database.describe_error(raised.value)
    assert said.startswith(f"{type(raised.value).__name__}: ")
    assert ("run `manage.py migrate`" in said) is lacks
    assert "\n" not in said


@pytest.mark.django_db
def test_a_newer_database_is_told_with_the_migration_and_is_not_migrated(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    for application, name in (("ingest", "9999_later"), ("django_celery_beat", "9999_of_a_library")):
        MigrationRecorder(connection).record_applied(application, name)
    said = database.version_difference()
    assert said.startswith(
        "The database is of a newer version: it has ingest.9999_later, which this one does not know."
    )
    assert "put a copy from before the upgrade in its place" in said
    (tmp_path / "copies").mkdir()
    for copy in ("20260101T120000000000Z-7-0001_initial.sqlite3", "20260301T120000000000Z-99-9998_between.sqlite3"):
        (tmp_path / "copies" / copy).touch()
    assert f"the copy from before the upgrade, {tmp_path}/copies/20260101T1200" in database.version_difference()
    with pytest.raises(CommandError, match=r"ingest\.9999_later"):
        call_command("migrate", verbosity=0)


@pytest.mark.django_db
def test_a_database_from_before_the_first_release_is_refused_in_a_sentence() -> None:
    MigrationRecorder(connection).record_applied("ingest", "0002_roles")
    said = database.version_difference()
    assert said.startswith("The database was made before version 0.1.0, and can't be upgraded: ")
    with pytest.raises(CommandError, match=r"before version 0\.1\.0"):
        call_command("migrate", verbosity=0)


@pytest.mark.django_db
def test_a_migrated_database_lacks_nothing() -> None:
    assert database.version_difference() == ""
