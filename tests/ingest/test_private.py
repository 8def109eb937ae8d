"""Files and folders that are an installation's own user's alone."""

import os
import stat
from pathlib import Path

import pytest

from ingest.services import data_folder
from tests.production.parts import Web
from tests.server_process import Installation

UMASK = """
import os
from ingest import private
private.restrict_new_files()
print(os.umask(0o022))
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("before", "after"), [(None, 0o700), (0o755, 0o700), (0o2775, 0o2700), (0o700, 0o700), (0o1777, 0o1777)]
)
def test_a_folder_is_closed_but_one_that_many_use(tmp_path: Path, before: int | None, after: int) -> None:
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
def test_a_folder_with_foreign_ones_in_it_is_left_to_them(tmp_path: Path, holds: str, after: int) -> None:
    """Such as /srv, which the whole machine would miss."""
    folder = tmp_path / "var"
    for name in ("static/", holds):
        made = folder / name
        made.mkdir(parents=True) if name.endswith("/") else made.touch()
    folder.chmod(0o755)
    data_folder.make_folder(folder)
    assert mode(folder) == after


def test_what_is_ours_in_it_is_closed_all_the_same(tmp_path: Path) -> None:
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
def test_what_is_another_users_is_left(tmp_path: Path) -> None:
    file = tmp_path / "theirs"
    file.touch()
    file.chmod(0o644)
    os.chown(file, 65534, 65534)
    data_folder.close(file)
    assert mode(file) == 0o644


def test_a_file_is_closed_whatever_its_owner_may_do(tmp_path: Path) -> None:
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
def test_what_others_may_share_follows_the_umask_that_was_given(
    tmp_path: Path, apart: dict[str, str], expected: int
) -> None:
    elsewhere = {name: str(tmp_path / folder) for name, folder in apart.items()}
    installation = Installation(tmp_path / "var", **elsewhere)
    code = f"import os; os.umask(0o027)\n{UMASK}"
    assert int(installation.manage("shell", "--no-imports", "-c", code)) == expected
