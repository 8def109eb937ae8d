"""The disk under a node's data folder is full while three streams go on there: they don't notice, telemetry waits."""

import os
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.production.broadcast import FPS, on_air
from tests.production.installation import Production
from tests.production.outages.outage import (
    AWAY_S,
    CLIENT_ENDS,
    HANGING_S,
    UNCHECKED,
    WRITTEN_S,
    Encoder,
    check_accepted,
    check_over,
    check_samples,
    check_sessions,
    check_told,
    frames,
    open_sessions,
    open_wall,
)
from tests.production.outages.steady import Steady
from tests.production.parts import MediaNode
from tests.programs import Keys
from tests.rtmpweb.processes import waited_s, waited_since_s
from tests.server_process import Installation, running, wait_for

pytestmark = [
    pytest.mark.production,
    pytest.mark.timeout(180),
]

STREAMS = ["disk-1", "disk-2", "disk-3"]
NODE = "node-small"
SIZE = "24m"
LATE_S = 1.0
"""A message, but for waits for a processor."""
ZEROS = bytes(1 << 20)


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[bool]:
    """A tmpfs of so many bytes ("24m") at the folder. False: only root may mount one."""
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", place]).returncode:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """While not a block of it is free."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:  # Others may write meanwhile, so that what is free is not known before.
            file.write(ZEROS)
    try:
        yield
    finally:
        ballast.unlink()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path, SIZE) as is_small:
        if not is_small:
            pytest.skip("needs the right to mount a tmpfs (root)")
        yield tmp_path


def empty_log(database: Path) -> None:
    """What SQLite had in its write-ahead log goes into the database: the next write needs room on the disk."""

    def done() -> bool:
        with closing(sqlite3.connect(database)) as connection:
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    wait_for(done, timeout_s=5, what="the write-ahead log is empty")


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def said_of_it(server: Installation) -> bool:
    """That the database takes no writes for want of room, and not that those are gone who can't write to it."""
    parts = {part["kind"]: part for part in server.request("/api/v1/system")[1]["items"]}
    assert parts["nodes"]["state"] == "ok"
    assert [kind for kind in ("worker_default", "worker_analytics", "beat") if parts[kind]["state"] == "down"] == []
    database = parts["database"]
    return database["state"] == "degraded" and "Its disk is full." in database["effect"]


@pytest.mark.measures_time
def test_full_disk_of_a_node_interrupts_no_stream_and_loses_no_sample(
    production: Production, keys: Keys, small: Path, tmp_path_factory: pytest.TempPathFactory, page: Page
) -> None:
    lake = small / "data" / "lake"
    places = {"RTMPWEB_DATA_DIR": str(small / "data"), "RTMPWEB_LAKE": str(lake)}
    node = MediaNode(NODE, tmp_path_factory.mktemp("small"), {**production.environment, **places})
    open_wall(production, page)
    node.start()
    try:
        with Steady(node, {name: keys[name] for name in STREAMS}) as steady:
            sessions = open_sessions(production, STREAMS)
            with steady.undisturbed("The disk is full"):
                began = time.time()
                with full(small):
                    check_told(production, page, "disk", began)
                    assert "No space left on device" in node.log
                    time.sleep(max(0.0, began + AWAY_S - time.time()))  # The length of the outage is what is tested.
                check_over(page, "disk")
            check_sessions(production, STREAMS, sessions)
            check_samples(lake, sessions, steady)
            sent = steady.stop()
            assert frames(production, sessions) == {name: count - 2 for name, count in sent.items()}
    finally:
        node.stop()
    left = [path.name for path in files(lake) if path.suffix != ".parquet"]
    assert left == [".flush-request"]


def test_full_disk_of_an_embedded_server_refuses_only_new_publishers(small: Path) -> None:
    """SQLite writes nothing: no publisher can be admitted, the one that there is goes on, history waits."""
    with running(small / "data") as server, ExitStack() as leaving:
        keys = {name: server.create_key(f"live/{name}") for name in ("stays", "comes")}
        concerned = (server.process.pid, os.getpid())
        waited_before_s = {pid: waited_s(pid) for pid in concerned}
        show = leaving.enter_context(on_air(server.rtmp, keys["stays"], players=2))
        session = server.wait_for_state("live/stays", "live")["session_id"]
        wait_for(lambda: show.played > 2 * FPS, timeout_s=WRITTEN_S, what="players got more than the cache has")
        with Encoder(server) as early:
            assert not early.connect()
            empty_log(small / "data" / "rtmpweb.sqlite3")
            with full(small):
                assert early.publish(keys["comes"]) == UNCHECKED
                wait_for(lambda: "waits for the database" in server.log, timeout_s=WRITTEN_S, what="the log says it")
                wait_for(lambda: said_of_it(server), timeout_s=WRITTEN_S, what="the system page says it")
                assert server.request("/healthz", token="")[0] == 200
                played = show.played
                wait_for(lambda: show.played > played + FPS, timeout_s=WRITTEN_S, what="the players get more")
                leaves_at = time.time()
                leaving.close()
                time.sleep(HANGING_S)  # The length of the outage is what is tested.
                over_at = time.time()
        show.check(late_s=LATE_S + show.waited_s + waited_since_s(waited_before_s, concerned))
        row = server.wait_for_end("live/stays", session, WRITTEN_S)
        assert row["end_reason"] in CLIENT_ENDS
        # It is told to the millisecond.
        assert leaves_at - 0.001 <= datetime.fromisoformat(row["ended_at"]).timestamp() < over_at
        events = server.items(f"/api/v1/sessions/{session}/events")
        assert sorted(event["sequence"] for event in events) == list(range(1, len(events) + 1))
        check_accepted(server, keys["comes"])
