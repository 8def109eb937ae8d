"""A media node is killed (`kill -9`) at random moments while it streams, and started again: it leaves nothing that its
next start does not put right.

The node is a real process with SQLite and memory: the form in which nothing outside keeps anything for it. KILLS_SEED
in the environment repeats a run's moments. `make soak` kills 500 times.
"""

import asyncio
import contextlib
import itertools
import os
import random
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ingest.telemetry.spool import SUFFIX, spool_folder
from tests import loops
from tests.production.broadcast import FPS, frame
from tests.production.parts import MediaNode
from tests.rtmp_client import Refused, RtmpClient
from tests.rtmpweb.processes import waited_s
from tests.server.media import AVC_HEADER
from tests.server_process import Installation, wait_for

pytestmark = [
    pytest.mark.production,
    pytest.mark.timeout(300),
]

STREAMS = ("one", "two", "three")
LONGEST_S = 6.0
"""A node lives so long at most, from the moment that it listens; see LOOKED_AT_S."""


def lives(kills: int, seed: int) -> list[float]:
    """Random lengths, in s, in random order; each in a part of LONGEST_S of its own, so that few differ as many do."""
    of_seed = random.Random(seed)
    lengths = [(number + of_seed.random()) * LONGEST_S / kills for number in range(kills)]
    of_seed.shuffle(lengths)
    return lengths


KEPT_UNTIL_S = 2.0
"""Telemetry that was older than this at the kill is kept."""
SAMPLE_S = 1.2
"""Between two samples, on a loaded machine."""
LOOKED_AT_S = KEPT_UNTIL_S + SAMPLE_S
"""Telemetry is looked for of sessions that lived longer. In a life that is longer its length counts from when all
publish, so there are some.
"""

RECOVERED_S = 10.0
ACCEPTED_S = 30.0

UNENDED = "SELECT count(*) FROM ingest_session WHERE ended_at IS NULL AND started_at < ?"
HELD = (
    "SELECT count(*) FROM ingest_lease JOIN ingest_session ON ingest_session.id = ingest_lease.session_id "
    "WHERE ingest_session.started_at < ?"
)
PUBLISHED = (
    "SELECT id, started_at, end_reason FROM ingest_session WHERE kind = 'publish' AND started_at BETWEEN ? AND ?"
)


def prepare(folder: Path) -> dict[str, Any]:
    """A data folder with its database and a key for each stream, to be copied for each node; the keys."""
    installation = Installation(folder)
    installation.put_tables()
    installation.manage("application", "set", "live")
    return {name: installation.create_key(f"live/{name}")["key"] for name in STREAMS}


def moment(at: float) -> str:
    """As SQLite keeps it."""
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None).isoformat(" ", "microseconds")


@dataclass
class Life:
    """From when clients may come to the node's kill; seconds since the epoch."""

    began: float
    killed: float
    waited_s: float
    """For processors: what was told or written may be so much older."""


