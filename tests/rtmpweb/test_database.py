"""A command without a database to work on says so, and what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("database_url", "words"),
    [("", "run `manage.py migrate`"), ("postgresql://nobody@127.0.0.1:1/none", "The database does not answer")],
)
def test_a_command_says_what_is_wrong_with_the_database(tmp_path: Path, database_url: str, words: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "streamkey", "list", "live/demo"],
        cwd=ROOT,
        env={**os.environ, "RTMPWEB_DATA_DIR": str(tmp_path), "DATABASE_URL": database_url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
