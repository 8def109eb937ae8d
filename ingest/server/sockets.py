"""Sockets: those that a server listens on (plain, TLS, media), names and options, and what the kernel knows of one.

Listening ones can be closed, and opened again on the same ports. Of a connection, Linux tells `struct tcp_info`
(linux/tcp.h)."""

import asyncio
import fcntl
import itertools
import logging
import os
import socket
import struct
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ingest.addresses import LOCAL
from ingest.server.config import ServerConfig

KEEPALIVE_OPTIONS = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000))
"""Socket option, seconds (or probes); the last in milliseconds: for so long what was sent may go without an
acknowledgement, also by a peer that vanished when the connection was closed."""


def address(found: Any) -> tuple[str, int]:
    """(host, port) of a socket name; an IPv4 peer of an IPv6 listener in its own form, LOCAL of a Unix socket."""
    if isinstance(found, (str, bytes)):
        return (LOCAL, 0)
    if not isinstance(found, tuple) or len(found) < 2:
        return ("", 0)
    return (str(found[0]).removeprefix("::ffff:"), int(found[1]))


def relax_keepalive(connection: socket.socket | None) -> None:
    """The peer may cease to read for long: Linux would take it for dead, as it counts TCP_USER_TIMEOUT from when the
    peer's window closed, whatever is acknowledged meanwhile. From now on the server's deadlines find dead ones."""
    if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        with suppress(OSError):  # The peer is gone already; connection_lost follows.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)


def tune(connection: socket.socket | None, unsent_bytes: int) -> None:
    """No Nagle delay. The kernel finds dead peers, and holds at most `unsent_bytes` (0: as it likes) that it has not
    sent: what it holds can't be dropped for newer media any more."""
    if connection is None:
        return
    try:
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent_bytes)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE_OPTIONS:
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    except OSError:
        pass  # The peer is gone already; connection_lost follows.


# 8 one-byte fields, then u32s: rto, ato, snd_mss, rcv_mss, unacked, sacked, lost, retrans, fackets, last_data_sent,
# last_ack_sent, last_data_recv, last_ack_recv, pmtu, rcv_ssthresh, rtt, rttvar, snd_ssthresh, snd_cwnd, advmss,
# reordering, rcv_rtt, rcv_space, total_retrans; u64s: pacing_rate, max_pacing_rate, bytes_acked.
_LAYOUT = struct.Struct("=68xI28xI16xQ")
"""rtt, total_retrans and bytes_acked."""
_COUNT = struct.Struct("=i")


class TcpInfo(NamedTuple):
    rtt_ms: float | None
    retransmits: int | None
    """Segments sent again since the connection began."""
    acknowledged_bytes: int = 0
    """What the peer's kernel has taken since then; 0 where nobody knows."""


UNKNOWN = TcpInfo(None, None)
HAS_ROUND_TRIPS = sys.platform == "linux"


def tcp_info(connection: socket.socket | None) -> TcpInfo:
    """UNKNOWN for a closed socket and on systems other than Linux."""
    if connection is None or not HAS_ROUND_TRIPS:
        return UNKNOWN
    try:
        found = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAYOUT.size)
    except OSError:
        return UNKNOWN
    if len(found) < _LAYOUT.size:
        return UNKNOWN
    rtt_us, retransmits, acknowledged_bytes = _LAYOUT.unpack_from(found)
    return TcpInfo(rtt_us / 1000, retransmits, acknowledged_bytes)


def undelivered_bytes(connection: socket.socket | None) -> int:
    """What the kernel holds that the peer's kernel has not acknowledged; 0 too where it does not tell."""
    if connection is None:
        return 0
    try:
        found = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(_COUNT.size))
    except (OSError, ValueError):  # ValueError: it is closed.
        return 0
    waiting: int = _COUNT.unpack(found)[0]
    return waiting


logger = logging.getLogger(__name__)

Address = tuple[str, int]

