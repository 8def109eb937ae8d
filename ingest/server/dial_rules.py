"""Where streams may be pushed to and pulled from: not to private networks, unless an order allows it, and never to one
of this server's own listeners, from where the stream would come back without end."""

import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ingest.addresses import is_public
from ingest.server.sockets import Address

ANY: Final = ("0.0.0.0", "::")  # noqa: S104 - to recognise it.


def is_local(address: str) -> bool:
    """Whether it is an address of this machine, of whatever interface: only such can be bound."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


@dataclass(frozen=True, slots=True)
class DialRules:
    listening: Callable[[], Iterable[Address]]
    """The addresses of all of this server's listeners, as bound."""

    def forbids(self, address: str, port: int, *, private_allowed: bool) -> str:
        """Why this IP address may not be dialled, as a sentence; "": it may."""
        address = address.removeprefix("::ffff:")
        if self._is_own(address, port):
            return f"It leads to this server itself ({address}, port {port})."
        if not private_allowed and not is_public(address):
            return f"{address} is an address of a private network or of this machine, which is not allowed here."
        return ""

    def _is_own(self, address: str, port: int) -> bool:
        hosts = {host for host, bound in self.listening() if bound == port}
        if not hosts:
            return False
        return address in hosts or address in ANY or (bool(hosts.intersection(ANY)) and is_local(address))
