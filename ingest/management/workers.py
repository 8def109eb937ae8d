"""Several media nodes of one machine on the same ports, each a process (`manage.py runrtmp`) that is kept running."""

import asyncio
import signal
import socket
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from django.conf import settings

from ingest.consumers.startup import SETTINGS
from ingest.management.base import END_DRAIN, StopSignals
from ingest.management.children import Child, Program
from ingest.server import ListenError
from ingest.services import data_folder, nodes
from ingest.services.installation import StartError
from ingest.siblings import Siblings

Address = tuple[str, int]

LISTENING = "Listening on "
"""With what the line of a node begins that takes connections."""

STOP_S = 20.0
"""For a worker to write what is known of it, once its sessions have ended."""


def add_argument(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--workers",
        type=_count,
        metavar="N",
        help="processes that take connections on the same ports, each a media node (RTMPWEB_WORKERS)",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= settings.MOST_WORKERS:
        raise ArgumentTypeError(f"{text!r} is no number of workers: expected 1 to {settings.MOST_WORKERS}")
    return int(text)


def name_of(base: str, number: int) -> str:
    """Of a worker's node; numbers begin with 1."""
    return f"{base}-{number}"


def siblings_of(number: int, count: int) -> Siblings:
    """In a worker, whose node has its number in its name. Raises StartError."""
    try:
        data_folder.make_socket_folder(settings.DATA_DIR)
    except OSError as error:
        folder = data_folder.socket_folder(settings.DATA_DIR)
        raise StartError(
            f"The folder {folder} can't be used: {error.strerror}. By sockets there the workers share their limits and "
            "bans: let this user make it, and nobody else."
        ) from None
    base = nodes.own_name().removesuffix(f"-{number}")
    return Siblings(
        number,
        {
            other: data_folder.node_socket(settings.DATA_DIR, name_of(base, other), "worker")
            for other in range(1, count + 1)
        },
    )


class Ports:
    """Bound for as long as the workers are kept running, and not listened on: so nobody else takes them while there is
    no worker, and one that is taken is found before there is any."""

    def __init__(self) -> None:
        self.addresses: dict[str, Address] = {}
        """By scheme, as workers have to bind them: port 0 has become the one that was free."""
        self._held = ExitStack()

    def bind(self, wanted: Mapping[str, Address | None]) -> None:
        """Raises ListenError."""
        with ExitStack() as held:
            for scheme in SETTINGS:
                if address := wanted.get(scheme):
                    try:
                        self.addresses[scheme] = _hold(address, held)
                    except OSError as error:
                        raise ListenError(scheme, address, error) from error
            self._held = held.pop_all()

    def release(self) -> None:
        self._held.close()


def _hold(address: Address, held: ExitStack) -> Address:
    host, port = address
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, target in dict.fromkeys((family, target) for family, *_, target in found):
        here = (target[0], port, *target[2:])
        if port:  # Whoever shares it as well, such as other workers, is found only by one that does not.
            _bound(family, here, shared=False).close()
        port = held.enter_context(_bound(family, here, shared=True)).getsockname()[1]
    return host, port


def _bound(family: int, address: tuple[object, ...], *, shared: bool) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


class Workers:
    """`bind`, then `start`, until `stop`. One that dies is started again; the others go on."""

    def __init__(self, count: int, write: Callable[[str], None], *, grace_s: float) -> None:
        """`write` takes each line of their output. `grace_s`: for sessions to end, at the stop."""
        self.names = [name_of(nodes.own_name(), number) for number in range(1, count + 1)]
        self._write = write
        self._grace_s = grace_s
        self._ports = Ports()
        self._children: list[Child] = []

    def bind(self, wanted: Mapping[str, Address | None]) -> Mapping[str, Address]:
        """The address of each scheme as bound. Raises ListenError."""
        self._ports.bind(wanted)
        return self._ports.addresses

    async def start(self, **environment: str) -> None:
        """Returns when all take connections. Raises StartError when one ends before: what it said was written.

        `environment`: what is to be set for them, beside their names and addresses.
        """
        for number, name in enumerate(self.names, 1):
            child = Child(self._program(number, name, environment), self._write)
            child.start()
            self._children.append(child)
        begun = await asyncio.gather(*(child.has_begun() for child in self._children))
        failed = [name for name, has_begun in zip(self.names, begun, strict=True) if not has_begun]
        if failed:
            await self.stop()
            raise StartError(f"Not all workers could start: {', '.join(failed)}. Each says above why.")

    def _program(self, number: int, name: str, environment: Mapping[str, str]) -> Program:
        addresses = self._ports.addresses
        return Program(
            name,
            (
                *(sys.executable, str(Path(settings.BASE_DIR) / "manage.py"), "runrtmp", "--skip-checks"),
                *("--worker", str(number), "--workers", str(len(self.names)), "--grace", str(self._grace_s)),
            ),
            environment={
                "RTMPWEB_NODE": name,
                "RTMPWEB_DATA_DIR": str(settings.DATA_DIR),
                **{setting: address_text(addresses.get(scheme)) for scheme, setting in SETTINGS.items()},
                **environment,
            },
            ready=LISTENING,
        )

    def reload_certificate(self) -> None:
        self._signal(signal.SIGHUP)

    async def drain(self, signals: StopSignals) -> None:
        """Has them drain and end, if they are to drain before a stop; a further signal ends the drain."""
        if settings.DRAIN_S:
            await signals.until_next(self._stop(settings.DRAIN_S))

    async def stop(self) -> None:
        """Ends all of them in order; a drain is over now."""
        self._signal(END_DRAIN)
        await self._stop(0)
        self._ports.release()

    async def _stop(self, drain_s: float) -> None:
        await asyncio.gather(*(child.stop(drain_s + self._grace_s + STOP_S) for child in self._children))

    def _signal(self, number: signal.Signals) -> None:
        for child in self._children:
            child.send_signal(number)

    def kill(self) -> None:
        for child in self._children:
            child.kill()


def address_text(address: Address | None) -> str:
    """As the settings have it."""
    if address is None:
        return "off"
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
