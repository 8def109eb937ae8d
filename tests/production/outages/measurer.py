"""Streams that are measured all the time: `python -m tests.production.outages.measurer`, a process of its own.

What it is told and what it says are JSON, a line each. First it reads {"server", "pid", "app", "keys": {name: key},
"players"} and says {"ready": true} when every player has media. Then for each line "window" it tells what came since
the window before (see `Window`), and at the end of its input it ends its streams.

So that a late reading is the server's doing and not its own, it runs before all others where it may, it collects no
garbage, and it watches itself: a timer tells when its loop stood still, and that time is left out of a delay. So is
the time in which the node was ready to run and other programs had the processors, as the kernel counts it for each of
its threads (schedstat in /proc); and what a virtual machine's host took of them ("steal" in /proc/stat), whoever was
to run then. Sound is due when the node is to write it at last, video when it was sent.
"""

import asyncio
import gc
import json
import os
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import BinaryIO

import uvloop

from bench.load.client import Target, close_all
from bench.load.clip import synthetic
from bench.load.player import Player
from bench.load.publisher import Pacer, Publisher
from bench.load.reel import reel
from ingest.rtmp import events
from ingest.server.output import AUDIO_S

MBPS = 1.0
CHUNK_SIZE = 4096
NICE = -15
PULSE_S = 0.001
STALL_NS = 3_000_000
"""A pulse that comes later than this was held up. Delays up to this are not looked at."""
WAIT_NS = 500_000
"""Waits for a processor up to this, between two pulses, are left in the delays."""
LOOKED_AT_NS = 20_000_000
"""Delays over this are looked at one by one."""
LOOKED_AT = 200
"""Stalls and waits that are remembered: older ones are over for every message."""
HELD_NS = int(AUDIO_S * 1e9)
"""So long the node lets sound wait for a frame of video to go with."""
ARRIVED_S = 5.0
"""For what is on its way."""
SETTLE_S = 2.0
"""After the players have joined: what they get at first comes from the cache, and is as old as it is."""


@dataclass(slots=True)
class Window:
    """What happened since the window before, all streams and players together."""

    seconds: float = 0.0
    sent: int = 0
    received: int = 0
    waiting: int = 0
    """Messages of the window before that had not been read when this one began,"""
    left: int = 0
    """and of this one, when it ended: sent since it was asked for."""
    faults: list[str] = field(default_factory=list)
    """What was missing or out of order, and connections that ended."""
    late_ms: float = 0.0
    """The worst delay from when a message was due to reading, less what this process stood still of it, what the node
    waited for a processor, and what the host stole."""
    raw_ms: float = 0.0
    """The worst delay from sending to reading, with all of it."""
    stall_ms: float = 0.0
    """The longest that this process stood still."""
    waited_ms: float = 0.0
    """What the node's threads waited for a processor, all of them together."""
    stolen_ms: float = 0.0
    """What the host took, all processors together."""


class Host:
    """Knows when a virtual machine's host took the processors, as far as the kernel tells: in ticks, a little later."""

    EVERY_NS = 10_000_000
    TOLD_NS = 20_000_000
    """So much later than it happened a tick may be told."""

    def __init__(self) -> None:
        self.total_ns = 0
        self._file = open("/proc/stat", "rb", buffering=0)  # noqa: SIM115 - as long as the process.
        self._ns_a_tick = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        self._ticks = self._read()
        self._due = 0
        self._taken: deque[tuple[int, int]] = deque(maxlen=10_000)
        """When it was seen, and how much it was (both ns)."""

    def _read(self) -> int:
        self._file.seek(0)
        return int(self._file.read(256).split(b"\n", 1)[0].split()[8])

    def look(self, now: int) -> None:
        if now < self._due:
            return
        self._due = now + self.EVERY_NS
        ticks = self._read()
        if ticks > self._ticks:
            taken = (ticks - self._ticks) * self._ns_a_tick
            self._taken.append((now, taken))
            self.total_ns += taken
            self._ticks = ticks

    def stolen_ns(self, since: int, now: int) -> int:
        return sum(taken for at, taken in self._taken if since <= at <= now + self.TOLD_NS)


