"""What another service is asked, for applications that say so: whether somebody may connect, publish or play.

It is asked after our own checks have passed, never instead of them. 2xx allows; 403 refuses, with its reason if its
body is JSON with one; anything else, like no answer, refuses for now.

It is asked on a thread of its own, by a few connections, for 2 s at most: neither the media's event loop nor the
database's threads wait for it. One that gives no answer several times on end is left alone for some seconds, in which
everything that would be asked is refused at once; then one question tries it.

It is signed, as messages to webhooks are (ingest.delivery.webhook): `X-Rtmpweb-Signature: t=SECONDS,v1=HEX`, which is
HMAC-SHA-256 under the shared secret of the time, a full stop and the body."""

import asyncio
import hashlib
import hmac
import json
import logging
import ssl
import threading
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

import certifi
from django.conf import settings

from ingest import clean, clock
from ingest.models import Application, EncoderLogin, Stream, StreamKey
from ingest.models.names import instance_of
from ingest.services.authorization import Peer, refuse
from ingest.services.refusals import Action

if TYPE_CHECKING:
    import httpx

SIGNATURE_HEADER = "X-Rtmpweb-Signature"

MAX_REASON = 200
MAX_ANSWER = 4096
"""Bytes of an answer that are read."""


def signature(secret: str, body: bytes, at: float) -> str:
    """The header's value. `at`: seconds since the epoch, so that receivers can refuse what is old."""
    seconds = int(at)
    digest = hmac.new(secret.encode(), b"%d." % seconds + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"


@cache
def tls_context() -> ssl.SSLContext:
    """Those that the system trusts, and those that certifi does, for a system that has none."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


@dataclass(frozen=True, slots=True)
class Question:
    """Whether an action may be done. No secret is told: of a key its label and its first characters are."""

    action: Action
    application: Application
    name: str = ""
    """The whole, which has the instance before it."""
    stream: Stream | None = None
    key: StreamKey | None = None
    login: EncoderLogin | None = None
    instance: str = ""
    """Where there is no name that tells it."""

    def body(self, peer: Peer, session: str | None) -> bytes:
        fields: dict[str, Any] = {
            "action": self.action,
            "app": self.application.name,
            "instance": self.instance or instance_of(self.name),
            "name": self.name,
            "address": clean.text(peer.address, 64),
            "encoder": clean.text(peer.encoder, 255),
            "node": clean.text(peer.node, 128),
            "session": session,
            "key": {"label": self.key.label, "prefix": self.key.prefix} if self.key is not None else None,
            "login": self.login.user if self.login is not None else None,
            "at": clock.utc_now().isoformat().replace("+00:00", "Z"),
        }
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()

    def refuse(self, why: str) -> NoReturn:
        reason = why.rstrip(". ") or "it gave no reason"
        refuse(self.action, "callback_refused", stream=self.stream, key=self.key, why=reason)

    def fail(self) -> NoReturn:
        refuse(self.action, "callback_failed", stream=self.stream, key=self.key)


def reason_of(body: bytes) -> str:
    """What a refusal's body says, cleaned and bounded; "" where it says nothing that can be read."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    reason = answer.get("reason") if isinstance(answer, dict) else None
    return clean.text(reason.strip(), MAX_REASON) if isinstance(reason, str) else ""


logger = logging.getLogger(__name__)

LIMIT_S = 2.0
CONNECTIONS = 32
MAX_PENDING = 2000
"""Questions that wait; more are refused."""
FAILURES = 5
"""Questions without an answer, one after the other, until it is left alone,"""
REST_S = 5.0
"""for so long."""


class Unanswered(Exception):  # noqa: N818 - an answer, not an error.
    """There was none. The message says why."""


class CallbackClient:
    """One for the process. Its state belongs to the event loop of those who ask."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: httpx.AsyncClient | None = None
        self._pending = 0
        self._failures = 0
        self._rests_until = 0.0
        """Monotonic."""

    async def ask(self, body: bytes) -> tuple[int, bytes]:
        """The answer's status and the beginning of its body. Raises Unanswered."""
        if not settings.AUTH_URL or not settings.AUTH_SECRET:
            raise Unanswered("RTMPWEB_AUTH_URL and RTMPWEB_AUTH_SECRET are not both set")
        now = time.monotonic()
        if now < self._rests_until or self._pending >= MAX_PENDING:
            raise Unanswered("it is left alone for a moment")
        if self._failures >= FAILURES:
            self._rests_until = now + REST_S  # The others wait for what becomes of this one.
        self._pending += 1
        try:
            answer = await self._ask(body)
        except _broken() as error:
            self._failed(error)
            raise Unanswered(type(error).__name__) from None
        finally:
            self._pending -= 1
        if self._failures >= FAILURES:
            logger.info("The authorisation service at %s answers again.", _service_host())
        self._failures, self._rests_until = 0, 0.0
        return answer

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        if self._failures == FAILURES:
            logger.warning(
                "The authorisation service at %s, which is asked who may connect, publish and play, gave no answer %d "
                "times (%s): what it is to be asked is refused until it answers. It is tried each %g s.",
                _service_host(),
                FAILURES,
                type(error).__name__,
                REST_S,
            )
        if self._failures >= FAILURES:
            self._rests_until = time.monotonic() + REST_S

    async def _ask(self, body: bytes) -> tuple[int, bytes]:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="rtmpweb-callback", daemon=True).start()
        work = asyncio.run_coroutine_threadsafe(self._post(body), self._loop)
        return await asyncio.wrap_future(work)

    async def _post(self, body: bytes) -> tuple[int, bytes]:
        """On its own thread, where httpx is loaded, too: it is 6 MB, and most installations have nobody to ask."""
        import httpx

        if self._client is None:
            limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
            self._client = httpx.AsyncClient(
                verify=tls_context(), trust_env=False, follow_redirects=False, limits=limits, timeout=LIMIT_S
            )
        headers = {
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            SIGNATURE_HEADER: signature(settings.AUTH_SECRET, body, clock.now()),
        }
        async with (
            asyncio.timeout(LIMIT_S),
            self._client.stream("POST", settings.AUTH_URL, content=body, headers=headers) as response,
        ):
            return response.status_code, await beginning(response, MAX_ANSWER)


async def beginning(response: "httpx.Response", limit: int) -> bytes:
    """So many bytes of its body, the rest unread."""
    read = b""
    async for chunk in response.aiter_raw():
        read += chunk
        if len(read) >= limit:
            break
    return read[:limit]


def _broken() -> tuple[type[Exception], ...]:
    """What is raised where there is no answer: asked for only then."""
    import httpx

    return TimeoutError, httpx.HTTPError, httpx.InvalidURL, OSError, ValueError


def _service_host() -> str:
    """For the log: the rest of the URL may be a secret."""
    return urlsplit(settings.AUTH_URL).netloc


@cache
def get_callback_client() -> CallbackClient:
    return CallbackClient()


class Permission:
    """What one request of a peer was allowed: it is asked once, however often the request is looked at."""

    def __init__(self, peer: Peer, session: object | None = None) -> None:
        self._peer = peer
        self._session = str(session) if session is not None else None
        self._granted = False

    async def ask(self, question: Question) -> None:
        """Raises Refused, unless the application doesn't want it to be asked or the service allows it."""
        if self._granted or not question.application.asks(question.action):
            return
        try:
            status, answer = await get_callback_client().ask(question.body(self._peer, self._session))
        except Unanswered as problem:
            logger.debug("The callback gave no answer: %s", problem)
            question.fail()
        if status == 403:
            question.refuse(reason_of(answer))
        if not 200 <= status < 300:
            question.fail()
        self._granted = True
