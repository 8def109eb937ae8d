"""A stream key leaves no trace: not in a log, page, answer of the API, database row or Parquet file."""

import subprocess
from pathlib import Path

import pytest

from tests.e2e.test_clients import PUBLISHERS, key_url
from tests.server_process import ServerProcess, program, wait_for

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(120), pytest.mark.xdist_group("e2e")]

WRONG = "rk_AnotherWrongKey0123456789abcdefg"


def holders(folder: Path, secret: str) -> list[Path]:
    """Files below the folder that contain the secret's bytes."""
    return [file for file in folder.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]


def test_keys_are_nowhere(server: ServerProcess, clip: Path) -> None:
    key = server.create_key("live/secret")
    for form in ("name", "query"):
        PUBLISHERS["ffmpeg-debian"]()(clip, key_url(key, server, form))
        wait_for(
            lambda: server.stream("live/secret")["state"] == "offline", timeout_s=10, what="the publisher has gone"
        )
    wrong_url = f"{server.rtmp}/live/{WRONG}"
    with program("ffmpeg", "-v", "error", "-re", "-i", str(clip), "-c", "copy", "-f", "flv", wrong_url) as refused:
        wait_for(lambda: refused.poll() is not None, timeout_s=10, what="a wrong key was refused")
    subprocess.run(
        ["ffmpeg", "-v", "error", "-i", f"{server.rtmp}/live?key={key['key']}/x", "-f", "null", "-"],
        timeout=10,
        capture_output=True,
        check=False,
    )
    server.manage("analytics", "run", "hourly", "--json")
    parquet = list((server.folder / "lake").rglob("*.parquet"))
    assert parquet, "the lake holds what was recorded"
    for secret in (key["key"], WRONG):
        assert holders(server.folder, secret) == []
        assert secret not in server.log
        for path in ("streams", "streams/live/secret", "sessions", "attempts"):
            assert secret not in str(server.request(f"/api/v1/{path}"))
