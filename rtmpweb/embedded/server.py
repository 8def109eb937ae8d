"""The embedded server's life: listen, prepare, run, and stop in order."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from rtmpweb.embedded.reactor import loop, reactor  # isort: skip - before Daphne, which would install another.

from django.conf import settings
from django.db import connections
from twisted.internet.defer import Deferred

from ingest.nodeconfig import server_config
from ingest.server import RtmpServer, favour_the_loop
from rtmpweb.embedded import firststart, workers
from rtmpweb.embedded.children import Child
from rtmpweb.embedded.http import HttpServer
from rtmpweb.embedded.listening import ListenError, explain, listen, url_host

log = logging.getLogger(__name__)

RTMP_GRACE_S = 5.0
"""For sessions to end and be recorded, and telemetry to be flushed."""
CHILD_GRACE_S = 10.0
"""For a worker to finish the task that it runs; an idle one takes 3 to 6 s to end."""


class Embedded:
    """Listens in `start`, runs until a signal, and leaves nothing running."""

    def __init__(self, application: Any, write: Callable[[str], None]) -> None:
        self._application = application
        self._write = write
        self._children: list[Child] = []
        self._rtmp: RtmpServer | None = None
        self._stopping = False

    def run(self) -> None:
        """Raises ListenError before anything was made or started."""
        asyncio.set_event_loop(loop)
        if settings.HTTP_ADDRESS is None:
            raise ListenError(
                "RTMPWEB_HTTP is off: the embedded server needs it. Run `manage.py runrtmp` for RTMP alone."
            )
        http = listen(settings.HTTP_ADDRESS, "RTMPWEB_HTTP")
        try:
            self._check_rtmp()
            firststart.migrate()
            self._start_rtmp()
        except BaseException:
            http.close()
            raise
        self._greet(http)
        connections.close_all()
        loop.run_until_complete(self._start_children())
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        reactor.addSystemEventTrigger("before", "shutdown", self._before_shutdown)
        server = HttpServer(self._application, http)
        reactor.callWhenRunning(self._say_ready)
        favour_the_loop()
        server.run()

    # --- Start ---

    @staticmethod
    def _check_rtmp() -> None:
        """A busy port is found before the first start makes, and shows once, what it makes."""
        if settings.RTMP_ADDRESS is not None:
            listen(settings.RTMP_ADDRESS, "RTMPWEB_RTMP").close()

    def _start_rtmp(self) -> None:
        address = settings.RTMP_ADDRESS
        if address is None:
            return
        self._rtmp = RtmpServer(self._application, server_config(address))
        try:
            loop.run_until_complete(self._rtmp.start())
        except OSError as error:
            raise explain(error, address, "RTMPWEB_RTMP") from error
        # Port 0 took a free one: this process's pages and texts show the one it is.
        settings.RTMP_ADDRESS = (address[0], self._rtmp.addresses[0][1])

    def _greet(self, http: socket.socket) -> None:
        host, port = http.getsockname()[:2]
        self._url = f"http://{url_host(host)}:{port}/"
        for line in firststart.greeting(firststart.make_what_is_missing(), self._url):
            self._write(line)

    async def _start_children(self) -> None:
        for program in workers.programs(settings.BASE_DIR, settings.DATA_DIR):
            child = Child(program, self._write)
            child.start()
            self._children.append(child)

    def _say_ready(self) -> None:
        rtmp = "no RTMP (RTMPWEB_RTMP is off)"
        if settings.RTMP_ADDRESS is not None:
            host, port = settings.RTMP_ADDRESS
            rtmp = f"rtmp://{url_host(host)}:{port}/"
        self._write(f"Ready: dashboard {self._url}, {rtmp}")

    # --- Stop ---

    def _on_signal(self) -> None:
        if self._stopping:
            self._write("Stopped at once.")
            for child in self._children:
                child.kill()
            os._exit(1)
        self._stopping = True
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