class Turns:
    """Knows when a process's threads were ready to run and had no processor. The kernel tells it as one gets it.

    All of them: while one that has Python's lock waits for a processor, the main thread waits for the lock, which the
    kernel does not count.
    """

    OTHERS_NS = 5_000_000
    """How often the threads besides the main one are looked at."""
    LIST_NS = 250_000_000
    """And how often it is looked which there are."""

    def __init__(self, pid: int) -> None:
        self.total_ns = 0
        self.waits: deque[tuple[int, int]] = deque(maxlen=LOOKED_AT)
        self._pid = pid
        self._files: dict[int, BinaryIO] = {}
        self._waited_ns: dict[int, int] = {}
        self._others_due = self._list_due = 0
        self._list()

    def _list(self) -> None:
        there = {int(name) for name in os.listdir(f"/proc/{self._pid}/task")}
        for thread in self._files.keys() - there:
            self._files.pop(thread).close()
        for thread in there - self._files.keys():
            with suppress(OSError):  # It may have ended.
                file = open(f"/proc/{self._pid}/task/{thread}/schedstat", "rb", buffering=0)  # noqa: SIM115
                self._files[thread] = file
                self._waited_ns[thread] = self._read(file)

    @staticmethod
    def _read(file: BinaryIO) -> int:
        file.seek(0)
        return int(file.read(64).split()[1])

    def look(self, now: int) -> None:
        self._look(self._pid, now)
        if now < self._others_due:
            return
        self._others_due = now + self.OTHERS_NS
        if now >= self._list_due:
            self._list_due = now + self.LIST_NS
            self._list()
        for thread in self._files.keys() - {self._pid}:
            with suppress(OSError):
                self._look(thread, now)

    def _look(self, thread: int, now: int) -> None:
        waited_ns = self._read(self._files[thread])
        took = waited_ns - self._waited_ns[thread]
        self._waited_ns[thread] = waited_ns
        self.total_ns += took
        if took > WAIT_NS:
            self.waits.append((now - took, now))


class Pulse:
    """Knows when this process's loop stood still, or the node had no processor."""

    def __init__(self, pid: int) -> None:
        self.worst_ns = 0
        self.host = Host()
        self.turns = Turns(pid)
        self._stalls: deque[tuple[int, int]] = deque(maxlen=LOOKED_AT)
        self._last = time.monotonic_ns()
        self._loop = asyncio.get_running_loop()
        self._beat()

    def _beat(self) -> None:
        now = time.monotonic_ns()
        if now - self._last > STALL_NS:
            self._stalls.append((self._last, now))
            self.worst_ns = max(self.worst_ns, now - self._last)
        self._last = now
        self.host.look(now)
        self.turns.look(now)
        self._loop.call_later(PULSE_S, self._beat)

    def stood_ns(self, since: int, now: int) -> int:
        """How long of the time it stood still, or the node waited for a processor."""
        self.turns.look(now)
        spans = [*self._stalls, *self.turns.waits]
        if now - self._last > STALL_NS:
            spans.append((self._last, now))
        stood, counted = 0, since
        for begin, end in sorted(spans):
            stood += max(0, min(end, now) - max(begin, counted))
            counted = max(counted, end)
        return stood


class Watcher(Player):
    """A player that keeps what it misses, and how late each message is."""

    pulse: Pulse
    who = ""
    received_count = 0

    def watch(self, who: str, pulse: Pulse, faults: list[str]) -> None:
        self.who = who
        self.pulse = pulse
        self.faults = faults
        self.late_ns: list[int] = []
        self.late: list[tuple[int, int, int]] = []
        """Of each message that was over LOOKED_AT_NS late: how late, when it was due and when it was read (ns)."""
        self.is_measuring = True

    @property
    def place(self) -> int:
        """In its publisher's log, of the last message that it read."""
        return -1 if self._last is None else self._last

    @property
    def unread(self) -> int:
        """How many messages its publisher has sent since the last that it read."""
        assert self.log is not None
        return len(self.log) - 1 - self._last if self._last is not None else 0

    def _stamped(self, event: events.Event, stamp: int, now: int, log: dict[int, int]) -> None:
        place, last = log[stamp], self._last
        if last is not None and place != last + 1:
            self.faults.append(f"{self.who}: {place} after {last}")
        self._last = place
        self.delays_ns.append(now - stamp)
        due = stamp + HELD_NS if isinstance(event, events.AudioReceived) else stamp
        late = max(0, now - due)
        if late > STALL_NS:
            late -= self.pulse.stood_ns(due, now)
        self.late_ns.append(late)
        if late > LOOKED_AT_NS:
            self.late.append((late, due, now))


