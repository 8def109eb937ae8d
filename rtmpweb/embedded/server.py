"""The embedded server's life: listen, prepare, run, and stop in order."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from rtmpweb.embedded.reactor import loop, reactor  # isort: skip - before Daphne, which would install another.

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from twisted.internet.defer import Deferred

from ingest.consumers import beginning, database
from ingest.nodeconfig import SETTINGS, server_config
from ingest.server import CertificateError, RtmpServer, ServerConfig, favour_the_loop
from ingest.server import ListenError as RtmpListenError
from ingest.server.tls import load
from ingest.services import installation, playlinks
from rtmpweb.embedded import firststart, lock, workers
from rtmpweb.embedded.children import Child
from rtmpweb.embedded.http import HttpServer
from rtmpweb.embedded.listening import ListenError, explain, listen, url_host
from rtmpweb.pulse import resting_pulse

log = logging.getLogger(__name__)

RTMP_GRACE_S = 5.0
"""For sessions to end and be recorded, and telemetry to be flushed."""
CHILD_GRACE_S = 10.0
"""For a worker to finish the task that it runs; an idle one takes 3 to 6 s to end."""


def _is_well(child: Child) -> bool:
    return not child.is_stuck()


class Embedded:
    """Listens in `start`, runs until a signal, and leaves nothing running."""

    def __init__(self, application: Any, write: Callable[[str], None], *, to_terminal: bool) -> None:
        """`write` takes each line for the operator, who sees them at once and alone where it is `to_terminal`."""
        self._application = application
        self._write = write
        self._to_terminal = to_terminal
        self._children: list[Child] = []
        self._rtmp: RtmpServer | None = None
        self._drained: asyncio.Task[None] | None = None
        self._stopping = False

    def run(self) -> None:
        """Raises ListenError and StartError before anything was made or started."""
        asyncio.set_event_loop(loop)
        self._lock = lock.take(settings.DATA_DIR)
        if settings.HTTP_ADDRESS is None:
            raise ListenError(
                "RTMPWEB_HTTP is off: the embedded server needs it. Run `manage.py runrtmp` for RTMP alone."
            )
        http = self._listen(settings.HTTP_ADDRESS)
        settings.HTTP_ADDRESS = (settings.HTTP_ADDRESS[0], http.getsockname()[1])
        try:
            config = self._configure()
            firststart.migrate()
            installation.check()
            self._start_rtmp(config)
        except BaseException:
            http.close()
            raise
        self._greet(http)
        connections.close_all()
        loop.run_until_complete(self._start_children())
        reactor.addSystemEventTrigger("before", "shutdown", self._before_shutdown)
        server = HttpServer(self._application, http, beside=settings.MAX_CONNECTIONS)
        loop.call_soon(self._on_running)
        favour_the_loop()
        server.run()

    # --- Start ---

    @staticmethod
    def _configure() -> ServerConfig:
        """What pages may play from here is told by the port of HTTP, which must be known."""
        try:
            config = server_config(settings.RTMP_ADDRESS, settings.RTMPS_ADDRESS, settings.MEDIA_ADDRESS)
            if config.rtmps and config.certificate and config.certificate_key:
                load(config.certificate, config.certificate_key)
        except (CertificateError, ImproperlyConfigured) as error:
            raise ListenError(str(error)) from error
        return config

    @staticmethod
    def _listen(http: tuple[str, int]) -> socket.socket:
        """Where HTTP is listened for. What stops the other listeners is found, too, before the first start makes, and
        shows once, what it makes.
        """
        media = {"rtmp": settings.RTMP_ADDRESS, "rtmps": settings.RTMPS_ADDRESS, "http": settings.MEDIA_ADDRESS}
        others = {SETTINGS[scheme]: address for scheme, address in media.items() if address is not None}
        bound = listen({"RTMPWEB_HTTP": http, **others})
        for setting in others:
            bound[setting].close()
        return bound["RTMPWEB_HTTP"]

    def _start_rtmp(self, config: ServerConfig) -> None:
        if config.rtmp is None and config.rtmps is None:
            return
        with suppress(database.TooSlow):  # Then the node takes it once it can.
            loop.run_until_complete(beginning.take_name(config.node, self._write))
        self._rtmp = RtmpServer(self._application, config)
        try:
            loop.run_until_complete(self._rtmp.start())
        except RtmpListenError as error:
            raise explain(error, error.address, SETTINGS[error.scheme]) from error
        # Port 0 took a free one: this process's pages and texts show the one it is.
        if config.rtmp is not None:
            settings.RTMP_ADDRESS = (config.rtmp[0], self._rtmp.addresses[0][1])
        if config.rtmps is not None:
            settings.RTMPS_ADDRESS = (config.rtmps[0], self._rtmp.tls_addresses[0][1])
        if config.media is not None:
            settings.MEDIA_ADDRESS = (config.media[0], self._rtmp.media_addresses[0][1])

    def _greet(self, http: socket.socket) -> None:
        host, port = http.getsockname()[:2]
        self._url = f"http://{url_host(host)}:{port}/"
        made = firststart.make_what_is_missing()
        for line in firststart.greeting(made, self._url, to_terminal=self._to_terminal):
            self._write(line)

    async def _start_children(self) -> None:
        queue = None if settings.REDIS_URL else settings.BROKER_DIR / "queue"
        for program in workers.programs(settings.BASE_DIR, settings.DATA_DIR, queue):
            child = Child(program, self._write)
            child.start()
            self._children.append(child)
            if program.wanted is not None:  # While it rests nobody else says that it will be there.
                resting_pulse(partial(_is_well, child)).start()

    def _on_running(self) -> None:
        """Takes signals and says so, in the running loop: until it runs, uvloop drops a signal that has a handler."""
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        if self._rtmp is not None and self._rtmp.tls_addresses:
            loop.add_signal_handler(signal.SIGHUP, self._rtmp.reload_certificate)
        self._say_ready()

    def _say_ready(self) -> None:
        urls = [
            f"{scheme}://{url_host(address[0])}:{address[1]}/"
            for scheme, address in (("rtmp", settings.RTMP_ADDRESS), ("rtmps", settings.RTMPS_ADDRESS))
            if address is not None
        ]
        self._write(f"Ready: dashboard {self._url}, {', '.join(urls) or 'no RTMP (RTMPWEB_RTMP is off)'}")
        if base := playlinks.media_base():
            self._write(f"FLV by HTTP and WebSocket: {base}/live/APPLICATION/STREAM.flv")

    # --- Stop ---

    def _on_signal(self) -> None:
        """The first drains, if there is anything live; the next stops in order; one more ends all at once."""
        if self._drained is not None and not self._drained.done():
            self._drained.cancel()
            return
        if self._stopping:
            self._write("Stopped at once.")
            for child in self._children:
                child.kill()
            os._exit(1)
        self._stopping = True
        if settings.DRAIN_S and self._rtmp is not None and self._rtmp.sessions:
            self._write(f"Draining for {settings.DRAIN_S} s at most; once more to stop now.")
            self._drained = loop.create_task(self._rtmp.leave(settings.DRAIN_S))
            self._drained.add_done_callback(lambda _task: self._begin_to_stop())
        else:
            self._begin_to_stop()

    def _begin_to_stop(self) -> None:
        self._write("Stopping; once more to stop at once.")
        reactor.stop()

    def _before_shutdown(self) -> Deferred[None]:
        return Deferred.fromFuture(asyncio.ensure_future(self._stop()))

    async def _stop(self) -> None:
        steps = [child.stop(CHILD_GRACE_S) for child in self._children]
        if self._rtmp is not None:
            steps.append(self._rtmp.stop(RTMP_GRACE_S))
        for result in await asyncio.gather(*steps, return_exceptions=True):
            if isinstance(result, BaseException):
                log.error("While stopping: %r", result)
        self._write("Stopped.")
