"""Names and options of sockets."""

import socket
from typing import Any

DEAD_PEERS = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000))
"""Socket option, seconds (or probes); the last in milliseconds: for so long what was sent may go without an
acknowledgement, also by a peer that vanished when the connection was closed."""


def address(found: Any) -> tuple[str, int]:
    """(host, port) of a socket name; an IPv4 peer of an IPv6 listener in its own form."""
    if not isinstance(found, tuple) or len(found) < 2:
        return ("", 0)
    return (str(found[0]).removeprefix("::ffff:"), int(found[1]))


def tune(connection: socket.socket | None) -> None:
    """No Nagle delay; let the kernel find dead peers."""
    if connection is None:
        return
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in DEAD_PEERS:
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    except OSError:
        pass  # The peer is gone already; connection_lost follows.
