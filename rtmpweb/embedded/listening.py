"""Binding ports, or saying in one sentence why they can't be."""

import errno
import socket
from collections.abc import Mapping

Address = tuple[str, int]
"""Host and port."""

BACKLOG = 128


class ListenError(Exception):
    """The message is for the operator: what is in the way and what to do."""


def explain(error: OSError, address: Address, setting: str) -> ListenError:
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
            bound[setting] = _listen(address)
        except OSError as error:
            failed[setting] = error
    if not failed:
        return bound
    for opened in bound.values():
        opened.close()
    taken = [setting for setting, error in failed.items() if error.errno == errno.EADDRINUSE]
    if len(taken) == 1:
        taken = []
    sentences = [str(explain(failed[name], addresses[name], name)) for name in failed if name not in taken]
    if taken:
        ports = [f"{addresses[setting][1]} ({setting})" for setting in taken]
        sentences.append(
            f"Ports {', '.join(ports[:-1])} and {ports[-1]} are in use, by other programs or another rtmpweb. Stop it, "
            "or set these to other addresses."
        )
    raise ListenError(" ".join(sentences))


def _listen(address: Address) -> socket.socket:
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
