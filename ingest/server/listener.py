"""The RTMP listener as an ASGI protocol server: start-up, the connections that there are, ordered shutdown."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Literal

from ingest.server.asgi import ASGIApplication
from ingest.server.config import ServerConfig
from ingest.server.connection import Connection
from ingest.server.connection_base import BaseConnection
from ingest.server.context import ServerContext
from ingest.server.control import Control
from ingest.server.media import MediaConnection, MediaControl
from ingest.server.node import Node
from ingest.server.process import connections_possible, raise_open_file_limit
from ingest.server.recorder import Recorders
from ingest.server.shared_objects import SharedObjects
from ingest.server.sockets import Address, ListenError, Listening
from ingest.server.tls import ServedCertificate, shake_hands
from ingest.siblings import Siblings

logger = logging.getLogger(__name__)

LISTEN_AGAIN_S = 1.0
PAUSED_S = 1.0
"""A sweep that is so late finds a process that stood still, rather than a busy one."""


class RtmpServer(ServerContext[BaseConnection]):
    """The listeners, their live streams, and the application that decides.

    `start` binds and serves on the running loop; `drain` takes no more connections and ends what is left in the end,
    unless `resume` comes before; `stop` ends all sessions with `node_shutdown`, waits for the applications and returns
    when nothing is left running. `leave` is the drain before a stop.
    """

    def __init__(self, application: ASGIApplication, config: ServerConfig, siblings: Siblings | None = None) -> None:
        """`siblings`: with other processes on the same ports, whose connections count as well."""
        super().__init__(application, config)
        self._siblings = siblings
        self.stopping = False
        self._leaving = False
        self._waived = False
        self._started = False
        self._listening = Listening(config, self._connection, self._secure, lambda: MediaConnection(self, MediaControl))
        self._certificate: ServedCertificate | None = None
        self._watch: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._reopening: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()

    @property
    def addresses(self) -> list[Address]:
        """(host, port) of each plain listener, as bound."""
        return self.bound["rtmp"]

    @property
    def bound(self) -> dict[str, list[Address]]:
        """The same by scheme; without addresses for those that are off."""
        return self._listening.bound

    async def start(self) -> None:
        """Raises ListenError, or CertificateError for a pair that can't be served."""
        config = self.config
        self.open()
        self.objects = SharedObjects(self.loop, config.objects, config.limits, config.deadlines)
        self._control = partial(Control, objects=self.objects)
        if config.rtmps and config.certificate and config.certificate_key:
            self._certificate = ServedCertificate(config.certificate, config.certificate_key)
        listens = config.rtmp or config.rtmps or config.media  # Without, its sessions have no connections.
        if listens and not raise_open_file_limit(config.max_connections):
            logger.warning(
                "This process may open too few files for %d connections: %d are possible. Raise its limit (ulimit -Hn; "
                "LimitNOFILE= of systemd), or lower RTMPWEB_MAX_CONNECTIONS.",
                config.max_connections,
                connections_possible(),
            )
        if self._siblings:
            self.connection_limits.tell = self._siblings.share("connections", self.connection_limits)
            await self._siblings.start()
        await self._listening.open()
        self._started = True
        if self._certificate:
            self._watch = self.loop.create_task(self._certificate.watch(config.certificate_poll_s))
        self._schedule_sweep()
        self.node = Node(self, self._listening, drain=self.drain, resume=self.resume)
        self.relays, self.pushes = self.node.relays, self.node.pushes
        if config.recording:
            self.recorders = Recorders(config.recording, self.node.put)
        self.node.start()
        for scheme, bound in self.bound.items():
            if bound:
                logger.info("%s listens on %s", scheme, ", ".join(f"{host}:{port}" for host, port in bound))

    def admit(self, connection: BaseConnection, address: str, *, is_proxy: bool = False) -> bool:
        """Also while it drains, where others listen on the same ports: one that comes then was dealt out to this
        process before, and is told by the application to try again, which a reset would not."""
        if not self.draining or self.stopping or not self.config.reuse_port:
            return super().admit(connection, address, is_proxy=is_proxy)
        if not self.connection_limits.take(address, is_proxy=is_proxy):
            return False
        self.connections.add(connection)
        return True

    def reload_certificate(self) -> None:
        """Read the certificate of RTMPS anew, changed or not. A pair that can't be used changes nothing."""
        if self._certificate:
            self._certificate.reload()

    # --- Drain and stop ---

    def drain(self, grace_s: float) -> None:
        """Take no more connections, and ask the clients that understand it to connect again, elsewhere.

        What is left after `grace_s` ends. Said again, only that time changes.
        """
        if self.stopping:
            return
        self._set_grace(grace_s)
        logger.info(
            "Node %s drains: it takes no new connections, and ends what is still live in %d s (%d sessions now).",
            self.config.node,
            grace_s,
            len(self.sessions),
        )
        if self.draining:
            return
        self.draining = True
        self._listening.close()
        self.node.put_state()
        self._each(lambda connection: connection.control.request_reconnect())

    def resume(self) -> None:
        """Listen again, where before, unless the process is about to stop."""
        if not self.draining or self._leaving or self.stopping:
            return
        self.draining = False
        self._set_grace(None)
        if self._reopening is None or self._reopening.done():
            self._reopening = self.loop.create_task(self._listen_again())

    async def leave(self, drain_s: float) -> None:
        """Drain for good; returns when nothing is live any more, or after `drain_s`."""
        self._leaving = True
        self.drain(drain_s)
        self._idle.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), drain_s)

    async def stop(self, grace_s: float = 5.0) -> None:
        """End everything in order: listeners, sessions, connections, their applications, the node.

        `grace_s`: for all connections to close, and for their applications to return. The node's has `application_s`.
        """
        if not self._started or self.stopping:
            return
        self._leaving = True
        if not self.draining:
            self.draining = True
            self._listening.close()
            self.node.put_state()
        self.stopping = True
        self._set_grace(None)
        if self._watch:
            self._watch.cancel()
        if self._reopening:
            await self._reopening
        self._each(lambda connection: _shut_down(connection, "The server stopped."))
        await self._wait_until_empty(grace_s)
        for connection in list(self.connections):
            if not connection.lost:
                connection.transport.abort()
        await self._wait_until_empty(grace_s)
        leftover = [connection.control.driver for connection in self.connections]
        for driver in leftover:
            if driver:
                driver.task.cancel()
        if self._timer:
            self._timer.cancel()
        self.objects.close()
        self.close()
        if self._siblings:
            await self._siblings.close()
        if self.recorders:
            await self.recorders.close(grace_s)
        await self.node.stop(self.config.deadlines.application_s)
        await asyncio.gather(*(driver.task for driver in leftover if driver), return_exceptions=True)

    def _set_grace(self, grace_s: float | None) -> None:
        if self._grace:
            self._grace.cancel()
        self._grace = None if grace_s is None else self.loop.call_later(grace_s, self._grace_is_over)

    def _grace_is_over(self) -> None:
        if self.sessions:
            logger.info("The drain's time is over: %d sessions end", len(self.sessions))
        self._each(lambda connection: _shut_down(connection, "The server was drained."))

    async def _listen_again(self) -> None:
        tries = 0
        while not self.draining:
            try:
                await self._listening.open()
            except ListenError as error:
                tries += 1
                if tries == 1:
                    host, port = error.address
                    logger.error(
                        "The node can't listen on %s:%d again: %s. It goes on trying.", host, port, error.strerror
                    )
                await asyncio.sleep(LISTEN_AGAIN_S)
            else:
                break
        if self.draining:
            self._listening.close()
        else:
            logger.info("Node %s takes connections again.", self.config.node)
            self.node.put_state()

    async def _wait_until_empty(self, timeout_s: float) -> None:
        if self.connections:
            self.emptied.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.emptied.wait(), timeout_s)

    def _connection(self, scheme: Literal["rtmp", "rtmps"] = "rtmp") -> Connection:
        return Connection(self, scheme, self._control)

    def _secure(self, connected: socket.socket, peer: Address) -> None:
        assert self._certificate  # noqa: S101 - `start` has read it.
        shake_hands(self._connection("rtmps"), connected, peer, self._certificate.current.context)

    # --- The sweep ---

    def _schedule_sweep(self) -> None:
        self._sweep_due = self.loop.time() + self.config.deadlines.sweep_s
        self._timer = self.loop.call_at(self._sweep_due, self._sweep)

    def _sweep(self) -> None:
        now = self.loop.time()
        late_s = now - self._sweep_due
        self.loop_delay.add(late_s)
        self._schedule_sweep()
        # After a pause of the process itself (a frozen machine), what peers sent meanwhile is still to be read: they
        # are checked at the next sweep. One that is late again checks, so that a busy loop keeps its deadlines.
        self._waived = late_s > PAUSED_S and not self._waived
        if self._waived:
            return
        self._each(lambda connection: connection.control.sweep(self.config.deadlines, now))
        if not self.sessions:
            self._idle.set()

    def _each(self, action: Callable[[BaseConnection], None]) -> None:
        for connection in list(self.connections):
            try:
                action(connection)
            except Exception as error:
                connection.broken(error)


def _shut_down(connection: BaseConnection, description: str) -> None:
    connection.end("node_shutdown", description)
    connection.half_close()
