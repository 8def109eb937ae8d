"""Starts of `manage.py serve` that are refused: each says why, and what to do, before anything is made."""

import socket
from pathlib import Path

import pytest

from tests.server_process import ServerProcess

pytestmark = [
    pytest.mark.serve,
    pytest.mark.timeout(180),
    pytest.mark.slow("the whole server starts, or ends, as processes"),
]


@pytest.mark.parametrize("setting", ["RTMPWEB_HTTP", "RTMPWEB_RTMP"])
def test_a_busy_port_is_named_in_one_sentence(tmp_path: Path, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        server = ServerProcess(tmp_path / "var", **{setting: f"127.0.0.1:{port}"})
        done = server.run_to_its_end()
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line]
    assert str(port) in line
    assert setting in line
    assert "in use" in line
    assert done.stdout == ""
    assert not (server.folder / "rtmpweb.sqlite3").exists(), "nothing is made, so nothing is shown only once"


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "var", RTMPWEB_HTTP="8000")
    done = server.run_to_its_end()
    assert done.returncode == 1
    assert "RTMPWEB_HTTP is '8000': expected host:port" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_lost_pepper_is_named_with_its_file_and_the_way_on(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "var")
    server.put_tables()
    server.manage("application", "set", "live")
    server.create_key("live/demo")
    pepper = server.folder / "rtmpweb_key_pepper"
    pepper.unlink()
    done = server.run_to_its_end()
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert f"The pepper is lost: {pepper} is not there, and this database has 1 stream key" in line
    assert "manage.py pepper accept" in line
    assert not pepper.exists(), "the next start is refused as well"
    accepting = ServerProcess(server.folder, RTMPWEB_LOG_LEVEL="WARNING")  # A process that has not read the former one.
    assert "Void are 1 stream key" in accepting.manage("pepper", "accept")
    assert pepper.exists()
    accepting.start()
    assert accepting.stop() == 0
