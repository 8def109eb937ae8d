"""What happens once a second for each live stream, without sockets and database: microseconds of CPU time a stream.

    python -m bench.micro.tick [streams]

Each stream is published (1080p30, 73 messages a second), nobody plays, no page is open. `streams`: measured, evaluated,
and made a sample of. `snapshots`: what pages and API see of them. `report`: the node's message to its application.
`application`: what that does with it, the live store in memory included. `telemetry`: what its thread does, to a spool.
Cold: between two parts 32 MiB of other memory are gone through, as in a server that does something else meanwhile.
"""

import asyncio
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from time import process_time
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import django

from ingest.contracts import NodeTick, PublishAccept, PublishLimits
from ingest.live import Registry, Tick
from ingest.live.snapshot import snapshot
from ingest.server.config import ServerConfig
from ingest.server.connection_limits import ConnectionLimits
from ingest.server.node import Node
from ingest.server.process import LoopDelay
from ingest.server.publishing import Publishing
from ingest.telemetry.lake import SAMPLES
from ingest.telemetry.spool import Spool

WARM_UP, MEASURED = 70, 20
"""Seconds. After the warm-up, windows of a minute are full and every check is evaluated."""
SOUNDS = 43
FRAMES = 30
KEYFRAME, INTER, SOUND = (
    b"\x17\x01\x00\x00\x00" + bytes(4000),
    b"\x27\x01\x00\x00\x00" + bytes(4000),
    b"\xaf\x01" + bytes(369),
)
PARTS = ("streams", "snapshots", "report", "application", "telemetry")
LIMITS = PublishLimits(
    max_kbps=8000,
    over_limit="warn",
    idle_timeout_s=10,
    first_media_timeout_s=20,
    target_kbps=None,
    expect_audio=True,
    expect_video=True,
)


class Costs:
    """CPU seconds of each part, a list of rounds each."""

    def __init__(self, disturb: Callable[[], object]) -> None:
        self._disturb = disturb
        self.spent: dict[str, list[float]] = {part: [] for part in PARTS}

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        self._disturb()
        begin = process_time()
        yield
        self.spent[part].append(process_time() - begin)


def second(sessions: list[Publishing], number: int) -> None:
    """What all publishers send in it."""
    for place, session in enumerate(sessions):
        for frame in range(FRAMES):
            at = number + frame / FRAMES
            is_keyframe = frame == 0 and (number + place) % 2 == 0
            session.live.video(round(at * 1000), KEYFRAME if is_keyframe else INTER, at)
            session.has_media, session.last_media = True, at
        for sound in range(SOUNDS):
            at = number + sound / SOUNDS
            session.live.audio(round(at * 1000), SOUND, at)


def publish(server: Any, number: int, connected: socket.socket) -> Publishing:
    """A publisher whose connection is a socket's figures and no more."""
    connection = SimpleNamespace(
        server=server,
        loop=server.loop,
        peer=("192.0.2.1", 50_000),
        flash_ver="FMLE/3.0 (compatible; FMSc/1.0)",
        transport=SimpleNamespace(get_extra_info=lambda _name: connected),
        received_bytes=0,
        round_trip_ms=None,
        control=SimpleNamespace(put=lambda message, *, droppable: None),
        read_at_once=lambda: None,
    )
    labels = {"stream": number, "key": number}
    path, session = f"live/camera-{number}", str(UUID(int=number))
    live = server.registry.get_or_create(path, labels)
    accept = cast(
        "PublishAccept",
        {"session_id": session, "path": path, "limits": LIMITS, "record": None, "labels": labels},
    )
    made = Publishing(cast("Any", connection), 1, f"secret-{number}", accept, live)
    made.start(0.0)
    live.data(0, "onMetaData", [{"videodatarate": 1000.0, "framerate": 30.0, "width": 1920.0}], b"", 0.0)
    server.sessions[session] = made
    return made


async def run(
    streams: int,
    folder: Path,
    disturb: Callable[[], object],
    *,
    warm_up: int = WARM_UP,
    measured: int = MEASURED,
) -> dict[str, float]:
    """Microseconds a stream and second, by part."""
    from ingest.consumers.active import ACTIVE, ActiveSession
    from ingest.consumers.node import NodeConsumer
    from ingest.consumers.upkeep import Upkeep

    loop = asyncio.get_running_loop()
    told: list[NodeTick] = []

    async def application(_scope: Any, receive: Any, _send: Any) -> None:
        while True:
            event = await receive()
            if event["type"] == "node.tick":
                told.append(event)

    config = ServerConfig(node="bench")
    server = SimpleNamespace(
        application=application,
        config=config,
        loop=loop,
        registry=Registry("bench", wake=lambda *_: None),
        sessions={},
        connections=(),
        connection_limits=ConnectionLimits(config.max_connections, config.max_connections_per_address),
        library=SimpleNamespace(sent_bytes=0),
        read_buffer=memoryview(bytearray(1)),
        loop_delay=LoopDelay(),
        draining=False,
    )
    consumer = NodeConsumer()
    consumer.scope = cast("Any", {"type": "rtmp.node", "node": "bench"})
    consumer.start_rounds = lambda: None  # type: ignore[method-assign]
    consumer.upkeep = Upkeep("bench", "", cast("Any", None))
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as connected,
    ):
        sessions = [publish(server, number + 1, connected) for number in range(streams)]
        for session in sessions:
            ACTIVE[session.session_id] = ActiveSession(
                UUID(session.session_id), "publish", "live", session.live.name, 1, 1, 1, "bench", "192.0.2.1", "OBS"
            )
        node = Node(
            cast("Any", server),
            cast("Any", SimpleNamespace(bound={"rtmp": [], "rtmps": [], "http": []}, local="")),
            drain=lambda grace_s: None,
            resume=lambda: None,
        )
        spool = Spool.create(folder / "samples.spool", SAMPLES.schema)
        node._start_application()
        costs = Costs(disturb)
        for number in count():
            second(sessions, number)
            now = number + 1.0
            if number == warm_up:
                costs = Costs(disturb)
            elif number == warm_up + measured:
                break
            tick = Tick(server.registry, now)
            with costs.of("streams"):
                tick.advance(now, 1.8e9 + now)
            with costs.of("report"):
                node._report(tick.report, droppable=False)
            with costs.of("snapshots"):
                for session in sessions:
                    snapshot(session.live)
            await asyncio.sleep(0)
            (message,) = told
            told.clear()
            with costs.of("application"):
                await consumer.node_tick(message)
                await asyncio.gather(*consumer.tasks)
            with costs.of("telemetry"):
                spool.append(SAMPLES.batch(message["samples"]))
        spool.remove()
        for session in sessions:
            del ACTIVE[session.session_id]
    found = {part: median(spent) / streams * 1e6 for part, spent in costs.spent.items()}
    found["streams"] -= found["snapshots"]
    return found


def main() -> None:
    streams = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RTMPWEB_DATA_DIR"] = folder
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rtmpweb.settings")
        django.setup()
        other = bytearray(32 << 20)
        for name, disturb in (("warm", lambda: None), ("cold", lambda: other.translate(None))):
            found = asyncio.run(run(streams, Path(folder), disturb))
            parts = ", ".join(f"{part} {spent:.1f}" for part, spent in found.items())
            print(f"{streams} streams, {name}: {sum(found.values()):.1f} us each: {parts}")


if __name__ == "__main__":
    main()
