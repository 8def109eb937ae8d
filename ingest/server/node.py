"""The node's own application (scope `rtmp.node`): what happened in the last second, once a second.

A node application that fails is started anew after a second with a new scope: leases must go on being renewed.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

from ingest import clock
from ingest.contracts import EndReason, HealthRule, NodeFigures, NodeScope, NodeTick, RelayFigures, Sample
from ingest.disk import DiskSpace
from ingest.live import Tick, TickReport
from ingest.live.counters import Total
from ingest.live.health import NODE_CHECKS, HealthEngine
from ingest.server.asgi import ASGI_VERSION, Driver, Message
from ingest.server.connection_base import Server
from ingest.server.dial_rules import DialRules
from ingest.server.process import ProcessWatch, TimeSlices
from ingest.server.publishing import Publishing
from ingest.server.pulls import Pulls
from ingest.server.pushes import Pushes
from ingest.server.relays import Relays
from ingest.server.sockets import Listening
from ingest.server.thumbnails import Thumbnails

TICK_S = 1.0
RESTART_S = 1.0

DROPPED_S = 60.0
"""For so long it is told that caches had no room."""

PORTION = 20
"""Streams that are told of between two turns of the loop: about 2 ms."""


class Node:
    def __init__(
        self, server: Server, listening: Listening, *, drain: Callable[[float], None], resume: Callable[[], None]
    ) -> None:
        self._server = server
        self.relays = Relays(server, self._send_away)
        self._listening = listening
        rules = DialRules(lambda: chain.from_iterable(listening.bound.values()))
        self.pushes = Pushes(server, rules, self.put)
        self.pulls = Pulls(server, rules)
        self._drain, self._resume = drain, resume
        self._loop = server.loop
        self._driver: Driver | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._restart: asyncio.TimerHandle | None = None
        self._tick: Tick | None = None
        self._slice: asyncio.Handle | None = None
        self._stopped = False
        self._slices = TimeSlices(self._loop)
        """Of ends that are told to many players at once."""
        self.unsent: deque[Sample] = deque(maxlen=server.config.unsent_samples)
        """Samples that no application could take; each tells what no other does, so they wait for the next tick."""
        self._last_tick = self._loop.time()
        self._last_cpu_s = time.process_time()
        self._health = HealthEngine(self._last_tick, NODE_CHECKS)
        self._process = ProcessWatch(self._loop)
        self._disk = DiskSpace(server.config.disk) if server.config.disk else None
        self._last_sent = 0
        """Bytes that players were sent, of live streams and of recordings."""
        self._last_dropped = 0
        """Of the caches' groups of pictures."""
        self._dropped = Total(round(DROPPED_S / TICK_S))
        settings = server.config.thumbnails
        self._thumbnails = (
            Thumbnails(self._loop, server.registry, settings, partial(self.put, droppable=True)) if settings else None
        )

    def start(self) -> None:
        self._start_application()
        if self._disk:
            self._disk.ask(self._loop.time())
        self._due = self._loop.time() + TICK_S
        self._timer = self._loop.call_at(self._due, self._begin)

    def put_state(self) -> None:
        self.put({"type": "node.draining" if self._server.draining else "node.resumed"})

    def put(self, message: Any, *, droppable: bool = False) -> bool:
        """Hand the application a message. False: there is none just now, or it is behind and can do without this."""
        return self._driver is not None and self._driver.put(message, droppable=droppable)

    async def stop(self, timeout_s: float) -> None:
        """The last tick, then `node.stopped`; returns when the application has."""
        self._stopped = True
        self._slices.close()
        self.relays.close()
        self.pushes.close()
        self.pulls.close()
        for handle in (self._timer, self._restart, self._slice):
            if handle:
                handle.cancel()
        if self._driver:
            if self._tick:
                self._next_slice(None, droppable=False)
            self._tick = Tick(self._server.registry, self._loop.time())
            self._next_slice(None, droppable=False)
            self._driver.finish({"type": "node.stopped"}, timeout_s)
            await asyncio.wait([self._driver.task])
        if self._disk:
            self._disk.close()
        if self._thumbnails:
            await self._thumbnails.close(timeout_s)

    # --- The application ---

    def _start_application(self) -> None:
        scope: NodeScope = {
            "type": "rtmp.node",
            "asgi": ASGI_VERSION,
            "node": self._server.config.node,
            "addresses": self._listening.bound["rtmp"],
            "tls_addresses": self._listening.bound["rtmps"],
            "media_addresses": self._listening.bound["http"],
            "hls_addresses": [self._server.config.hls] if self._server.config.hls else [],
            "local": self._listening.local,
        }
        self._driver = Driver(
            self._server.application,
            scope,
            handle=self._handle,
            ended=self._application_ended,
            inbox_events=self._server.config.inbox_ticks,
            label=f"node {self._server.config.node}",
        )
        self.put({"type": "node.started"})
        if self._server.draining:
            self.put_state()

    def _application_ended(self, driver: Driver) -> None:
        unread = [message for message in driver.take_unread() if message["type"] == "node.tick"]
        samples = [sample for message in unread for sample in message["samples"]] + list(self.unsent)
        self.unsent.clear()
        self.unsent.extend(samples)
        if not self._stopped:
            self._driver = None
            self._restart = self._loop.call_later(RESTART_S, self._start_application)

    def _handle(self, message: Message) -> None:
        match message["type"]:
            case "node.drop":
                self._drop(message["session_id"], message["reason"])
            case "node.drain":
                self._drain(message["grace_s"])
            case "node.rules":
                self._set_rules(message["session_id"], message["health"])
            case "node.elsewhere":
                self._send_away(message["streams"])
            case "node.relay":
                self.relays.follow(message["streams"])
            case "node.push":
                self.pushes.follow(message["session_id"], message["targets"])
            case "node.pull":
                self.pulls.follow(message["sources"])
            case "node.resume":
                self._resume()
            case "node.watch":
                if self._thumbnails:
                    self._thumbnails.watch(message["paths"])
            case other:
                raise ValueError(f"unknown message type {other!r} for scope type 'rtmp.node'")

    def _drop(self, session_id: str, reason: EndReason, description: str = "") -> None:
        session = self._server.sessions.get(session_id)
        if session:
            session.connection.stop_session(session, reason, description)

    def _send_away(self, streams: dict[str, str]) -> None:
        """Who waits for one of these here waits in vain. Players of its recordings don't."""
        server = self._server
        for path, why in streams.items():
            live = server.registry.get(path)
            for subscriber in live.subscribers if live else ():
                self._slices.do(self, partial(self._send_one_away, path, subscriber.session_id, why))

    def _send_one_away(self, path: str, session_id: str, why: str) -> None:
        """Unless somebody publishes the stream here meanwhile."""
        live = self._server.registry.get(path)
        if live and live.publisher is None:
            self._drop(session_id, "elsewhere", why)

    def _set_rules(self, session_id: str, rules: dict[str, HealthRule]) -> None:
        session = self._server.sessions.get(session_id)
        publication = session.live.publication if isinstance(session, Publishing) else None
        if publication is not None:
            publication.evaluation.set_rules(rules)

    # --- The tick ---

    def _begin(self) -> None:
        self._due = max(self._due + TICK_S, self._loop.time())
        self._timer = self._loop.call_at(self._due, self._begin)
        if self._tick is None:  # Else the loop is far behind: the one that is under way tells of two seconds.
            self._tick = Tick(self._server.registry, self._loop.time())
            self._next_slice(PORTION)
        if self._thumbnails:
            self._thumbnails.tick(self._loop.time())

    def _next_slice(self, most: int | None, *, droppable: bool = True) -> None:
        """The tick's next streams; after the last of them it is sent."""
        tick = self._tick
        if tick is None:
            return
        if tick.advance(self._loop.time(), clock.now(), most):
            self._tick = self._slice = None
            self._report(tick.report, droppable=droppable)
        else:
            self._slice = self._loop.call_soon(self._next_slice, most)

    def _report(self, report: TickReport, *, droppable: bool) -> None:
        server, now, at = self._server, self._loop.time(), clock.now()
        publishers = 0
        for session in list(server.sessions.values()):
            if isinstance(session, Publishing):
                publishers += 1
                session.report_description()
            elif sample := session.sample():
                report.players.append(sample)
        self.relays.tick(now)
        self.pushes.tick(now)
        relays = self.relays.figures
        message: NodeTick = {
            "type": "node.tick",
            "samples": [*self.unsent, *report.samples],
            "streams": report.streams,
            "players": report.players,
            "figures": self._figures(now, at, report, publishers, relays),
            "refused": server.connection_limits.take_refused(),
            "pushes": self.pushes.figures,
            "pulls": self.pulls.figures,
        }
        if self.put(message, droppable=droppable):
            self.unsent.clear()
        else:
            self.unsent.extend(report.samples)
        for session_id, breach in report.breaches:
            self._drop(session_id, "over_limit", breach)

    def _figures(
        self, now: float, wall: float, tick: TickReport, publishers: int, relays: list[RelayFigures]
    ) -> NodeFigures:
        server = self._server
        elapsed_s = max(now - self._last_tick, 0.001)
        cpu_s = time.process_time()
        counters = tick.counters
        counters["sent_bytes"] += server.library.sent_bytes
        sent = counters["sent_bytes"] - self._last_sent
        received = sum(sample.wire_bytes for sample in tick.samples) * 8 / 1000 / elapsed_s
        disk = self._disk
        disk_free = disk.free_percent(now) if disk else None
        if disk:
            disk.ask(now)
        caches = server.registry.caches
        self._dropped.add(caches.dropped - self._last_dropped)
        figures: NodeFigures = {
            "node": server.config.node,
            "at": wall,
            "streams": len(tick.streams),
            "publishers": publishers,
            "players": len(tick.players),
            "viewers": tick.viewers,
            "connections": len(server.connections),
            "refused_connections": server.connection_limits.refused,
            "in_kbps": round(received + sum(relay["in_kbps"] for relay in relays), 1),
            "out_kbps": round(sent * 8 / 1000 / elapsed_s, 1),
            "loop_delay_ms": round(server.loop_delay.take_most() * 1000, 2),
            "cpu_percent": round((cpu_s - self._last_cpu_s) / elapsed_s * 100, 1),
            "disk_free_percent": None if disk_free is None else round(disk_free, 1),
            "disk_hangs_s": round(disk.hangs_s(now), 1) if disk else 0.0,
            "caches_bytes": caches.held_bytes,
            "caches_dropped": self._dropped.sum,
            "caches_dropped_in_all": caches.dropped,
            "draining": server.draining,
            "recordings_failing": tick.unrecorded,
            "relays": relays,
            "relaying": sum(relay["state"] == "live" for relay in relays),
            "counters": counters,
            "process": self._process.figures(),
            "loop_delays": server.loop_delay.figures,
        }
        self._last_tick, self._last_cpu_s, self._last_sent = now, cpu_s, counters["sent_bytes"]
        self._last_dropped = caches.dropped
        figures["issues"] = self._health.update(figures, now, wall)
        return figures
