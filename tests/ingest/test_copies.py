"""Copies of an SQLite database from before it is migrated, whoever has it migrated."""

import contextlib
import sqlite3
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ingest.services import database
from tests import commands
from tests.server_process import ROOT, Installation

LATEST = max(path.stem for path in (ROOT / "ingest" / "migrations").glob("0*.py"))
FORMER = "0001_initial"
BACK = ("migrate", "--fake", "ingest", FORMER)
FORTH = ("migrate", "--fake", "ingest")
"""Quick ways to have something to migrate: nothing of the tables changes."""

pytestmark = pytest.mark.slow("the project's commands run one after another, each a process of its own")


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    made = Installation(tmp_path / "var")
    made.put_tables()
    return made


def copies(installation: Installation) -> list[Path]:
    return sorted((installation.folder / "copies").glob("*"))


def applied(database: Path) -> str:
    with contextlib.closing(sqlite3.connect(database)) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        (name,) = opened.execute("SELECT max(name) FROM django_migrations WHERE app = 'ingest'").fetchone()
        return str(name)


def test_a_copy_has_what_was_there_before(installation: Installation) -> None:
    installation.manage("migrate", "--no-input")
    assert copies(installation) == [], "there was nothing to migrate"
    installation.manage("application", "set", "studio")
    installation.manage(*BACK)
    (copy,) = copies(installation)
    assert copy.name.endswith(f"-{LATEST}.sqlite3")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert (applied(copy), applied(installation.database)) == (LATEST, FORMER)
    with contextlib.closing(sqlite3.connect(copy)) as database:
        assert database.execute("SELECT name FROM ingest_application").fetchall() == [("studio",)]


@pytest.mark.parametrize(("keep", "kept"), [("1", [FORMER]), ("0", [])])
def test_the_latest_stay(installation: Installation, keep: str, kept: list[str]) -> None:
    for command in (BACK, FORTH):
        installation.manage(*command, environment={"RTMPWEB_KEEP_COPIES": keep})
    assert [applied(copy) for copy in copies(installation)] == kept


@pytest.mark.django_db
def test_of_each_state_the_last_stays(settings: Any, tmp_path: Path) -> None:
    """A start that fails within a migration again and again leaves the copy from before it."""
    settings.DATA_DIR = tmp_path
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies" / "20250101T120000000000Z-1-0001_initial.partial").touch()
    for second, state in enumerate((1, 1, 2, 3, 3, 3, 3, 4)):
        now = datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC)
        database.copy_before_migration(state=state, migration=f"{state:04}_made", now=now)
        left = sorted(path.name for path in (tmp_path / "copies").iterdir())
        if second == 6:
            assert [name[13:] for name in left] == [
                "01000000Z-1-0001_made.sqlite3",
                "02000000Z-2-0002_made.sqlite3",
                "06000000Z-3-0003_made.sqlite3",
            ]
    assert [name[13:] for name in left] == [
        "02000000Z-2-0002_made.sqlite3",
        "06000000Z-3-0003_made.sqlite3",
        "07000000Z-4-0004_made.sqlite3",
    ]
    assert database.newest_copy() == tmp_path / "copies" / left[-1]


def test_without_a_copy_nothing_is_migrated(installation: Installation) -> None:
    """Here it is a file that is in the way."""
    (installation.folder / "copies").write_text("")
    done = commands.run(BACK, installation.environment, 60)
    assert done.returncode == 1
    assert f"can't be copied to {installation.folder / 'copies'} before it is brought up to date" in done.stderr
    assert "RTMPWEB_KEEP_COPIES=0" in done.stderr
    assert "Traceback" not in done.stderr
    assert applied(installation.database) == LATEST
    installation.manage(*BACK, environment={"RTMPWEB_KEEP_COPIES": "0"})
    assert applied(installation.database) == FORMER
