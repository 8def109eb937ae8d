"""Binding ports, or saying in one sentence why they can't be; Daphne on a socket that is bound already, with our
bounds.

For `serve` and `runweb`."""

import asyncio
import errno
import logging
import socket
from collections.abc import Mapping
from typing import Any

from rtmpweb.embedded.reactor import reactor  # isort: skip - before Daphne, which would install another.
from daphne.server import Server
from django.conf import settings
from twisted.internet.defer import Deferred

from ingest.rtmp.limits import KIB
from ingest.server import connections_possible
from ingest.server.process import raise_open_file_limit
from rtmpweb.embedded.connections import Factory, HttpLimits, Socket

Address = tuple[str, int]
"""Host and port."""

BACKLOG = 128


class ListenError(Exception):
    """The message is for the operator: what is in the way and what to do."""


def explain_listen_error(error: OSError, address: Address, setting: str) -> ListenError:
    host, port = address
    where = f"{host}:{port} ({setting})"
    if error.errno == errno.EADDRINUSE:
        return ListenError(
            f"Port {port} is in use: another program, or another rtmpweb, listens on {where}. "
            f"Stop it, or set {setting} to another address."
        )
    if error.errno == errno.EACCES:
        return ListenError(f"Port {port} may not be used by this user: set {setting} to a port of 1024 or higher.")
    return ListenError(
        f"Cannot listen on {where}: {error.strerror or error}. Set {setting} to an address of this host."
    )


def listen(addresses: Mapping[str, Address]) -> dict[str, socket.socket]:
    """A listening TCP socket at the address of each setting; port 0 takes a free one.

    Raises ListenError, which names all that can't be had.
    """
    bound: dict[str, socket.socket] = {}
    failed: dict[str, OSError] = {}
    for setting, address in addresses.items():
        try:
            bound[setting] = open_listener(address)
        except OSError as error:
            failed[setting] = error
    if not failed:
        return bound
    for opened in bound.values():
        opened.close()
    busy = [setting for setting, error in failed.items() if error.errno == errno.EADDRINUSE]
    if len(busy) == 1:
        busy = []
    sentences = [str(explain_listen_error(failed[name], addresses[name], name)) for name in failed if name not in busy]
    if busy:
        ports = [f"{addresses[setting][1]} ({setting})" for setting in busy]
        sentences.append(
            f"Ports {', '.join(ports[:-1])} and {ports[-1]} are in use, by other programs or another rtmpweb. Stop it, "
            "or set these to other addresses."
        )
    raise ListenError(" ".join(sentences))


def open_listener(address: Address) -> socket.socket:
    """Raises OSError."""
    host, port = address
    family, kind, protocol, _, target = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(target)
        bound.listen(BACKLOG)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound


def url_host(host: str) -> str:
    """The host as a URL writes it; a wildcard becomes the loopback address, by which this machine reaches it."""
    host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound.
    return f"[{host}]" if ":" in host else host


logger = logging.getLogger(__name__)


class HttpServer(Server):  # type: ignore[misc]
    """Daphne's server, but with a bound socket and a factory of our own, and without its own signal handlers."""

    def __init__(self, application: Any, listener: socket.socket, *, beside: int = 0) -> None:
        """`beside`: how many connections this process may have that are not its."""
        body_bytes = settings.HTTP_BODY_KIB * KIB
        self._limits = HttpLimits(
            max_connections=settings.HTTP_CONNECTIONS,
            max_connections_per_address=settings.HTTP_CONNECTIONS_PER_ADDRESS,
            proxies=settings.TRUSTED_PROXIES,
            body_bytes=body_bytes,
            bodies_bytes=max(HttpLimits().bodies_bytes, 2 * body_bytes),
            head_s=settings.HTTP_HEAD_S,
            body_s=settings.HTTP_BODY_S,
        )
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
        if not raise_open_file_limit(self._limits.max_connections + beside):
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
