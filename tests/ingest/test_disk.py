"""What an installation has on its disk: files that are its own user's alone, copies of an SQLite database from before
it is migrated, why a write was refused, and free space, of a disk that may hang."""

import contextlib
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import Error, InternalError, OperationalError
from psycopg import errors

from ingest.disk import DiskSpace
from ingest.services import data_folder, database
from tests import commands
from tests.ingest.faults import HangingDisk
from tests.production.parts import PostgresServer, Web
from tests.rtmpweb import processes
from tests.server_process import ROOT, Installation

UMASK = """
import os
from ingest.services import data_folder
data_folder.restrict_new_files()
print(os.umask(0o022))
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("before", "after"), [(None, 0o700), (0o755, 0o700), (0o2775, 0o2700), (0o700, 0o700), (0o1777, 0o1777)]
)
def test_data_folder_is_made_private_unless_it_is_world_shared(tmp_path: Path, before: int | None, after: int) -> None:
    folder = tmp_path / "var"
    if before is not None:
        folder.mkdir()
        folder.chmod(before)
    data_folder.make_folder(folder)
    assert mode(folder) == after
    assert data_folder.is_open(folder) == (after == 0o1777)


@pytest.mark.parametrize(
    ("holds", "after"),
    [("lake/", 0o700), ("notes.txt", 0o700), ("rtmpweb.sqlite3", 0o700), ("website/", 0o755)],
)
def test_data_folder_holding_a_foreign_folder_keeps_its_mode(tmp_path: Path, holds: str, after: int) -> None:
    """Such as /srv, which the whole machine would miss."""
    folder = tmp_path / "var"
    for name in ("static/", holds):
        made = folder / name
        made.mkdir(parents=True) if name.endswith("/") else made.touch()
    folder.chmod(0o755)
    data_folder.make_folder(folder)
    assert mode(folder) == after


def test_own_entries_of_a_shared_data_folder_are_made_private(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "var", tmp_path / "elsewhere"
    for name in ("website/", "static/", "recordings/", "lake/"):
        (folder / name).mkdir(parents=True)
    for name in ("rtmpweb.sqlite3", "rtmpweb.sqlite3-wal", "notes.txt"):
        (folder / name).touch()
    elsewhere.mkdir()
    (folder / "copies").symlink_to(elsewhere)
    for entry in (folder, *folder.iterdir()):
        entry.chmod(0o755)
    data_folder.make_folder(folder)
    closed = {entry.name for entry in folder.iterdir() if not mode(entry) & 0o077}
    assert closed == {"recordings", "lake", "rtmpweb.sqlite3", "rtmpweb.sqlite3-wal"}
    assert mode(folder) == 0o755


def test_each_start_warns_of_a_folder_that_others_may_look_into(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "var")
    installation.put_tables()
    (installation.folder / "website").mkdir()
    installation.folder.chmod(0o755)
    for _ in range(2):
        process = Web(tmp_path, installation.environment)
        process.start()
        process.stop()
        assert process.log.count("Other users of this machine may look into the data folder") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_file_of_another_user_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "theirs"
    file.touch()
    file.chmod(0o644)
    os.chown(file, 65534, 65534)
    data_folder.close(file)
    assert mode(file) == 0o644


def test_own_file_loses_only_the_access_of_group_and_others(tmp_path: Path) -> None:
    for before, after in ((0o644, 0o600), (0o440, 0o400), (0o600, 0o600)):
        file = tmp_path / f"{before:o}"
        file.touch()
        file.chmod(before)
        data_folder.close(file)
        assert mode(file) == after
    data_folder.close(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    ("apart", "expected"), [({}, 0o077), ({"RTMPWEB_LAKE": "lake"}, 0o027), ({"RTMPWEB_RECORDINGS": "kept"}, 0o027)]
)
def test_umask_is_private_unless_lake_or_recordings_lie_elsewhere(
    tmp_path: Path, apart: dict[str, str], expected: int
) -> None:
    elsewhere = {name: str(tmp_path / folder) for name, folder in apart.items()}
    installation = Installation(tmp_path / "var", **elsewhere)
    code = f"import os; os.umask(0o027)\n{UMASK}"
    assert int(installation.manage("shell", "--no-imports", "-c", code)) == expected


LATEST = max(path.stem for path in (ROOT / "ingest" / "migrations").glob("0*.py"))
FORMER = "0001_initial"
BACK = ("migrate", "--fake", "ingest", FORMER)
FORTH = ("migrate", "--fake", "ingest")
"""Quick ways to have something to migrate: nothing of the tables changes."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """One environment for all tests, so that commands share the process that has imported the project."""
    return Installation(tmp_path_factory.mktemp("disk") / "var")


@pytest.fixture
def installation(home: Installation) -> Iterator[Installation]:
    home.put_tables()
    yield home
    shutil.rmtree(home.folder)


def copies(installation: Installation) -> list[Path]:
    return sorted((installation.folder / "copies").glob("*"))


def applied(database: Path) -> str:
    with contextlib.closing(sqlite3.connect(database)) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        (name,) = opened.execute("SELECT max(name) FROM django_migrations WHERE app = 'ingest'").fetchone()
        return str(name)


@pytest.mark.slow("the project is started three times")
def test_copy_before_a_migration_holds_the_former_database(installation: Installation) -> None:
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


@pytest.mark.matrix
@pytest.mark.parametrize(("keep", "kept"), [("1", [FORMER]), ("0", [])])
def test_number_of_kept_database_copies_follows_the_setting(
    installation: Installation, keep: str, kept: list[str]
) -> None:
    for command in (BACK, FORTH):
        installation.manage(*command, environment={"RTMPWEB_KEEP_COPIES": keep})
    assert [applied(copy) for copy in copies(installation)] == kept


@pytest.mark.django_db
def test_only_the_latest_copy_of_each_migration_state_is_kept(settings: Any, tmp_path: Path) -> None:
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


@pytest.mark.matrix
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


STANDBY = """
from django.db import Error, connection
from ingest.services import database
try:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE tried (number integer)")
except Error as error:
    print(database.is_write_refused(error), database.write_failure_cause(error).why)
