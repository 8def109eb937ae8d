"""Starts of `manage.py serve` that are refused: each says why, and what to do, before anything is made."""

import contextlib
import socket
from pathlib import Path

import pytest

from tests.certificates import make_pair
from tests.server_process import ServerProcess

pytestmark = [
    pytest.mark.serve,
    pytest.mark.timeout(180),
    pytest.mark.slow("the whole server starts, or ends, as processes"),
]


LISTENERS = ("RTMPWEB_HTTP", "RTMPWEB_RTMP", "RTMPWEB_RTMPS", "RTMPWEB_MEDIA")


@pytest.mark.parametrize("settings", [*((each,) for each in LISTENERS), LISTENERS], ids=[*LISTENERS, "all of them"])
def test_busy_ports_are_named_in_one_sentence(tmp_path: Path, settings: tuple[str, ...]) -> None:
    pair = make_pair(tmp_path)
    with contextlib.ExitStack() as stack:
        busy = {each: stack.enter_context(socket.create_server(("127.0.0.1", 0))) for each in settings}
        ports = {each: taken.getsockname()[1] for each, taken in busy.items()}
        environment = {each: f"127.0.0.1:{port}" for each, port in ports.items()}
        tls = {"RTMPWEB_TLS_CERT": str(pair.chain), "RTMPWEB_TLS_KEY": str(pair.key)}
        server = ServerProcess(tmp_path / "var", **environment, **tls)
        done = server.run_to_its_end()
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line]
    assert line.count("in use") == 1
    for each in LISTENERS:
        assert (f"({each})" in line) == (each in settings)
    for port in ports.values():
        assert str(port) in line
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
