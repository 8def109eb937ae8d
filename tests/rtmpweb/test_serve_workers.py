"""`serve --workers`: RTMP in processes of their own, beside pages and a Redis that is theirs; from start to Ctrl-C."""

import asyncio
import os
import re
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from ingest.services import data_folder
from tests.rtmp_client import Refused, RtmpClient
from tests.rtmpweb import processes
from tests.rtmpweb.test_serve import AUDIO, keep_sending
from tests.server_process import ServerProcess, wait_for
from tests.tools import require_tool

pytestmark = [
    pytest.mark.serve,
    pytest.mark.timeout(240),
    pytest.mark.matrix,
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    require_tool("redis-server")
    made = ServerProcess(
        tmp_path / "var", RTMPWEB_WORKERS="2", RTMPWEB_NODE="node", RTMPWEB_GUESSES="3", RTMPWEB_HLS="127.0.0.1:0"
    )
    made.put_tables()
    made.start()
    yield made
    if made.process.poll() is None:
        made.stop()


NODES = ["node-1", "node-2", "node-hls"]


def child(server: ServerProcess, words: str) -> set[int]:
    """The server's children with these words in their command."""
    return {pid for pid in processes.children(server.process.pid) if re.search(words, processes.command(pid))}


def nodes_of(server: ServerProcess) -> list[str]:
    return sorted(node["name"] for node in server.items("/api/v1/nodes") if node["state"] == "up")


def is_live(server: ServerProcess, path: str) -> bool:
    """Pages know nothing while Redis is away."""
    status, answer = server.request(f"/api/v1/streams/{path}")
    return bool(status == 200 and answer["state"] == "live")


async def end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])


async def publishers(stack: AsyncExitStack, server: ServerProcess, keys: dict[str, str]) -> dict[str, RtmpClient]:
    """Of these streams, sending."""
    found = {}
    for path, key in keys.items():
        client = await stack.enter_async_context(RtmpClient(port=server.rtmp_port))
        await client.connect("live")
        stream_id = await client.publish(key)
        await client.send_audio(stream_id, 0, AUDIO[0])
        task = asyncio.create_task(keep_sending(client, stream_id))
        stack.push_async_callback(end, task)
        found[path] = client
    return found


async def played(stack: AsyncExitStack, server: ServerProcess, path: str) -> None:
    """By a player that has come to a worker where the stream can be had."""
    for _ in range(60):
        client = await stack.enter_async_context(RtmpClient(port=server.rtmp_port))
        await client.connect("live")
        try:
            await client.play(path.removeprefix("live/"))
        except Refused:
            await client.close()
        else:
            return
    raise AssertionError("it can be played on no worker")


def test_serve_with_workers_spreads_streams_survives_redis_kill_and_stops(server: ServerProcess) -> None:
    assert "Stream Key: " in server.first_start
    (redis,) = child(server, "^redis-server|/redis-server")
    assert len(child(server, r"runrtmp .*--worker \d")) == 2
    assert len(child(server, " runhls ")) == 1
    folder = data_folder.socket_folder(server.folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "redis.sock").stat().st_mode) == 0o600
    wait_for(lambda: nodes_of(server) == NODES, timeout_s=20, what="both workers are nodes, and the packager")
    paths = [f"live/cam{number}" for number in range(14)]
    keys = {path: made["key"] for path, made in server.create_keys(paths).items()}

    async def broadcast() -> int:
        async with AsyncExitStack() as stack:
            found = await publishers(stack, server, keys)
            for path in paths:
                await asyncio.to_thread(server.wait_for_state, path, "live")
            nodes = {server.sessions(path)[0]["node"] for path in paths}
            assert nodes == {"node-1", "node-2"}, "of 14 both workers have some, but once in 8000 runs"
            _, figures = await asyncio.to_thread(server.request, "/metrics")
            for node in ("node-1", "node-2"):
                assert f'node="{node}"' in figures

            await played(stack, server, paths[1])
            wait = asyncio.to_thread(wait_for, lambda: server.stream(paths[1])["players"] == 1, timeout_s=10, what="it")
            await wait

            status, _ = await asyncio.to_thread(server.request, f"/api/v1/streams/{paths[0]}/kick", method="POST")
            assert status == 202
            await found[paths[0]].wait_closed(5)
            ended = await asyncio.to_thread(server.wait_for_end, paths[0])
            assert ended["end_reason"] == "kicked"

            os.kill(redis, signal.SIGKILL)  # It is started again; streams go on.
            await asyncio.to_thread(
                wait_for, lambda: child(server, "redis-server") - {redis}, timeout_s=20, what="there is a new Redis"
            )
            shown = partial(
                wait_for, lambda: all(map(partial(is_live, server), paths[1:])), what="they are shown again"
            )
            await asyncio.to_thread(shown, timeout_s=20)
            assert not any(found[path].closed for path in paths[1:])
            server.process.send_signal(signal.SIGINT)
            return await asyncio.to_thread(server.process.wait, 40)

    assert asyncio.run(broadcast()) == 0
    assert "Stopped." in server.log
    assert "Traceback" not in server.log
    assert not processes.of_folder(server.folder)
    ended = {reason for (reason,) in server.rows("SELECT end_reason FROM ingest_session")}
    assert ended == {"node_shutdown", "kicked"}
    assert server.rows("SELECT DISTINCT state FROM ingest_node") == [("down",)]
    assert not folder.exists() or not list(folder.iterdir())


def test_a_killed_server_leaves_nothing_running(server: ServerProcess) -> None:
    assert len(child(server, " runhls ")) == 1
    server.process.kill()
    server.process.wait()
    wait_for(lambda: not processes.of_folder(server.folder), timeout_s=20, what="nothing is left")


def test_a_second_ctrl_c_leaves_nothing_running(server: ServerProcess) -> None:
    for pid in child(server, r"runrtmp .*--worker \d"):
        os.kill(pid, signal.SIGSTOP)  # They would hold the stop up.
    server.process.send_signal(signal.SIGINT)
    wait_for(lambda: "once more to stop at once" in server.log, timeout_s=20, what="it stops")
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(10) == 1
    wait_for(lambda: not processes.of_folder(server.folder), timeout_s=5, what="nothing is left")


def test_serve_workers_without_redis_server_says_what_to_install(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    server = ServerProcess(tmp_path / "var")
    done = subprocess.run(
        [*processes.MANAGE, "serve", "--workers", "2"],
        cwd=processes.ROOT,
        env={**server.environment, "PATH": str(programs)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 1
    assert "there is no redis-server in PATH: install it" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (server.folder / "rtmpweb.sqlite3").exists(), "before anything is made"


@pytest.mark.parametrize("said", ["0", "65", "many"])
def test_invalid_number_of_workers_is_refused(tmp_path: Path, said: str) -> None:
    done = processes.run(
        *processes.MANAGE, "serve", "--workers", said, only=ServerProcess(tmp_path / "var").environment
    )
    assert done.returncode == 1 or done.returncode == 2
    assert "expected 1 to 64" in done.stderr
