"""Streams that go on while a test takes parts away, measured all the time.

A process of its own publishes and plays them (`python -m tests.production.outages.steady`). It reads lines of JSON:
first the streams, then "window" again and again, and it answers with the measurements since the window before. At the
end of its input it ends the streams.

A late message must be the server's fault. So the process runs before all others, if it may, and collects no garbage. It
subtracts the time for which its own loop stood still, for which the node's threads waited for a processor (schedstat),
and which a virtual machine's host took ("steal" in /proc/stat).
"""

import asyncio
import gc
import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import uvloop

from bench.load.client import Target, close_all
from bench.load.clip import synthetic
from bench.load.player import Player
from bench.load.publisher import Pacer, Publisher
from bench.load.reel import reel
from ingest.rtmp import events
from ingest.server.output import AUDIO_S
from tests.background import Dialog
from tests.production.parts import MediaNode

LATE_MS = 50.0
"""Holds if the measuring process may run before all others: as root, or with CAP_SYS_NICE."""
PLAYERS = 2
MESSAGES_S = 73
"""Messages of a stream per second: 30 of video, 43 of audio."""

# --- In the process ---

CHUNK_SIZE = 4096
PULSE_S = 0.001
STALL_NS = 3_000_000
"""A pulse that is later than this was held up."""
WAIT_NS = 500_000
"""Shorter waits for a processor between two looks stay in the delays."""
LOOKED_AT_NS = 20_000_000
"""We look at each message that is later than this."""
ALL_NS = 10_000_000
"""Interval at which we look at the host and at all threads: one that has Python's lock makes the main thread wait."""
STEAL_NS = 20_000_000
"""The kernel may count a stolen tick this much later."""
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
HELD_NS = int(AUDIO_S * 1e9)
"""The node may keep audio this long, until it can go with a frame of video."""
ARRIVED_S = 5.0
SETTLE_S = 2.0
"""After the players have joined: their first messages come from the cache, and are old."""


class Excuses:
    """Spans of time for which messages may be late without the server's fault. All times are monotonic, in ns."""

    def __init__(self, pid: int) -> None:
        self.stall_ns = self.waited_ns = self.stolen_ns = 0
        """Since the last window: this process's longest stall, all waits of the node's threads, all steal."""
        self._node = Path(f"/proc/{pid}/task")
        self._main = str(pid)
        self._seen: dict[str, int] = {}
        self._spans: deque[tuple[int, int]] = deque(maxlen=200)
        """Begin and end of stalls and waits."""
        self._stolen: deque[tuple[int, int]] = deque(maxlen=10_000)
        """Time at which we saw it, and amount."""
        self._last, self._all_due = time.monotonic_ns(), 0
        self._loop = asyncio.get_running_loop()
        self._beat()

    def _beat(self) -> None:
        now = time.monotonic_ns()
        if now - self._last > STALL_NS:
            self._spans.append((self._last, now))
            self.stall_ns = max(self.stall_ns, now - self._last)
        self._last = now
        self._look(now)
        self._loop.call_later(PULSE_S, self._beat)

    def _look(self, now: int) -> None:
        threads = [self._main]
        if now >= self._all_due:
            self._all_due = now + ALL_NS
            threads = os.listdir(self._node)
            if stolen := self._growth("steal", _number("/proc/stat", 8) * TICK_NS):
                self._stolen.append((now, stolen))
                self.stolen_ns += stolen
        for thread in threads:
            with suppress(OSError):  # It may have ended.
                waited = self._growth(thread, _number(f"{self._node}/{thread}/schedstat", 1))
                self.waited_ns += waited
                if waited > WAIT_NS:
                    self._spans.append((now - waited, now))

    def _growth(self, name: str, value: int) -> int:
        former, self._seen[name] = self._seen.get(name, value), value
        return value - former

    def count_ns(self, since: int, now: int) -> int:
        """Length of the stalls and waits in this time. Spans that overlap count once."""
        self._look(now)
        stood, counted = 0, since
        for begin, end in sorted([*self._spans, (self._last, now)] if now - self._last > STALL_NS else self._spans):
            stood += max(0, min(end, now) - max(begin, counted))
            counted = max(counted, end)
        return stood

    def count_stolen_ns(self, since: int, now: int) -> int:
        return sum(stolen for at, stolen in self._stolen if since <= at <= now + STEAL_NS)


def _number(file: str, place: int) -> int:
    with open(file, "rb", buffering=0) as read:
        return int(read.read(256).split()[place])


class Watcher(Player):
    """A player that notes missing messages in `faults`, and late ones."""

    def watch(self, who: str, excuses: Excuses, faults: list[str]) -> None:
        self.who, self.excuses, self.faults = who, excuses, faults
        self.count = 0
        self.late: list[tuple[int, int, int]] = []
        """How late without stalls and waits, when due, when read (all ns)."""
        self.is_measuring = True

    @property
    def unread(self) -> int:
        """Number of messages that its publisher has sent since the last one that it read."""
        assert self.log is not None
        return len(self.log) - 1 - self._last

    def _stamped(self, event: events.Event, stamp: int, now: int, log: dict[int, int]) -> None:
        place, last = log[stamp], self._last
        if place != last + 1:
            self.faults.append(f"{self.who}: {place} after {last}")
        self._last = place
        self.count += 1
        due = stamp + HELD_NS if isinstance(event, events.AudioReceived) else stamp
        if now - due > LOOKED_AT_NS:
            self.late.append((now - due - self.excuses.count_ns(due, now), due, now))


