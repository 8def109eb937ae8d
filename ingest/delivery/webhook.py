"""The channel of webhooks: a POST with JSON, signed.

A webhook's address was entered by somebody: it is sent to public hosts only, to no other place, and for so long at
most. The name is looked up once, each of its addresses checked, and one of those is connected to: a name that answers
differently the next time changes nothing. No redirect is followed and no proxy of the environment is used; of the
answer only its beginning is read."""

import asyncio
import json
import re
import socket
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from django.conf import settings

from ingest.addresses import is_public
from ingest.delivery.channel import MAX_EXCERPT, Answer, Channel
from ingest.models import Delivery, Webhook
from ingest.services.callback import SIGNATURE_HEADER, beginning, signature, tls_context
from ingest.services.keys import keyed_hash

USER_AGENT = "rtmpweb-webhook/1"


def secret_of(webhook: Webhook) -> str:
    """What its messages are signed with."""
    return f"whsec_{keyed_hash('webhook', webhook.salt)}"


class WebhookChannel(Channel[bytes]):
    name = "webhook"
    receiver = "webhook"
    claim_s = 60.0
    at_once = 8
    is_exclusive = True

    def prepare(self, row: Delivery) -> bytes:
        return json.dumps(row.body, separators=(",", ":"), ensure_ascii=False).encode()

    def send(self, rows: Sequence[tuple[Delivery, bytes]]) -> list[Answer]:
        return asyncio.run(_post_all(rows))


async def _post_all(rows: Sequence[tuple[Delivery, bytes]]) -> list[Answer]:
    return list(await asyncio.gather(*(_post_one(row, body) for row, body in rows)))


async def _post_one(row: Delivery, body: bytes) -> Answer:
    assert row.webhook is not None  # noqa: S101 - as its channel says.
    headers = {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "X-Rtmpweb-Event": row.kind,
        "X-Rtmpweb-Id": str(row.body.get("id", row.pk)),
        "X-Rtmpweb-Delivery": str(row.pk),
        "X-Rtmpweb-Attempt": str(row.attempts),
        SIGNATURE_HEADER: signature(secret_of(row.webhook), body, time.time()),
    }
    return await post(row.webhook.url, body, headers, private=settings.WEBHOOK_PRIVATE)


TIMEOUT_S = 10.0
"""For all of it, from the name's look-up to the answer's beginning."""
MAX_ADDRESSES = 3
"""Of a name that are tried."""
TOO_MANY = 429
"""Whoever answers so is left alone as if nobody were there."""


class NotAllowed(Exception):  # noqa: N818 - an answer, not an error.
    """The URL leads where nothing is sent. The message says why."""


async def _addresses(host: str, port: int, private: bool) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise NotAllowed(f"The name {host} can't be looked up: {why}.") from None
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

    def answer(status: int | None = None, error: str = "", excerpt: str = "", retry_after_s: float = 0.0) -> Answer:
        took_ms = round((time.monotonic() - began) * 1000)
        is_away = status is None or status == TOO_MANY
        return Answer(status, error, excerpt, took_ms, is_away=is_away, retry_after_s=retry_after_s)

    try:
        async with asyncio.timeout(timeout_s):
            status, excerpt, retry_after = await _post(url, body, headers, private)
    except TimeoutError:
        return answer(error=f"No answer within {timeout_s:g} s.")
    except NotAllowed as refused:
        return answer(error=str(refused))
    except httpx.ConnectError as error:
        return answer(error=f"Can't connect: {error}")
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return answer(error=f"The connection broke: {error or type(error).__name__}")
    if 300 <= status < 400:
        return answer(status, "It redirects elsewhere, which is not followed: enter the final address.", excerpt)
    return answer(status, "" if 200 <= status < 300 else f"It answered {status}.", excerpt, _seconds(retry_after))


def _seconds(retry_after: str) -> float:
    """Of the header: seconds, or a date. 0: there is none that can be read."""
    if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", retry_after):
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0


async def _post(url: str, body: bytes, headers: Mapping[str, str], private: bool) -> tuple[int, str, str]:
    """Status, the beginning of the body, Retry-After."""
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
            try:
                async with client.stream(
                    "POST",
                    httpx.URL(url).copy_with(host=address, username=None, password=None),
                    content=body,
                    headers={**headers, "Host": parts.netloc.rpartition("@")[2], "Accept-Encoding": "identity"},
                    extensions={"sni_hostname": parts.hostname},
                ) as response:
                    excerpt = (await beginning(response, MAX_EXCERPT)).decode("utf-8", "replace")
                    return response.status_code, excerpt, response.headers.get("Retry-After", "")
            except httpx.ConnectError:
                if last:
                    raise
    raise NotAllowed("The name has no address.")