class Streams:
    """Publishers with their players, and the window."""

    def __init__(self) -> None:
        self.publishers: dict[str, Publisher] = {}
        self.players: list[Watcher] = []
        self.faults: list[str] = []
        self._began = time.monotonic()
        self._sent = self._waiting = 0

    async def start(self, server: str, pid: int, app: str, keys: dict[str, str], players: int) -> None:
        self.pulse = Pulse(pid)
        target = Target.of(server, app)
        for name, key in keys.items():
            publisher = await Publisher.open(target, CHUNK_SIZE)
            await publisher.begin(key)
            publisher.log = {}
            self.publishers[name] = publisher
        first = next(iter(self.publishers.values()))
        self._pacer = Pacer(self.publishers.values(), reel(synthetic(MBPS), CHUNK_SIZE, first.stream_id))
        for name, publisher in self.publishers.items():
            for number in range(players):
                player = await Watcher.open(target, publisher.log)
                player.watch(f"player {number} of {name}", self.pulse, self.faults)
                await player.play(name)
                self.players.append(player)
        await asyncio.sleep(SETTLE_S)
        gc.collect()
        gc.disable()
        self.window()

    def window(self) -> Window:
        now = time.monotonic()
        lost = {name: publisher.lost for name, publisher in self.publishers.items()}
        lost |= {player.who: player.lost for player in self.players}
        self.faults += [f"{who}: {why}" for who, why in lost.items() if why]
        raw = [delay for player in self.players for delay in player.delays_ns]
        late = [min(LOOKED_AT_NS, late) for player in self.players for late in player.late_ns]
        late += [
            delay - self.pulse.host.stolen_ns(since, at) for player in self.players for delay, since, at in player.late
        ]
        sent = sum(publisher.messages for publisher in self.publishers.values())
        left = sum(player.unread for player in self.players)
        found = Window(
            seconds=round(now - self._began, 2),
            sent=sent - self._sent,
            received=len(raw),
            waiting=self._waiting,
            left=left,
            faults=self.faults[:20],
            late_ms=_ms(max(late, default=0)),
            raw_ms=_ms(max(raw, default=0)),
            stall_ms=_ms(self.pulse.worst_ns),
            waited_ms=_ms(self.pulse.turns.total_ns),
            stolen_ms=_ms(self.pulse.host.total_ns),
        )
        self._began, self._sent = now, sent
        self._waiting = left
        self.pulse.worst_ns = self.pulse.host.total_ns = self.pulse.turns.total_ns = 0
        self.faults.clear()
        for player in self.players:
            player.delays_ns.clear()
            player.late_ns.clear()
            player.late.clear()
        return found

    async def arrive(self) -> None:
        """Until what was sent before has been read: how late it was is measured, and none of it may be lost."""
        on_their_way = {player: player.place + player.unread for player in self.players}
        try:
            async with asyncio.timeout(ARRIVED_S):
                while any(player.place < place for player, place in on_their_way.items()):  # noqa: ASYNC110 - so is it.
                    await asyncio.sleep(0.01)
        except TimeoutError:
            self.faults += [f"{player.who}: {player.unread} did not come" for player in self.players if player.unread]

    async def stop(self) -> dict[str, int]:
        """Ends all; {stream: messages that were sent, with the two headers}."""
        self._pacer.stop()
        await self.arrive()
        await close_all([*self.players, *self.publishers.values()])
        return {name: publisher.messages for name, publisher in self.publishers.items()}


def _ms(ns: int) -> float:
    return round(ns / 1e6, 1)


def hurry() -> None:
    """Before all other processes, if this one may."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


async def main() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    streams = Streams()
    await streams.start(**json.loads(await reader.readline()))
    _say({"ready": True})
    while await reader.readline():
        await streams.arrive()
        _say(asdict(streams.window()))
    _say(await streams.stop())


def _say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    hurry()
    uvloop.run(main())
