"""What open walls cost: N publishers and M dashboards on the whole server, and how late its event loop gets.

The publishers send little (ten pictures and ten sounds a second), so that one machine carries hundreds, but each at its
own rate, so that every stream's figures change each second. With `--trouble` their metadata promise thirty pictures:
then each stream has an open issue, whose words change too.
"""

import argparse
import asyncio
import contextlib
import random
import sys
import time
from collections.abc import Iterator

import uvloop

from bench.load.client import Refused, Target
from bench.load.clip import AAC_HEADER, AVC_HEADER, Clip, Media
from bench.load.dashboard import Dashboard
from bench.load.publisher import METADATA
from bench.load.run import Load, Window, run
from bench.measure import Figures, on_generators_core, percentile, pinned
from bench.peers import Server, Start, rtmpweb
from bench.process import usage
from ingest.rtmp import MessageType

FPS = 10
SECONDS = 20
PICTURE_BYTES = 1500
SOUND_BYTES = 160
STREAMS, WALLS, WINDOW_S = 300, 10, 30.0
PLAYERS = 4
"""Of the first stream: they tell how late its messages are."""

LATE_MS = 20.0
"""The bound of the event loop's delay, for 99 of 100 seconds,"""
MOST_KB_S = 60.0
"""and of what a dashboard is sent, in kB/s."""

SESSION = """
from django.contrib.auth.models import User
from django.test import Client
client = Client()
client.force_login(User.objects.create_superuser("bench"))
print(client.cookies["sessionid"].value)
"""


def add_arguments(act: argparse.ArgumentParser) -> None:
    act.add_argument("--publishers", type=int, default=300)
    act.add_argument("--dashboards", type=int, default=10)
    act.add_argument("--seconds", type=float, default=60)
    act.add_argument("--form", choices=("embedded", "production"), default="embedded")
    act.add_argument("--trouble", action="store_true", help="every stream has an open issue")
    act.set_defaults(run=dashboards)


def dashboards(options: argparse.Namespace) -> int:
    with _server(options.form) as (server, cookie):
        load = Load(
            *(Target.of(server.url, server.app), light(), options.publishers),
            players=PLAYERS,
            readers=PLAYERS,
            seconds=options.seconds,
            metadata=METADATA | {"framerate": 30 if options.trouble else FPS},
        )
        walls = Walls(server, cookie, options.dashboards)
        window = uvloop.run(walls.through(load))
    faults = walls.faults() + [f"{count} of the load's connections: {error}" for error, count in _errors(window)]
    print(walls.report(load, window))
    for fault in faults:
        print(f"FAILED: {fault}")
    return 1 if faults else 0


@contextlib.contextmanager
def _server(form: str) -> Iterator[tuple[Server, str]]:
    with contextlib.closing(rtmpweb.Template()) as template, rtmpweb.running(form, template) as server:
        yield server, _cookie(server)


def _cookie(server: Server) -> str:
    """Of somebody who may see all of it."""
    assert server.installation is not None
    key = server.installation.manage("shell", "--no-imports", "-c", SESSION).strip().splitlines()[-1]
    return f"sessionid={key}"


def measure(start: Start, seconds: float) -> Figures:
    """A `Measure`: STREAMS streams, WALLS open walls, and as many players of the first stream as there are streams."""
    with pinned(start) as server, on_generators_core(server):
        walls = Walls(server, _cookie(server), WALLS)
        target = Target.of(server.url, server.app)
        load = Load(target, light(), STREAMS, players=STREAMS, readers=PLAYERS, seconds=max(seconds, WINDOW_S))
        window = uvloop.run(walls.through(load))
    for error, count in _errors(window):
        print(f"{count} connections: {error}", file=sys.stderr)
    return {
        "loop_delay_p99_ms": percentile(walls.delays, 0.99),
        "wall_kb_s": walls.rates[-1],
        "busy_cores": walls.cpu,
        "delay_p99_ms": percentile(window.delays_ms, 0.99),
        "generator_cores": window.own_cpu,
        "lost": window.missing + len(window.errors) + sum(bool(wall.closed) for wall in walls.walls),
        "other_cores": 0.0,
    }


