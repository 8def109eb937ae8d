"""What people enter of other servers: rtmp[s]://host[:port]/app, with the stream's key or name behind it or apart; and
which of these are refused: what can't be reached, private networks, and ourselves."""

import re
import socket
from dataclasses import dataclass, field
from typing import Final, NoReturn, Self
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError

from ingest.addresses import is_private
from ingest.credentials import MASK, scrub_text
from ingest.models import Application, Node
from ingest.models.relays import MAX_KEY, MAX_URL
from ingest.services.media_urls import PORTS, WILDCARDS

SCHEMES: Final = tuple(PORTS)
HOST: Final = re.compile(r"(?!-)[\w.-]{1,253}|\[[0-9a-fA-F:.]{2,45}\]", re.ASCII)
APP: Final = re.compile(r"[^\s?#]+")

NOT_RTMP = "Begin with rtmp:// or rtmps://, as the platform gives it."
NO_HOST = "Enter a host's name or address behind rtmp://, and a port from 1 to 65535 if it has another."
NO_APP = "Enter the application behind the host, as the platform gives it: rtmp://host/app."
BLANKS = "Take out the blanks: neither a server nor a key has any."
PRIVATE = "This is an address of a private network or of this machine. RTMPWEB_RELAY_PRIVATE=1 allows those."
OURSELVES = "This is a server of this installation: the stream would come back to it. Enter another server."
USER_INFO = "Enter the server without a user and password: only its key is kept as a secret."
QUERY = "The server ends before the “?”: put what follows behind the key, as KEY?…"
NO_KEY = "Enter the key, as the platform gives it."
NO_NAME = "Enter the whole URL, with the stream's name behind the application: rtmp://host/app/name."


@dataclass(frozen=True, slots=True)
class Address:
    """A URL in its parts. `app` and what follows it are as they were entered."""

    scheme: str
    user_info: str = field(repr=False)
    """ "user:password@", or ""."""
    host: str
    """In brackets, where it is of IPv6."""
    port: int | None
    path: str = field(repr=False)
    """Behind the host, without slashes at its ends."""
    query: str = field(repr=False)
    """With its "?", or ""."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Raises ValidationError."""
        if len(text) > MAX_URL + MAX_KEY:
            raise ValidationError(f"This is too long: {len(text)} characters, {MAX_URL} at most.")
        if re.search(r"\s", text) or not text.isprintable():
            raise ValidationError(BLANKS)
        scheme, separator, rest = text.partition("://")
        if not separator or scheme.lower() not in SCHEMES:
            raise ValidationError(NOT_RTMP)
        head, question, query = rest.partition("?")
        place, _, path = head.partition("/")
        user, at, host = place.rpartition("@")
        host, port = _host_and_port(host)
        return cls(scheme.lower(), user + at, host, port, path.strip("/"), question + query)

    @property
    def base(self) -> str:
        """Without user and password."""
        return f"{self.scheme}://{self.host}" + (f":{self.port}" if self.port is not None else "")

    @property
    def split(self) -> tuple[str, str]:
        """The application, and the last part of the path, which is a stream's key or name; "": there is none."""
        app, slash, last = self.path.rpartition("/")
        return (app, last) if slash else (last, "")

    def check(self, app: str) -> None:
        """That it may be connected to. Raises ValidationError."""
        if not settings.RELAY_PRIVATE and is_private(self.base):
            raise ValidationError(PRIVATE)
        if self._is_ourselves(app):
            raise ValidationError(OURSELVES)

    def _is_ourselves(self, app: str) -> bool:
        host, port = _plain(self.host), self.port or PORTS[self.scheme]
        if (host, port) not in own_places():
            return False
        return Application.objects.filter(name=app.partition("/")[0]).exists()


def _host_and_port(text: str) -> tuple[str, int | None]:
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    host = host if colon else text
    if not HOST.fullmatch(host) or (colon and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536)):
        raise ValidationError(NO_HOST)
    try:
        urlsplit(f"rtmp://{host}")
    except ValueError:  # What is in brackets is no address.
        raise ValidationError(NO_HOST) from None
    return host.lower(), int(port) if colon else None