class KilledNode:
    def __init__(self, prepared: Path, folder: Path, keys: Mapping[str, str]) -> None:
        self.data = folder / "data"
        shutil.copytree(prepared, self.data)
        self.installation = Installation(self.data, RTMPWEB_LOG_LEVEL="WARNING")
        self.node = MediaNode("killed", folder, self.installation.environment)
        self.lake = self.data / "lake"
        self.keys = keys
        self.accepted: set[str] = set()
        """The keys that have published in this life."""
        self.checked = 0
        """Sessions that lived long enough to have telemetry that must be kept."""

    def run(self, lives: Iterable[float]) -> None:
        """`lives`: how long each is, in s. Raises AssertionError for whatever was left behind."""
        try:
            self.node.start()
            for length_s in lives:
                life = loops.run(self._live(length_s))
                self.node.start()
                self._check(life)
            assert self.node.stop() == 0
            left = [path.name for path in self.data.rglob("*") if path.suffix in {".tmp", ".bad", SUFFIX}]
            assert not left, f"left behind: {left}"
        finally:
            self.node.kill()

    # --- A life ---

    async def _live(self, length_s: float) -> Life:
        began, waited_before_s = time.time(), waited_s(self.node.pid)

        def waited() -> float:
            return waited_s(self.node.pid) - waited_before_s

        self.accepted.clear()
        visits = [partial(self._publish, key) for key in self.keys.values()]
        visits += [partial(self._play, name) for name in self.keys]
        guests = [asyncio.create_task(self._again(visit)) for visit in visits]
        if length_s > LOOKED_AT_S:
            async with asyncio.timeout(ACCEPTED_S):
                while len(self.accepted) < len(self.keys):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        ends_at = time.monotonic() + length_s  # The moment of the kill is what is random.
        while (left_s := ends_at + waited() - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(left_s, 0.1))
        life = Life(began, time.time(), waited())
        await asyncio.to_thread(self.node.kill)
        for guest in guests:
            guest.cancel()
        await asyncio.gather(*guests, return_exceptions=True)
        return life

    async def _again(self, visit: Callable[[RtmpClient], Awaitable[None]]) -> None:
        """Comes back whenever it is refused or cut off, as encoders and players do."""
        while True:
            client = RtmpClient(port=self.node.port)
            try:
                with contextlib.suppress(Refused, OSError, TimeoutError):
                    await client.open()
                    await client.connect("live")
                    await visit(client)
            finally:
                await client.close()
            await asyncio.sleep(0.1)

    async def _publish(self, key: str, client: RtmpClient) -> None:
        stream_id = await client.publish(key)
        self.accepted.add(key)
        await client.send_video(stream_id, 0, AVC_HEADER)
        for number in itertools.count():
            await client.send_video(stream_id, number * 1000 // FPS, frame(number))
            await asyncio.sleep(1 / FPS)

    async def _play(self, name: str, client: RtmpClient) -> None:
        await client.play(name)
        await client.wait_closed(2 * LONGEST_S)

    # --- After it ---

    def _check(self, life: Life) -> None:
        """The node runs again."""
        lived = moment(life.began), moment(life.killed)
        for query, what in ((UNENDED, "every session is ended"), (HELD, "no lease is held")):
            wait_for(partial(self._is_none, query, lived[1]), timeout_s=RECOVERED_S, what=what)
        wait_for(lambda: not self._spools(), timeout_s=RECOVERED_S, what="the spools are recovered")
        for session, started_at, reason in self.installation.rows(PUBLISHED, *lived):
            assert reason == "node_lost", (session, reason)
            began = datetime.fromisoformat(started_at).replace(tzinfo=UTC).timestamp()
            if life.killed - began > LOOKED_AT_S + life.waited_s:
                self._check_samples(session, began, life)

    def _check_samples(self, session: str, began: float, life: Life) -> None:
        killed, samples = life.killed, f"read_parquet('{self.lake}/samples/v=1/*/*/*.parquet', union_by_name = true)"
        query = (
            "SELECT DISTINCT sequence, at_us, video_bytes + audio_bytes + data_bytes, video_frames "  # noqa: S608
            f"FROM {samples} WHERE replace(session, '-', '') = ? ORDER BY sequence"
        )
        with duckdb.connect() as own:  # Each node has a thread, and the module's connection serves one at a time.
            rows = own.execute(query, [session.replace("-", "")]).fetchall()
        assert rows, f"{session} lived {killed - began:.1f} s and has no sample"
        numbers, _, sizes, frames = zip(*rows, strict=True)
        assert list(numbers) == list(range(numbers[0], numbers[0] + len(rows))), f"{session}: samples {numbers}"
        late_s, lacking_s = rows[0][1] / 1e6 - began, killed - rows[-1][1] / 1e6
        assert late_s <= 2 * SAMPLE_S + life.waited_s, f"{session}: the first sample is {late_s:.1f} s after the begin"
        assert lacking_s <= LOOKED_AT_S + life.waited_s, f"{session}: no sample of the last {lacking_s:.1f} s"
        totals, counted = "SELECT bytes_in, video_frames FROM ingest_session WHERE id = ?", [(sum(sizes), sum(frames))]

        def is_counted() -> bool:
            return self.installation.rows(totals, session) == counted

        wait_for(is_counted, timeout_s=RECOVERED_S, what=f"{session} has what it counted")
        self.checked += 1

    def _is_none(self, query: str, until: str) -> bool:
        return self.installation.rows(query, until) == [(0,)]

    def _spools(self) -> list[Path]:
        """Those of a former life."""
        found = []
        for path in spool_folder(self.lake).glob(f"*{SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):  # It was recovered just now.
                if path.stat().st_mtime < self.node.started_at:
                    found.append(path)
        return found


def kill_nodes(folder: Path, kills: int, nodes: int) -> None:
    """So many of all nodes together, which run at once."""
    seed = int(os.environ.get("KILLS_SEED") or random.randrange(1 << 32))
    keys = prepare(folder / "prepared")
    made = []
    for number in range(nodes):
        (own := folder / f"node-{number}").mkdir()
        made.append(KilledNode(folder / "prepared", own, keys))
    lengths = lives(kills, seed)
    try:
        with ThreadPoolExecutor(nodes) as threads:
            each = [threads.submit(node.run, lengths[number::nodes]) for number, node in enumerate(made)]
            for done in each:
                done.result()
        assert sum(node.checked for node in made) >= nodes, "some lived long enough to be looked at"
    except AssertionError as fault:
        raise AssertionError(f"KILLS_SEED={seed}: {fault}") from fault


def test_four_kills_leave_nothing_behind(tmp_path: Path) -> None:
    kill_nodes(tmp_path, kills=4, nodes=2)