def light() -> Clip:
    """Pictures of 90 to 110 per cent of the mean of their second, which is no other second's."""
    chance = random.Random(1)
    frames = []
    for second in range(SECONDS):
        mean = PICTURE_BYTES * chance.uniform(0.9, 1.1)
        for number in range(FPS):
            at = second * 1000 + number * 1000 // FPS
            is_key = number == 0 and second % 2 == 0
            head = b"\x17\x01\x00\x00\x00" if is_key else b"\x27\x01\x00\x00\x00"
            frames.append(Media(MessageType.VIDEO, at, head + bytes(round(mean * chance.uniform(0.9, 1.1)))))
            frames.append(Media(MessageType.AUDIO, at, b"\xaf\x01" + bytes(SOUND_BYTES)))
    headers = [Media(MessageType.VIDEO, 0, AVC_HEADER), Media(MessageType.AUDIO, 0, AAC_HEADER)]
    return Clip(headers, frames, SECONDS * 1000, "synthetic")


def _errors(window: Window) -> list[tuple[str, int]]:
    return [(error, window.errors.count(error)) for error in sorted(set(window.errors))]


class Walls:
    """The dashboards beside a load; a watcher of it, as their window is the load's."""

    def __init__(self, server: Server, cookie: str, count: int) -> None:
        self.server = server
        self.cookie = cookie
        self.walls = [Dashboard(listens=number == 0) for number in range(count)]
        self.first: list[int] = []
        """The bytes of each one's first snapshot."""
        self.cpu = 0.0
        self.seconds = 0.0
        self._watching: list[asyncio.Task[None]] = []

    async def through(self, load: Load) -> Window:
        try:
            return await run(load, self)
        finally:
            for task in self._watching:
                task.cancel()
            for problem in await asyncio.gather(*self._watching, return_exceptions=True):
                if isinstance(problem, Refused):
                    raise problem

    def joining(self) -> None:
        """They come while the streams are on the air already."""
        assert self.server.installation is not None
        http = self.server.installation.http
        self._watching = [asyncio.ensure_future(wall.watch(http, self.cookie)) for wall in self.walls]

    def begin(self) -> None:
        self.first = [size for wall in self.walls for size in wall.snapshots[:1]]
        for wall in self.walls:
            wall.reset()
        self._cpu, self._at = usage(self.server.pid).cpu_s, time.monotonic()

    def end(self) -> None:
        self.seconds = time.monotonic() - self._at
        self.cpu = (usage(self.server.pid).cpu_s - self._cpu) / self.seconds
        self.delays, self.gaps = sorted(self.walls[0].loop_delays_ms), sorted(self.walls[0].gaps_ms)
        self.rates = sorted(wall.bytes_read / 1000 / self.seconds for wall in self.walls)
        self.updates = [
            (wall.bytes_read - sum(wall.snapshots)) / 1000 / self.seconds for wall in self.walls if not wall.closed
        ]

    def faults(self) -> list[str]:
        found = [f"dashboard {number}: {wall.closed}" for number, wall in enumerate(self.walls) if wall.closed]
        if len(self.first) < len(self.walls):
            found.append(f"only {len(self.first)} of {len(self.walls)} dashboards got a snapshot")
        if self.rates[-1] > MOST_KB_S:
            found.append(f"a dashboard was sent {self.rates[-1]:.1f} kB/s, more than {MOST_KB_S:g}")
        late = percentile(self.delays, 0.99)
        if late > LATE_MS:
            found.append(f"the event loop was {late:.1f} ms late in one second of a hundred, more than {LATE_MS:g}")
        return found

    def report(self, load: Load, window: Window) -> str:
        shares = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))

        def spread(values: list[float]) -> str:
            return ", ".join(f"{name} {percentile(values, share):.1f}" for name, share in shares)

        again = sum(len(wall.snapshots) for wall in self.walls)
        return "\n".join(
            [
                f"{load.publishers} publishers of {load.clip.kbps:.0f} kbit/s, {len(self.walls)} dashboards,"
                f" {window.seconds:.0f} s: {window.messages / window.seconds:.0f} messages a second in",
                f"a dashboard's first snapshot: {max(self.first, default=0) / 1000:.0f} kB",
                f"to each dashboard after it: {self.rates[0]:.1f} to {self.rates[-1]:.1f} kB/s; updates alone"
                f" {max(self.updates, default=0):.1f} kB/s ({again} snapshots came again)",
                f"event loop's delay, the worst of each second, ms: {spread(self.delays)}",
                f"between two updates at the first dashboard, ms: {spread(self.gaps)}",
                f"a player's delay, ms: {spread(window.delays_ms)}; missing {window.missing}",
                f"CPU of the server's processes: {self.cpu:.2f} cores; generator {window.own_cpu:.2f} of a core,"
                f" at most {window.lateness_ms:.0f} ms late",
            ]
        )
