"""Thirty publishers that reconnect at random, and end in every way, leave one live session each, and nothing else.

It measures answers: one that a busy machine keeps for 2 s is a refusal. Of others there may be few.
"""

import asyncio
import itertools
import math
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ingest.telemetry.spool import request_flush
from tests import loops
from tests.rtmp_client import Refused, RtmpClient
from tests.rtmpweb.processes import Held, held
from tests.server.media import AVC_HEADER, inter_frame, key_frame
from tests.server_process import ServerProcess, running, wait_for

pytestmark = [
    pytest.mark.production,
    pytest.mark.measures_time,
    pytest.mark.timeout(240),  # A first start alone may take two minutes, and publishers have STAY_S to come together.
]

PUBLISHERS = 30
ENDS = ("fin", "reset", "killed", "silent", "deleted", "unpublished")
LONGEST_S = 4.0
"""Of a life."""
RETRY_S = 1.0
"""What the least patient encoders wait after a refusal."""
SLOW_S = 1.3
"""A refusal that took longer was the machine's doing: the database has 1.5 s for a statement, a decision 2 s in all."""
STAY_S = 60.0
"""Until each publisher has begun its last life."""
FPS = 10
SETTLED_LIVES = 2 * PUBLISHERS
"""Until all that is kept for clients is there: buffers, connections to the database, threads that ask it."""
MORE_THREADS, MORE_FILES = 8, 8
"""Than at another time: those that ask the database, and answer HTTP, come as they are needed, up to a bound."""
MOST_LINES = 200
"""Of the log, from its first fault on, that a failure shows."""
GROWTH_KIB = 24 * 1024
"""By which the server's memory may differ between two times: what Python and malloc keep to themselves."""

OPEN = "SELECT name, id FROM ingest_session WHERE ended_at IS NULL AND kind = 'publish'"
HELD = "SELECT session_id FROM ingest_lease WHERE session_id IS NOT NULL"
ORPHANS = (
    "SELECT session_id FROM ingest_lease JOIN ingest_session ON ingest_session.id = session_id "
    "WHERE ended_at IS NOT NULL"
)
ENDED_TWICE = (
    "SELECT session_id FROM ingest_statusevent WHERE kind = 'session.ended' GROUP BY session_id HAVING count(*) > 1"
)