class Streams:
    """The publishers and their players."""

    def __init__(self) -> None:
        self.publishers: dict[str, Publisher] = {}
        self.players: list[Watcher] = []
        self.faults: list[str] = []
        self._began, self._sent, self._waiting = time.monotonic(), 0, 0

    async def start(self, server: str, pid: int, keys: dict[str, str]) -> None:
        self.excuses = Excuses(pid)
        target = Target.of(server, "live")
        for name, key in keys.items():
            publisher = self.publishers[name] = await Publisher.open(target, CHUNK_SIZE)
            await publisher.begin(key)
            publisher.log = {}
        first = next(iter(self.publishers.values()))
        self._pacer = Pacer(self.publishers.values(), reel(synthetic(mbps=1.0), CHUNK_SIZE, first.stream_id))
        for name, publisher in self.publishers.items():
            for number in range(PLAYERS):
                player = await Watcher.open(target, publisher.log)
                player.watch(f"player {number} of {name}", self.excuses, self.faults)
                await player.play(name)
                self.players.append(player)
        await asyncio.sleep(SETTLE_S)
        gc.collect()
        gc.disable()
        self.window()

    def window(self) -> dict[str, Any]:
        """Return the sums over all streams and players since the window before.

        `waiting` and `left` are messages that were sent and not yet read when it began and ended. `late_ms` is the
        worst delay without excuses, 0 if no message was over LOOKED_AT_NS late.
        """
        now, excuses = time.monotonic(), self.excuses
        lost = {name: publisher.lost for name, publisher in self.publishers.items()}
        lost |= {player.who: player.lost for player in self.players}
        self.faults += [f"{who}: {why}" for who, why in lost.items() if why]
        late = [late - excuses.count_stolen_ns(due, at) for player in self.players for late, due, at in player.late]
        sent = sum(publisher.messages for publisher in self.publishers.values())
        left = sum(player.unread for player in self.players)
        found = {
            "seconds": round(now - self._began, 2),
            "sent": sent - self._sent,
            "received": sum(player.count for player in self.players),
            "waiting": self._waiting,
            "left": left,
            "faults": self.faults[:20],
            "late_ms": max(late, default=0) / 1e6,
            "stall_ms": excuses.stall_ns / 1e6,
            "waited_ms": excuses.waited_ns / 1e6,
            "stolen_ms": excuses.stolen_ns / 1e6,
        }
        self._began, self._sent, self._waiting = now, sent, left
        excuses.stall_ns = excuses.waited_ns = excuses.stolen_ns = 0
        self.faults.clear()
        for player in self.players:
            player.count = 0
            player.late.clear()
        return found

    async def arrive(self) -> None:
        """Wait until the players have read what was sent before: none of it may be lost, and its delay counts."""
        sent = {player: player.count + player.unread for player in self.players}
        try:
            async with asyncio.timeout(ARRIVED_S):
                while any(player.count < count for player, count in sent.items()):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        except TimeoutError:
            self.faults += [f"{player.who}: {player.unread} did not come" for player in self.players if player.unread]

    async def stop(self) -> dict[str, int]:
        self._pacer.stop()
        await self.arrive()
        await close_all([*self.players, *self.publishers.values()])
        return {name: publisher.messages for name, publisher in self.publishers.items()}


async def main() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    streams = Streams()
    await streams.start(**json.loads(await reader.readline()))
    _say("ready")
    while await reader.readline():
        await streams.arrive()
        _say(streams.window())
    _say(await streams.stop())


def _say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


# --- In the tests ---


class Steady(Dialog):
    """One publisher to `node` for each key of `live`, each with PLAYERS players, until `stop`."""

    def __init__(self, node: MediaNode, keys: Mapping[str, Mapping[str, Any]]) -> None:
        """`keys` has the output of `streamkey create` for each stream's name."""
        super().__init__("-m", "tests.production.outages.steady")
        self.names = list(keys)
        secrets = {name: key["key"] for name, key in keys.items()}
        self._order = {"server": node.url, "pid": node.pid, "keys": secrets}
        self.measured: list[dict[str, Any]] = []
        """The window of each outage, with its begin and end in microseconds since the epoch."""

    def __enter__(self) -> Self:
        self.ask(json.dumps(self._order))
        return self

    def stop(self) -> dict[str, int]:
        """End the streams; return the number of messages of each, which includes the two headers."""
        self.stdin.close()
        sent: dict[str, int] = json.loads(self.read())
        return sent

    def window(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ask("window"))
        return found

    @contextmanager
    def undisturbed(self, what: str) -> Iterator[None]:
        """Fail if a message is lost or late in this block."""
        self.window()
        began = time.time()
        yield
        found = self.window()
        self.measured.append({"what": what, "began_us": began * 1e6, "over_us": time.time() * 1e6, **found})
        streams = len(self.names)
        assert not found["faults"], found
        assert found["sent"] >= 0.98 * MESSAGES_S * streams * found["seconds"], found
        assert found["received"] == PLAYERS * found["sent"] + found["waiting"] - found["left"], found
        assert found["late_ms"] <= LATE_MS, found


if __name__ == "__main__":
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -15)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    uvloop.run(main())
