"""Daphne on a socket that is already listening, with our bounds on connections: for `serve` and `runweb`."""

import asyncio
import logging
import socket
from typing import Any

from rtmpweb.embedded.reactor import reactor  # isort: skip - before Daphne, which would install another.

from daphne.server import Server
from django.conf import settings
from twisted.internet.defer import Deferred

from ingest.server import connections_possible
from ingest.server.process import make_room_for
from rtmpweb.embedded.connections import KIB, Factory, HttpLimits, Socket

logger = logging.getLogger(__name__)


class HttpServer(Server):  # type: ignore[misc]
    """Daphne's server, but with a bound socket and a factory of our own, and without its own signal handlers."""

    def __init__(self, application: Any, listener: socket.socket, *, beside: int = 0) -> None:
        """`beside`: how many connections this process may have that are not its."""
        self._limits = limits_of_settings()
        super().__init__(
            application,
            endpoints=["the socket below"],  # Daphne refuses to be made without any.
            signal_handlers=False,
            request_buffer_size=self._limits.body_bytes + 1,  # A body is handed over whole.
            websocket_max_message_size=0,  # It would hold for what pages are sent, too: Socket bounds what they say.
            websocket_max_frame_size=self._limits.message_bytes,
            server_name="rtmpweb",
            ready_callable=self._adopt,
        )
        self.endpoints: list[str] = []
        self._listener = listener
        if not make_room_for(self._limits.max_connections + beside):
            logger.warning(
                "This process may open too few files for %d connections of HTTP: %d are possible in all. Raise its "
                "limit (ulimit -Hn; LimitNOFILE= of systemd), or lower RTMPWEB_HTTP_CONNECTIONS.",
                self._limits.max_connections,
                connections_possible(),
            )

    def _adopt(self) -> None:
        self.http_factory = Factory(self, self._limits)
        self.ws_factory.protocol = Socket
        reactor.adoptStreamPort(self._listener.fileno(), self._listener.family, self.http_factory)
        self._listener.close()  # The reactor has its own descriptor.

    def kill_all_applications(self) -> Deferred[Any]:
        """As Daphne's, which stumbles over a connection whose application has ended already."""
        running = [
            application
            for details in self.connections.values()
            if (application := details.get("application_instance")) is not None and not application.done()
        ]
        for application in running:
            application.cancel()
        return Deferred.fromFuture(asyncio.gather(*running, return_exceptions=True))


def limits_of_settings() -> HttpLimits:
    body_bytes = settings.HTTP_BODY_KIB * KIB
    return HttpLimits(
        max_connections=settings.HTTP_CONNECTIONS,
        max_connections_per_address=settings.HTTP_CONNECTIONS_PER_ADDRESS,
        proxies=settings.TRUSTED_PROXIES,
        body_bytes=body_bytes,
        bodies_bytes=max(HttpLimits().bodies_bytes, 2 * body_bytes),
        head_s=settings.HTTP_HEAD_S,
        body_s=settings.HTTP_BODY_S,
    )
