"""Names and options of sockets."""

import socket
from contextlib import suppress
from typing import Any

DEAD_PEERS = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000))
"""Socket option, seconds (or probes); the last in milliseconds: for so long what was sent may go without an
acknowledgement, also by a peer that vanished when the connection was closed."""


def address(found: Any) -> tuple[str, int]:
    """(host, port) of a socket name; an IPv4 peer of an IPv6 listener in its own form."""
    if not isinstance(found, tuple) or len(found) < 2:
        return ("", 0)
    return (str(found[0]).removeprefix("::ffff:"), int(found[1]))


def be_patient(connection: socket.socket | None) -> None:
    """The peer may cease to read for long: Linux would take it for dead, as it counts TCP_USER_TIMEOUT from when the
    peer's window closed, whatever is acknowledged meanwhile. From now on the server's deadlines find dead ones."""
    if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        with suppress(OSError):  # The peer is gone already; connection_lost follows.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)


def tune(connection: socket.socket | None, unsent_bytes: int) -> None:
    """No Nagle delay; let the kernel find dead peers, and hold no more than `unsent_bytes` (0: any number) that it has
    not sent: what it holds can't be dropped for newer media any more."""
    if connection is None:
        return
    try:
        if unsent_bytes and hasattr(socket, "TCP_NOTSENT_LOWAT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent_bytes)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in DEAD_PEERS:
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    except OSError:
        pass  # The peer is gone already; connection_lost follows.