def _plain(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


OWN_NAMES: Final = ("localhost", "127.0.0.1", "::1")


def own_places() -> set[tuple[str, int]]:
    """Host and port of all that is known to lead to a listener of this installation."""
    listeners = [each for each in (settings.RTMP_ADDRESS, settings.RTMPS_ADDRESS) if each is not None]
    places = set()
    for host, port in listeners:
        names = {*OWN_NAMES, socket.gethostname()} if host in WILDCARDS else {host}
        places |= {(_plain(name), port) for name in (*names, settings.RTMP_HOST) if name}
    urls = [*Node.objects.exclude(url="").order_by().values_list("url", flat=True), settings.NODE_URL]
    for url in filter(None, urls):
        try:
            parts = urlsplit(url)
            places.add((_plain(parts.hostname or ""), parts.port or PORTS.get(parts.scheme, 1935)))
        except ValueError:  # Of a node of another version.
            continue
    return places


def _refuse(where: str, words: str) -> NoReturn:
    raise ValidationError({where: words})


def split_push(url: str, key: str) -> tuple[str, str]:
    """A target's server and key, which were entered apart, or as one URL. Raises ValidationError, by field."""
    key = key.strip().lstrip("/")
    try:
        address = Address.read(url.strip())
    except ValidationError as problem:
        raise ValidationError({"url": problem.messages}) from None
    if address.user_info:
        _refuse("url", USER_INFO)
    app = address.path
    if key:
        app = app.removesuffix(f"/{key}") if not address.query else app
        if address.query:
            _refuse("url", QUERY)
    else:
        app, last = address.split
        key = last + address.query if last else ""
    if not APP.fullmatch(app):
        _refuse("url", NO_APP)
    if not key:
        _refuse("key", NO_KEY)
    if len(key) > MAX_KEY or not key.isprintable() or re.search(r"\s", key):
        _refuse("key", BLANKS if len(key) <= MAX_KEY else f"A key has {MAX_KEY} characters at most.")
    server = f"{address.base}/{app}"
    if len(server) > MAX_URL:
        _refuse("url", f"This is too long: {len(server)} characters, {MAX_URL} at most.")
    try:
        address.check(app)
    except ValidationError as problem:
        raise ValidationError({"url": problem.messages}) from None
    return server, key


@dataclass(frozen=True, slots=True)
class Source:
    """What is played, and of whom. `shown`: the same without what is secret."""

    url: str = field(repr=False)
    """The connection's: with user and password, if it has them."""
    name: str = field(repr=False)
    """With its query."""
    shown: str


def split_pull(text: str) -> Source:
    """Raises ValidationError."""
    address = Address.read(text.strip())
    app, name = address.split
    if not app or not name:
        raise ValidationError(NO_NAME)
    address.check(app)
    user = f"{MASK}@" if address.user_info else ""
    query = f"?{MASK}" if address.query else ""
    shown = f"{address.scheme}://{user}{address.base.partition('://')[2]}/{app}/{scrub_text(name)}{query}"
    if len(shown) > MAX_URL:
        raise ValidationError(f"This is too long: {len(shown)} characters, {MAX_URL} at most.")
    url = f"{address.scheme}://{address.user_info}{address.base.partition('://')[2]}/{app}"
    return Source(url, name + address.query, shown)


SHORTEST_SOUGHT: Final = 4
SHORTEST_PART: Final = 8
"""Of a secret's parts: shorter ones are words of others."""


def without_secrets(text: str, *secrets: str) -> str:
    """What another server said, without the key or credentials that it may quote, whole, in parts, or as URLs have
    them; and without what looks like a secret anyway."""
    parts = {secret for secret in secrets if len(secret) >= SHORTEST_SOUGHT}
    for secret in secrets:
        parts |= {each for each in re.split(r"[/:?&=@]", secret) if len(each) >= SHORTEST_PART}
    for part in sorted(parts | set(map(quote, parts)), key=len, reverse=True):
        text = text.replace(part, MASK)
    return scrub_text(text)