LOCAL_MODE = 0o600
"""Of the Unix socket; who makes its folder closes that to others too."""

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
        self._protocols = {"rtmp": plain, "http": media}
        self._secure = secure
        self._servers: dict[str, list[asyncio.Server]] = {}
        """By scheme, but for TLS; `local`: on the Unix socket."""
        self._accepting: set[asyncio.Task[None]] = set()
        self._late: set[asyncio.Task[Any]] = set()
        self.bound: dict[str, list[Address]] = {"rtmp": [], "rtmps": [], "http": []}
        """By scheme: (host, port) of each, as bound, also while closed; none for those that are off."""
        self.local = ""
        """The Unix socket's path, likewise."""

    async def open(self) -> None:
        """Bind and listen, from the second time on at the addresses of the first. ListenError: nothing is open then."""
        config = self._config
        servers: dict[str, list[asyncio.Server]] = {"rtmp": [], "http": []}
        listeners: list[socket.socket] = []
        scheme, address = "", ("", 0)
        try:
            for scheme, wanted in (("rtmp", config.rtmp), ("http", config.media), ("rtmps", config.rtmps)):
                for address in self.bound[scheme] or filter(None, [wanted]):
                    if scheme == "rtmps":
                        for family, *_, target in await _resolve(address):
                            listeners += [
                                socket.create_server(
                                    target, family=family, backlog=config.backlog, reuse_port=config.reuse_port
                                )
                            ]
                            listeners[-1].setblocking(False)
                    else:
                        servers[scheme] += [await self._open(self._protocols[scheme], address)]
        except OSError as error:
            opened: list[asyncio.Server | socket.socket] = [*servers["rtmp"], *servers["http"], *listeners]
            for each in opened:
                each.close()
            raise ListenError(scheme, address, error) from error
        self.bound = {"rtmp": _bound(servers["rtmp"]), "rtmps": [], "http": _bound(servers["http"])}
        self._servers = servers
        if config.local:
            await self._open_local(config.local)
        for listener in listeners:
            self.bound["rtmps"].append(listener.getsockname()[:2])
            self._begin_to_accept(listener)

    def close(self) -> None:
        """Take no more connections; those that there are go on. Where others listen on the same ports, what the kernel
        has dealt out to this process is taken before: nobody else gets it."""
        if self._config.reuse_port:
            self._take_what_waits()
        for server in itertools.chain(*self._servers.values()):
            server.close()
        for task in self._accepting:
            task.cancel()
        self._servers = {}
        if self.local:
            with suppress(OSError):
                os.unlink(self.local)

    def _take_what_waits(self) -> None:
        loop = asyncio.get_running_loop()
        for scheme, protocol in self._protocols.items():
            for listening in itertools.chain(*(server.sockets for server in self._servers.get(scheme, ()))):
                for connected, _ in _accept_all(listening.fileno()):
                    task = loop.create_task(loop.connect_accepted_socket(protocol, connected))
                    self._late.add(task)
                    task.add_done_callback(self._late.discard)

    async def _open(self, protocol: Callable[[], asyncio.BaseProtocol], address: Address) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            protocol,
            *address,
            backlog=self._config.backlog,
            reuse_address=True,
            reuse_port=self._config.reuse_port or None,
        )

    async def _open_local(self, path: Path) -> None:
        """In place of one that a process left which has died. Without it the node serves all the same."""
        listener = socket.socket(socket.AF_UNIX)
        try:
            with suppress(FileNotFoundError):
                os.unlink(path)
            listener.bind(str(path))
            os.chmod(path, LOCAL_MODE)
            server = await asyncio.get_running_loop().create_unix_server(
                self._protocols["rtmp"], sock=listener, backlog=self._config.backlog
            )
        except OSError as error:
            listener.close()
            logger.warning(
                "%s can't be listened on: %s. Other nodes of this machine reach this one by its address instead.",
                path,
                error.strerror or error,
            )
        else:
            self._servers["local"] = [server]
            self.local = str(path)

    def _begin_to_accept(self, listener: socket.socket) -> None:
        def done(task: "asyncio.Task[None]") -> None:
            self._accepting.discard(task)
            if self._config.reuse_port:
                for connected, peer in _accept_all(listener.fileno()):
                    self._begin_tls(connected, peer)
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
            self._begin_tls(connected, address)

    def _begin_tls(self, connected: socket.socket, peer: Any) -> None:
        try:
            self._secure(connected, peer[:2])
        except Exception:  # Our own fault: this connection is given up, the others go on.
            logger.exception("rtmps %s:%d: given up", *peer[:2])
            connected.close()


def _accept_all(listener: int) -> list[tuple[socket.socket, Any]]:
    """What waits at the listening socket of this descriptor, with its peers' addresses."""
    found = []
    with socket.socket(fileno=os.dup(listener)) as same:
        same.setblocking(False)
        with suppress(OSError):  # BlockingIOError: nothing waits any more.
            while True:
                connected, peer = same.accept()
                connected.setblocking(False)
                found.append((connected, peer))
    return found


def _bound(servers: list[asyncio.Server]) -> list[Address]:
    return [listener.getsockname()[:2] for server in servers for listener in server.sockets]


async def _resolve(address: Address) -> list[tuple[Any, ...]]:
    host, port = address
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
