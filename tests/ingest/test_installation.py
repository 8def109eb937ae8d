"""An installation's pepper and its database: nobody serves, or makes keys, as if those of a lost pepper still worked,
and what is said of a database that is of another version."""

import logging
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder

from dashboard import access
from ingest.models import AuditEntry, Installation, Stream, StreamKey, Webhook
from ingest.services import database, installation, keys
from ingest.services.installation import StartError
from tests.ingest.operators import run, run_json

pytestmark = [pytest.mark.django_db, pytest.mark.stores]


@pytest.fixture
def file(settings: Any, tmp_path: Path) -> Path:
    """Where this process's pepper is kept."""
    settings.KEY_PEPPER_FILE = made = tmp_path / "rtmpweb_key_pepper"
    made.write_text(settings.KEY_PEPPER)
    return made


@pytest.fixture
def secrets(stream: Stream) -> tuple[str, str]:
    """A stream key and a token."""
    keys.create(stream=stream)
    Webhook.objects.create(name="graphics", url="https://hooks.example.org/")
    return keys.create(stream=stream).secret, access.create_token(name="script", role="viewer").secret


def other_pepper(settings: Any, **fields: Any) -> None:
    settings.KEY_PEPPER = "another pepper of a test, and of nothing else at all"
    for name, value in fields.items():
        setattr(settings, name, value)


def test_the_same_pepper_is_in_order(secrets: tuple[str, str], file: Path) -> None:
    for _ in range(2):
        installation.check()
    assert Installation.objects.count() == 1
    assert file.exists()


@pytest.mark.parametrize("by", ["the file's", "the environment's"])
def test_another_pepper_is_refused_with_what_it_would_make_void(
    secrets: tuple[str, str], file: Path, settings: Any, by: str
) -> None:
    installation.check()
    other_pepper(settings)
    if by == "the environment's":
        settings.KEY_PEPPER_FILE = None
    with pytest.raises(StartError) as refused:
        installation.check()
    said = str(refused.value)
    assert "2 stream keys and 1 API token and 1 webhook" in said
    assert "manage.py pepper accept" in said
    assert (str(file) in said) == (by == "the file's")
    assert ("RTMPWEB_KEY_PEPPER" in said) == (by == "the environment's")
    assert file.exists(), "it was there before"


@pytest.mark.parametrize("noted", [True, False], ids=["since", "before there were marks"])
def test_newly_made_pepper_is_refused_and_removed_where_secrets_exist(
    secrets: tuple[str, str], file: Path, settings: Any, noted: bool
) -> None:
    if noted:
        installation.check()
    other_pepper(settings, KEY_PEPPER_IS_NEW=True)
    with pytest.raises(StartError, match=f"The pepper is lost: {file} is not there"):
        installation.check()
    assert not file.exists()


@pytest.mark.parametrize("is_new", [True, False], ids=["of a new installation", "where nothing is kept"])
def test_any_pepper_is_accepted_where_no_secret_depends_on_it(file: Path, settings: Any, is_new: bool) -> None:
    if not is_new:
        installation.check()
    other_pepper(settings, KEY_PEPPER_IS_NEW=is_new)
    installation.check()
    assert file.exists()
    installation.check()


@pytest.mark.parametrize(
    "command",
    [
        ("streamkey", "create", "live/cam1"),
        ("streamkey", "rotate", "live/cam1"),
        ("streamkey", "import", "-"),
        ("apitoken", "create", "another", "--role", "viewer"),
    ],
)
def test_commands_making_secrets_are_refused_with_a_changed_pepper(
    secrets: tuple[str, str], file: Path, settings: Any, command: tuple[str, ...]
) -> None:
    installation.check()
    other_pepper(settings)
    with pytest.raises(CommandError, match="pepper accept"):
        call_command(*command)
    assert StreamKey.objects.count() == 2


def test_pepper_accept_counts_the_void_secrets_and_is_audited(
    secrets: tuple[str, str], file: Path, settings: Any
) -> None:
    installation.check()
    other_pepper(settings)
    assert run_json("pepper", "accept") == {"void": {"stream keys": 2, "API token": 1, "webhook": 1}}
    assert AuditEntry.objects.get().action == "pepper.accept"
    installation.check()
    key, token = secrets
    assert keys.find(secret=key) is None
    assert access.find_token(secret=token) is None
    row = StreamKey.objects.order_by("pk").first()
    assert row is not None
    assert keys.find(secret=keys.rotate(key=row).secret) is not None
    assert "Nothing is void" in run("pepper", "accept")
    assert AuditEntry.objects.count() == 1


def test_another_secret_key_is_warned_of_once(file: Path, settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    installation.check()
    settings.SECRET_KEY = "another secret key of a test, and of nothing else at all"
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            installation.check()
    (warning,) = [record.getMessage() for record in caplog.records if "RTMPWEB_SECRET_KEY" in record.getMessage()]
    assert "log in again" in warning


@pytest.mark.parametrize(
    ("statement", "lacks"),
    [
        ("SELECT 1 FROM there_is_none", True),
        ("SELECT there_is_none FROM ingest_node", True),
        ("INSERT INTO ingest_node (there_is_none) VALUES (1)", True),
        ("SELECT FROM WHERE", False),
    ],
)
def test_error_of_a_missing_table_or_column_names_the_migrate_command(statement: str, lacks: bool) -> None:
    with pytest.raises(DatabaseError) as raised, connection.cursor() as cursor:
        cursor.execute(statement)
    assert database.lacks_tables(raised.value) is lacks
    said = database.describe_error(raised.value)
    assert said.startswith(f"{type(raised.value).__name__}: ")
    assert ("manage.py migrate`" in said) is lacks
    assert "\n" not in said


def test_newer_database_is_named_by_its_migration_and_not_migrated(settings: Any, tmp_path: Path) -> None:
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


def test_a_database_from_before_the_first_release_is_refused_in_a_sentence() -> None:
    MigrationRecorder(connection).record_applied("ingest", "0002_roles")
    said = database.version_difference()
    assert said.startswith("The database was made before version 0.1.0, and can't be upgraded: ")
    with pytest.raises(CommandError, match=r"before version 0\.1\.0"):
        call_command("migrate", verbosity=0)
