"""The sockets that a server listens on: plain, TLS, media. They can be closed, and opened again on the same ports."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from typing import Any

from ingest.server.config import ServerConfig

logger = logging.getLogger(__name__)

Address = tuple[str, int]

ACCEPT_AGAIN_S = 1.0
"""After a connection couldn't be accepted, most likely for want of file descriptors."""


class ListenError(OSError):
    """An address that can't be listened on. `errno` and `strerror` are the system's; `scheme`: rtmp, rtmps or http."""

    def __init__(self, scheme: str, address: Address, error: OSError) -> None:
        super().__init__(error.errno, os.strerror(error.errno) if error.errno else str(error))
        self.scheme = scheme
        self.address = address


class Listening:
    """Plain connections are the event loop's to accept, each with a protocol of its own.

    Those that will speak TLS are accepted here, one by one, so that they are known, counted and limited before their
    handshake: a listener of the event loop tells of them only after it.
    """

    def __init__(
        self,
        config: ServerConfig,
        plain: Callable[[], asyncio.BaseProtocol],
        secure: Callable[[socket.socket, Address], None],
        media: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        """`secure` gets each connected socket of the TLS port, and its peer's address."""
        self._config = config
        self._plain_protocol = plain
        self._media_protocol = media
        self._secure = secure
        self._servers: list[asyncio.Server] = []
        self._accepting: set[asyncio.Task[None]] = set()
        self.plain: list[Address] = []
        """(host, port) as bound, also while closed."""
        self.tls: list[Address] = []
        self.media: list[Address] = []

    async def open(self) -> None:
        """Bind and listen, from the second time on at the addresses of the first. ListenError: nothing is open then."""
        config = self._config
        servers: list[asyncio.Server] = []
        media: list[asyncio.Server] = []
        listeners: list[socket.socket] = []
        scheme, address = "rtmp", ("", 0)
        try:
            for address in self.plain or filter(None, [config.rtmp]):
                servers += [await self._open(self._plain_protocol, address)]
            scheme = "http"
            for address in self.media or filter(None, [config.media]):
                media += [await self._open(self._media_protocol, address)]
            scheme = "rtmps"
            for address in self.tls or filter(None, [config.rtmps]):
                for info in await _resolve(address):
                    listeners += [_listen(info, config.backlog)]
        except OSError as error:
            opened: list[asyncio.Server | socket.socket] = [*servers, *media, *listeners]
            for each in opened:
                each.close()
            raise ListenError(scheme, address, error) from error
        self.plain = _bound(servers)
        self.media = _bound(media)
        self.tls = [listener.getsockname()[:2] for listener in listeners]
        self._servers = [*servers, *media]
        for listener in listeners:
            self._begin_to_accept(listener)

    def close(self) -> None:
        """Take no more connections; those that there are go on."""
        for server in self._servers:
            server.close()
        for task in self._accepting:
            task.cancel()
        self._servers = []

    async def _open(self, protocol: Callable[[], asyncio.BaseProtocol], address: Address) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            protocol, *address, backlog=self._config.backlog, reuse_address=True
        )

    def _begin_to_accept(self, listener: socket.socket) -> None:
        def done(task: "asyncio.Task[None]") -> None:
            self._accepting.discard(task)
            listener.close()  # Not before the loop has let go of it.

        task = asyncio.get_running_loop().create_task(self._accept(listener))
        self._accepting.add(task)
        task.add_done_callback(done)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connected, address = await loop.sock_accept(listener)
            except OSError as error:
                logger.error(
                    "rtmps: a connection can't be accepted: %s. Raise the limit of open files, if that is it.",
                    error.strerror,
                )
                await asyncio.sleep(ACCEPT_AGAIN_S)
                continue
            try:
                self._secure(connected, address[:2])
            except Exception:  # Our own fault: this connection is given up, the others go on.
                logger.exception("rtmps %s:%d: given up", *address[:2])
                connected.close()


def _bound(servers: list[asyncio.Server]) -> list[Address]:
    return [listener.getsockname()[:2] for server in servers for listener in server.sockets]


async def _resolve(address: Address) -> list[tuple[Any, ...]]:
    host, port = address
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)


def _listen(info: tuple[Any, ...], backlog: int) -> socket.socket:
    """A listening socket for one answer of getaddrinfo."""
    family, kind, protocol, _, target = info
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.setblocking(False)
        listener.bind(target)
        listener.listen(backlog)
    except OSError:
        listener.close()
        raise
    return listener
