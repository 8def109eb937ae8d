"""How a message goes out: by a POST to a webhook, or by e-mail.

A webhook's address was entered by somebody: it is sent to public hosts only, to no other place, and for so long at
most. The name is looked up once, each of its addresses judged, and one of those is connected to: a name that answers
differently the next time changes nothing. No redirect is followed and no proxy of the environment is used; of the
answer only its beginning is read. An e-mail is plain text with the same as simple HTML, by Django's mail."""

import asyncio
import ipaddress
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.template.loader import render_to_string

from dashboard.models import Delivery
from ingest.contracts.health import CHECK_NAMES
from ingest.services.outgoing import NO_MAIL_SERVER, close_mail, is_mail_set, send_mail, tls_context

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 10.0
"""For all of it, from the name's look-up to the answer's beginning."""
MAX_EXCERPT = 512
MAX_ADDRESSES = 3
"""Of a name that are tried."""

NAT64 = ipaddress.ip_network("64:ff9b::/96")
GIVEN_OUT = ipaddress.ip_network("2000::/3")
"""All of IPv6 that has been given to networks of the internet."""
SPECIAL = (ipaddress.ip_network("192.0.0.0/24"), ipaddress.ip_network("192.88.99.0/24"))
"""Of IPv4, besides what the standard library knows: for protocols, and 6to4's former relays."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`status`: None where there was no answer, for the reason in `error`. `excerpt`: how its body began."""

    status: int | None
    error: str
    excerpt: str
    duration_ms: int

    @property
    def ok(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class NotAllowed(Exception):  # noqa: N818 - an answer, not an error.
    """The URL leads where nothing is sent. The message says why."""


def is_public(text: str) -> bool:
    """Whether the IP address is one of the internet's: not this machine's, not a private network's, no group's."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if address in NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        return address in GIVEN_OUT and address.is_global
    return address.is_global and not address.is_multicast and not any(address in network for network in SPECIAL)


def is_private(url: str) -> bool:
    """Whether the URL's host is written as an address that is not public, or as this machine's name."""
    host = urlsplit(url).hostname or ""
    try:
        return not is_public(host)
    except ValueError:  # A name: it is looked up when something is sent.
        return host == "localhost" or host.endswith(".localhost")


async def _addresses(host: str, port: int, private: bool) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NotAllowed(f"The name {host} can't be looked up: {error}") from None
    addresses = list(dict.fromkeys(str(row[4][0]) for row in found))
    if not private and not all(is_public(address) for address in addresses):
        raise NotAllowed(
            f"{host} is an address of a private network or of this machine. RTMPWEB_WEBHOOK_PRIVATE=1 allows those."
        )
    return addresses[:MAX_ADDRESSES]


async def post(
    url: str, body: bytes, headers: Mapping[str, str], *, private: bool, timeout_s: float = TIMEOUT_S
) -> Answer:
    """Sends it. `private`: to addresses of private networks as well. Never raises for what the other side does."""
    import httpx  # Loaded only where something is sent.

    began = time.monotonic()

    def answer(status: int | None = None, error: str = "", excerpt: str = "") -> Answer:
        return Answer(status, error, excerpt, round((time.monotonic() - began) * 1000))

    try:
        async with asyncio.timeout(timeout_s):
            status, excerpt = await _post(url, body, headers, private)
    except TimeoutError:
        return answer(error=f"There was no answer within {timeout_s:g} s.")
    except NotAllowed as refused:
        return answer(error=str(refused))
    except httpx.ConnectError as error:
        return answer(error=f"It can't be connected to: {error}")
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return answer(error=f"It broke off: {error or type(error).__name__}")
    if 300 <= status < 400:
        return answer(status, "It redirects to elsewhere, which is not followed: enter the final address.", excerpt)
    return answer(status, "" if 200 <= status < 300 else f"It answered {status}.", excerpt)


async def _post(url: str, body: bytes, headers: Mapping[str, str], private: bool) -> tuple[int, str]:
    import httpx

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise NotAllowed("The URL has to begin with http:// or https:// and a host's name.")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    addresses = await _addresses(parts.hostname, port, private)
    async with httpx.AsyncClient(
        verify=tls_context(), trust_env=False, follow_redirects=False, timeout=TIMEOUT_S
    ) as client:
        for last, address in ((address == addresses[-1], address) for address in addresses):
            request = client.build_request(
                "POST",
                httpx.URL(url).copy_with(host=address, username=None, password=None),
                content=body,
                headers={**headers, "Host": parts.netloc.rpartition("@")[2], "Accept-Encoding": "identity"},
                extensions={"sni_hostname": parts.hostname},
            )
            try:
                response = await client.send(request, stream=True)
            except httpx.ConnectError:
                if last:
                    raise
                continue
            try:
                return response.status_code, await _beginning(response)
            finally:
                await response.aclose()
    raise NotAllowed("The name has no address.")


async def _beginning(response: "httpx.Response") -> str:
    read = b""
    async for chunk in response.aiter_raw():
        read += chunk
        if len(read) >= MAX_EXCERPT:
            break
    return read[:MAX_EXCERPT].decode("utf-8", "replace")


SUBJECT_BEGINS = {"alert.opened": "", "alert.repeated": "Still: ", "alert.cleared": "Cleared: "}
"""How a subject begins, by kind."""

LEVEL_WORDS = {"bad": "Bad", "warning": "Warning"}


def email_subject(body: dict[str, Any]) -> str:
    """Stream, fact and level; of what has cleared, what it was."""
    alert = body["alert"]
    is_over = body["kind"] == "alert.cleared"
    fact = str(CHECK_NAMES.get(alert["check"], alert["title"]) if is_over else alert["title"]).rstrip(".")
    level = "" if is_over else f" ({LEVEL_WORDS.get(alert['level'], alert['level'])})"
    return " ".join(f"{SUBJECT_BEGINS.get(body['kind'], '')}{alert['subject']}: {fact}{level}".split())


@contextmanager
def mail_server() -> Iterator[Callable[[Sequence[Delivery]], list[Answer]]]:
    """What sends messages, all by one connection. An answer's status is SMTP's: None where the server is away."""
    if not is_mail_set():
        yield lambda those: [Answer(None, NO_MAIL_SERVER, "", 0) for _ in those]
        return
    connection = get_connection()
    try:
        yield lambda those: [_send(connection, row) for row in those]
    finally:
        close_mail(connection)


def _send(connection: BaseEmailBackend, row: Delivery) -> Answer:
    began = time.monotonic()
    status, error = send_mail(connection, email_message(row))
    return Answer(status, error, "", round((time.monotonic() - began) * 1000))


def email_message(row: Delivery) -> EmailMultiAlternatives:
    """Its Message-ID is the delivery's: one that is sent again, since its worker died, is known for the same."""
    body = row.body
    context = {"alert": body["alert"], "kind": body["kind"], "rule": body["rule"], "url": body["url"]}
    domain = settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].rstrip(">") or "localhost"
    made = EmailMultiAlternatives(
        email_subject(body),
        render_to_string("dashboard/mail/alert.txt", context),
        to=[row.email],
        headers={"Message-ID": f"<{row.pk}@{domain}>", "Auto-Submitted": "auto-generated"},
    )
    made.attach_alternative(render_to_string("dashboard/mail/alert.html", context), "text/html")
    return made