"""


def full(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {pages}")
        database.execute("INSERT INTO some VALUES (zeroblob(100000))")


def read_only(file: Path) -> None:
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
        database.execute("DELETE FROM some")


def locked(file: Path) -> None:
    with closing(sqlite3.connect(file)) as other, closing(sqlite3.connect(file, timeout=0)) as database:
        other.execute("BEGIN IMMEDIATE")
        database.execute("DELETE FROM some")


def no_table(file: Path) -> None:
    with closing(sqlite3.connect(file)) as opened:
        opened.execute("DELETE FROM others")


def as_django_raises_it(error: Exception, kind: type[Error] = OperationalError) -> Error:
    raised = kind(str(error))
    raised.__cause__ = error
    return raised


@pytest.mark.parametrize(
    ("write", "cause"),
    [
        (full, database.FULL),
        (read_only, database.FILE),
        (locked, database.LOCKED),
        (no_table, database.OTHER_CAUSE),
    ],
)
def test_cause_of_a_failed_sqlite_write_is_recognised(
    tmp_path: Path, write: Callable[[Path], None], cause: database.Cause
) -> None:
    file = tmp_path / "some.sqlite3"
    with closing(sqlite3.connect(file)) as opened:
        opened.execute("CREATE TABLE some (bytes blob)")
    with pytest.raises(sqlite3.OperationalError) as raised:
        write(file)
    assert database.write_failure_cause(as_django_raises_it(raised.value)) is cause


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (as_django_raises_it(errors.DiskFull("could not extend file")), database.FULL),
        (as_django_raises_it(errors.ReadOnlySqlTransaction("read-only"), InternalError), database.READ_ONLY),
        (as_django_raises_it(errors.DeadlockDetected("deadlock detected")), database.OTHER_CAUSE),
    ],
)
def test_cause_of_a_failed_postgresql_write_is_recognised(error: Error, cause: database.Cause) -> None:
    assert database.write_failure_cause(error) is cause
    assert database.is_write_refused(error) is (cause is database.READ_ONLY)


def test_a_standby_is_known_as_one(tmp_path: Path) -> None:
    with PostgresServer(tmp_path) as server:
        server.restart(standby=True)
        where = {"RTMPWEB_DATA_DIR": str(tmp_path / "var"), "DATABASE_URL": server.url}
        done = processes.run(*processes.SHELL, STANDBY, environment=where)
    assert done.stdout == "True It is a standby.\n", done.stderr


@pytest.mark.parametrize("folder", [".", "nowhere"])
def test_free_disk_space_is_known_after_the_first_query_if_folder_exists(tmp_path: Path, folder: str) -> None:
    disk = DiskSpace(tmp_path / folder)
    assert disk.free_percent(0.0) is None
    disk.ask(0.0)
    disk.wait(5.0)
    free = disk.free_percent(1.0)
    assert (free is None) == (folder == "nowhere")
    assert free is None or 0 < free <= 100
    assert disk.hangs_s(1.0) == 0.0
    disk.close()


def test_hanging_disk_is_timed_by_a_single_query_and_recovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, disk = HangingDisk(monkeypatch), DiskSpace(tmp_path)
    hanging.let_go()
    disk.ask(0.0)
    disk.wait(5.0)
    hanging.hang()
    threads = threading.active_count()
    for now in range(1, 9):
        disk.ask(float(now))
        assert disk.hangs_s(float(now)) == now - 1
        assert (disk.free_percent(float(now)) is None) == (now > 5), "what it said before holds for a while"
    disk.wait(0.0)
    assert threading.active_count() == threads, "one question at a time"
    hanging.let_go()
    disk.wait(5.0)
    assert disk.hangs_s(9.0) == 0.0
    assert disk.free_percent(9.0) is not None
    disk.close()
