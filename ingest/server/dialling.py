"""Where an RTMP connection that this server makes goes to, and how it comes there: the look-up of a name, TCP, TLS;
and when it is tried again.

A name is looked up once, and each of its addresses is asked about before any is dialled: one that answers differently
the next time changes nothing."""

import asyncio
import ipaddress
import random
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast
from urllib.parse import urlsplit

from ingest.contracts import PushFailure
from ingest.credentials import scrub_text

PORTS: Final = {"rtmp": 1935, "rtmps": 443}

JITTER: Final = 0.25
MOST_DOUBLINGS: Final = 16

_random = random.SystemRandom()

MOST_ADDRESSES: Final = 4
"""Of a name that are tried, one after the other."""

MOST_CODE: Final = 100
MOST_DESCRIPTION: Final = 300
"""Characters of what another server says that are told."""


class Failure(NamedTuple):
    """Why a connection is gone. `code`: the peer's own status; "": it gave none."""

    kind: PushFailure
    code: str
    description: str
    is_final: bool = False
    """It can't pass by itself."""
    redirect: str = ""
    """The URL that the peer has named in its own place."""

    def shown(self, *secrets: str) -> "Failure":
        """As people are told it: in one line each, not too long, without what is secret."""
        code, description = (
            " ".join(scrub_text(said, *secrets)[:most].split())
            for said, most in ((self.code, MOST_CODE), (self.description, MOST_DESCRIPTION))
        )
        return Failure(self.kind, code, description, self.is_final)

    @property
    def words(self) -> str:
        return f"{self.code}: {self.description}" if self.code else self.description


@dataclass(slots=True)
class Backoff:
    """Between tries: twice as long after each further one, and up to a quarter less, so that not all come at once."""

    first_s: float
    last_s: float
    _doublings: int = 0

    def next_s(self) -> float:
        delay = min(self.first_s * 2.0**self._doublings, self.last_s)
        self._doublings = min(self._doublings + 1, MOST_DOUBLINGS)
        return delay * (1 - JITTER * _random.random())

    def reset(self) -> None:
        self._doublings = 0


class Unreachable(Exception):  # noqa: N818 - a finding, not an error of ours.
    """There is nothing to dial."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.description)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Destination:
    scheme: Literal["rtmp", "rtmps", "unix"]
    host: str
    """Of a Unix socket: its path."""
    port: int
    app: str
    """With its query, if it has one."""
    given_url: str = ""
    """The connection's tcUrl, if it is to be as somebody has entered it."""

    @property
    def address(self) -> str:
        """For people: without what may be secret."""
        if self.scheme == "unix":
            return f"unix:{self.host}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    @property
    def tc_url(self) -> str:
        return self.given_url or f"{'rtmp://localhost' if self.scheme == 'unix' else self.address}/{self.app}"


def destination(url: str, app: str) -> Destination:
    """`url`: rtmp[s]://host[:port], or unix:/path. Raises ValueError for any other."""
    if url.startswith("unix:"):
        return Destination("unix", url.removeprefix("unix:"), 0, app)
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError(f"{url} is no address of an RTMP server")
    scheme = cast("Literal['rtmp', 'rtmps']", parts.scheme)
    return Destination(scheme, parts.hostname, parts.port or PORTS[scheme], app)


def destination_of(tc_url: str) -> Destination:
    """By the whole URL of an application, rtmp[s]://host[:port]/app[/instance][?query]: all behind the host is the
    app, but for a last '/', as encoders have it. Raises ValueError, whose text has nothing of the URL."""
    try:
        parts = urlsplit(tc_url)
        if parts.scheme not in PORTS:  # A socket of this machine is for orders of relays alone.
            raise ValueError
        to = destination(f"{parts.scheme}://{parts.netloc}", "")
    except ValueError:
        raise ValueError("It is no URL of an RTMP server.") from None
    app = parts.path.strip("/") + (f"?{parts.query}" if parts.query else "")
    given_url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{app}"
    return Destination(to.scheme, to.host, to.port, app, given_url)


Forbids = Callable[[str, int], str]
"""Why this IP address and port may not be dialled, as a sentence; "": they may."""


@lru_cache(maxsize=8)
def tls_context(ca: Path | None) -> ssl.SSLContext:
    """Kept, as the system's certificates take some 20 ms to load."""
    context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


Places = list[tuple[int, Any]]
"""Each a family of addresses, and a socket's address of it."""


def _is_name(host: str) -> bool:
    """Which may lead elsewhere in a while, unlike an address, or this machine's name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host != "localhost"
    return False


async def look_up(to: Destination, forbids: Forbids | None) -> Places:
    """Raises Unreachable."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise Unreachable(Failure("address", "", f"The name {to.host} can't be looked up: {why}.")) from None
    if forbids is not None:
        for row in found:
            if why := forbids(str(row[4][0]), to.port):
                raise Unreachable(Failure("address", "", why, is_final=not _is_name(to.host)))
    return list(dict.fromkeys((int(row[0]), row[4]) for row in found))[:MOST_ADDRESSES]


async def connect_to(places: Places, timeout_s: float) -> socket.socket:
    """The first of them that answers, each in its part of the time. Raises OSError, of the last one."""
    error: OSError = TimeoutError("it has no address")
    for family, place in places:
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setblocking(False)
        try:
            async with asyncio.timeout(timeout_s / (len(places) + 1)):
                await asyncio.get_running_loop().sock_connect(made, place)
        except OSError as found:  # TimeoutError is one.
            made.close()
            error = found
        except BaseException:
            made.close()
            raise
        else:
            return made
    raise error
