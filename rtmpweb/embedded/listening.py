"""Binding a port, or saying in one sentence why it can't be."""

import errno
import socket


class ListenError(Exception):
    """The message is for the operator: what is in the way and what to do."""


def explain(error: OSError, address: tuple[str, int], setting: str) -> ListenError:
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


def listen(address: tuple[str, int], setting: str, backlog: int = 128) -> socket.socket:
    """A listening TCP socket. Port 0 takes a free one. Raises ListenError."""
    host, port = address
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(target)
            bound.listen(backlog)
            bound.setblocking(False)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise explain(error, address, setting) from error
    return bound


def url_host(host: str) -> str:
    """The host as a URL writes it; a wildcard becomes the loopback address, by which this machine reaches it."""
    host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound.
    return f"[{host}]" if ":" in host else host
