"""A data folder that can't be made: each process says so in a sentence, and what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

PROGRAMS = Path(sys.executable).parent
MANAGE = [sys.executable, "manage.py"]
CELERY = [sys.executable, "-m", "celery", "--quiet", "-A", "rtmpweb"]


@pytest.mark.parametrize(
    "command",
    [
        [*MANAGE, "serve"],
        [*MANAGE, "runrtmp"],
        [*MANAGE, "runweb"],
        [*MANAGE, "streamkey", "list"],
        [*CELERY, "worker", "-Q", "default"],
        [*CELERY, "beat", "--pidfile="],
        [PROGRAMS / "daphne", "-p", "0", "rtmpweb.asgi:application"],
    ],
    ids=["serve", "runrtmp", "runweb", "a command", "worker", "beat", "daphne"],
)
def test_a_data_folder_that_cant_be_made_is_named(tmp_path: Path, command: list[str | Path]) -> None:
    """A file stands where it should be; others get the same of rights that they lack."""
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "var"
    done = subprocess.run(
        command,
        cwd=settings.BASE_DIR,
        env={**os.environ, "RTMPWEB_DATA_DIR": str(folder), "DATABASE_URL": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"RTMPWEB_DATA_DIR: the folder {folder} can't be made: Not a directory. ")
    assert line.endswith(" or set RTMPWEB_DATA_DIR to another folder.")
