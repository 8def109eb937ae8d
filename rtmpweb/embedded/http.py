"""Daphne on a socket that is already listening."""

import asyncio
import socket
from typing import Any

from rtmpweb.embedded.reactor import reactor  # isort: skip - before Daphne, which would install another.

from daphne.server import Server
from twisted.internet.defer import Deferred


class HttpServer(Server):  # type: ignore[misc]
    """Daphne's server, but with a bound socket, and without its own signal handlers."""

    def __init__(self, application: Any, listener: socket.socket) -> None:
        super().__init__(
            application,
            endpoints=["the socket below"],  # Daphne refuses to be made without any.
            signal_handlers=False,
            server_name="rtmpweb",
            ready_callable=self._adopt,
        )
        self.endpoints: list[str] = []
        self._listener = listener

    def _adopt(self) -> None:
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