@dataclass
class Publisher:
    """One stream's encoder. The dead that it leaves are kept: they vanished without a word."""

    port: int
    key: str
    random: random.Random
    ends: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    slow: int = 0
    """How many of the refusals took over SLOW_S."""
    dead: list[RtmpClient] = field(default_factory=list)
    stays: bool = False
    """Whether it lives its last life."""
    until: float = math.inf
    """When that is to begin (the loop's time)."""

    async def run(self, over: asyncio.Event) -> None:
        """Lives and ends, at least once, until `until`. Is live in the end, until it is over."""
        loop = asyncio.get_running_loop()
        while True:
            client = RtmpClient(port=self.port, timeout_s=20)
            await client.open()
            asked_at = loop.time()
            try:
                await client.connect("live")
                asked_at = loop.time()
                stream_id = await client.publish(self.key)
            except Refused as refused:
                self.refused.append(str(refused))
                self.slow += loop.time() - asked_at > SLOW_S
                await client.close()
                await asyncio.sleep(RETRY_S)
                continue
            ends_at = loop.time() + self.random.uniform(0, LONGEST_S)
            is_last = self.stays = bool(self.ends) and ends_at >= self.until
            await self._send(client, stream_id, over if is_last else None, ends_at)
            if is_last:
                await client.delete_stream(stream_id)
                await client.close()
                for dead in self.dead:
                    await dead.close()
                return
            end = self.random.choice(ENDS)
            self.ends[end] += 1
            await self._end(client, stream_id, end)

    async def _send(self, client: RtmpClient, stream_id: int, over: asyncio.Event | None, ends_at: float) -> None:
        loop = asyncio.get_running_loop()
        await client.send_video(stream_id, 0, AVC_HEADER)
        for number in itertools.count():
            if over.is_set() if over else loop.time() >= ends_at:
                return
            await client.send_video(stream_id, number * 1000 // FPS, inter_frame(1) if number % FPS else key_frame(0))
            await asyncio.sleep(1 / FPS)

    async def _end(self, client: RtmpClient, stream_id: int, end: str) -> None:
        if end == "silent":
            self.dead.append(client)
            return
        if end == "reset":
            client.abort()
        elif end == "killed":  # In the midst of a message.
            client.protocol.send_video(stream_id, 0, key_frame(0, 4000))
            client._writer.write(client.protocol.data_to_send()[:1000])
        elif end in ("deleted", "unpublished"):
            client.protocol.call("FCUnpublish", self.key)
            if end == "deleted":
                client.protocol.delete_stream(stream_id)
            await client.flush()
        await client.close()


def is_fault(line: str) -> bool:
    """Of the log. What the watch asked and got no answer to in time it waited for on a busy machine."""
    is_late = "ERROR dashboard.system.probes:" in line and "no answer in time" in line
    return ("ERROR" in line or "Traceback" in line) and not is_late


def reconnect(folder: Path, seconds: float, seed: int) -> Counter[str]:
    """Runs all of it and looks at what is left; how often publishers ended in which way."""
    with running(folder) as server:
        names = [f"cam{number:02}" for number in range(PUBLISHERS)]
        keys = server.create_keys(f"live/{name}" for name in names)
        port = int(server.rtmp.rpartition(":")[2])
        publishers = [Publisher(port, keys[f"live/{name}"]["key"], random.Random(f"{seed} {name}")) for name in names]
        settled = loops.run(_run(server, publishers, names, seconds))
        wait_for(lambda: not server.rows(OPEN) and not server.rows(HELD), timeout_s=20, what="all sessions ended")
        assert server.rows(ENDED_TWICE) == []
        assert server.rows("SELECT id FROM ingest_session WHERE end_reason = ''") == []
        most = settled.files - PUBLISHERS + MORE_FILES
        wait_for(lambda: held(server.process.pid).files <= most, timeout_s=20, what=f"at most {most} files are open")
        refused = Counter(text for publisher in publishers for text in publisher.refused)
        # A database that a busy machine keeps waiting refuses for a moment; these an encoder would take as final.
        assert not [text for text in refused if "BadName" in text or "Denied" in text], refused
        slow = sum(publisher.slow for publisher in publishers)
        assert refused.total() - slow < PUBLISHERS, (refused, slow)
        assert slow < 3 * PUBLISHERS, (refused, slow)
        faults = [at for at, line in enumerate(server.lines) if is_fault(line)]
        shown = "\n".join(server.lines[faults[0] :][:MOST_LINES]) if faults else ""
        assert not faults, f"the server's log has {len(faults)} faults, from the first on:\n{shown}"
        return sum((publisher.ends for publisher in publishers), Counter())


async def _run(server: ServerProcess, publishers: list[Publisher], names: list[str], seconds: float) -> Held:
    """What the server held when all had come."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    until = loop.time() + seconds
    tasks = [asyncio.create_task(publisher.run(over)) for publisher in publishers]
    while sum(publisher.ends.total() for publisher in publishers) < SETTLED_LIVES:
        failed, _ = await asyncio.wait(tasks, timeout=0.1)
        assert not failed, failed
    # The first Parquet file of a process brings Arrow's buffers and threads, which stay.
    assert await asyncio.to_thread(request_flush, server.folder / "lake", wait_s=20)
    await asyncio.to_thread(server.items, "/api/v1/streams")
    settled = held(server.process.pid)
    until = max(until, loop.time() + seconds / 2)
    for publisher in publishers:
        publisher.until = until
    try:
        async with asyncio.timeout(until - loop.time() + STAY_S):
            while not all(publisher.stays for publisher in publishers):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await asyncio.to_thread(_look, server, names, settled)
    finally:
        over.set()
        await asyncio.gather(*tasks)
    return settled


def _look(server: ServerProcess, names: list[str], settled: Held) -> None:
    """Each publishes once: by the database, the API and the node."""
    wait_for(lambda: sorted(name for name, _ in server.rows(OPEN)) == names, timeout_s=20, what="one session of each")
    wait_for(lambda: len(server.rows(HELD)) == PUBLISHERS, timeout_s=20, what="one lease of each")
    assert server.rows(ORPHANS) == []

    def agree() -> bool:
        streams = server.items("/api/v1/streams?limit=100")
        live = [(each["name"], each["session_id"].replace("-", "")) for each in streams if each["state"] == "live"]
        return len(live) == PUBLISHERS and sorted(live) == sorted(server.rows(OPEN))

    wait_for(agree, timeout_s=20, what="all are live, and the database and the API have the same sessions")
    now = held(server.process.pid)
    assert now.memory_kib < settled.memory_kib + GROWTH_KIB, (settled, now)
    assert now.threads <= settled.threads + MORE_THREADS, (settled, now)


SECONDS = 14
"""Some two hundred lives; the latter half of them after what the server holds was looked at first."""


def test_reconnecting_leaves_one_session_each(tmp_path: Path) -> None:
    ends = reconnect(tmp_path, SECONDS, seed=0)
    assert set(ends) == set(ENDS)
