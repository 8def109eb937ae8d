"""The channel of services: Slack, Microsoft Teams and the like, by the library Apprise (docs/adr/0026).

The library makes each service's request, and sends nothing: its modules are given a `requests` that writes the
request down. It goes out by `post` of `ingest.delivery.webhook`, as webhooks' do: addresses are checked, no redirect is
followed, no proxy is used, each has its time.

A service's secrets are kept encrypted under the installation's pepper. Nothing of the library is logged: it tells of
tokens at every level."""

import asyncio
import json
import logging
import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.conf import settings

from ingest import clean
from ingest.delivery.channel import Answer, Channel
from ingest.delivery.kinds import kind_of
from ingest.delivery.service_kinds import KINDS, Message, ServiceKind
from ingest.delivery.webhook import post
from ingest.models import Delivery, Service
from ingest.services.sealing import seal, unseal

if TYPE_CHECKING:
    from apprise import NotifyBase

TEST = "test"
"""The kind of what is sent to try a receiver; to a service once."""
MAX_TITLE = 250
MAX_TEXT = 1000
SHOWN_OF_SECRET = 4
"""Characters at its end."""
NOT_ACCEPTED = "What was entered for it is not accepted any more: enter it again."


# --- Secrets ---

PURPOSE = "service"


def keep(service: Service, values: Mapping[str, str]) -> None:
    """Puts what was entered into the row: secrets sealed, the rest as it is, and what may be shown of both."""
    fields = KINDS[service.kind].fields
    service.options = {each.name: values[each.name] for each in fields if not each.is_secret}
    kept = {each.name: values[each.name] for each in fields if each.is_secret and values.get(each.name)}
    service.sealed = seal(PURPOSE, json.dumps(kept))
    ends = {name: end_of_secret(secret) for name, secret in kept.items()}
    service.shown = KINDS[service.kind].shown.format(**service.options | ends)[:200]


def end_of_secret(secret: str) -> str:
    """As much of it as is shown: nothing of a short one."""
    return secret[-SHOWN_OF_SECRET:] if len(secret) > 2 * SHOWN_OF_SECRET else ""


def values_of(service: Service) -> dict[str, str]:
    """All that was entered. Raises ValueError: the secrets can't be read."""
    kept: dict[str, str] = json.loads(unseal(PURPOSE, service.sealed))
    return {**service.options, **kept}


# --- What is sent ---

SIGNS = {
    "bad": "\N{NO ENTRY}",
    "warning": "\N{WARNING SIGN}\ufe0f",
    "over": "\N{WHITE HEAVY CHECK MARK}",
    "ended": "\N{WHITE MEDIUM SMALL SQUARE}",
    "test": "\N{BELL}",
}
"""By a message's level."""


def message_of(row: Delivery) -> Message:
    if row.kind == TEST:
        name, url = row.body["service"], row.body.get("url", "")
        text = "Alerts of rules that name this service arrive here."
        return _message("Test message", text, url, TEST, f"rtmpweb-test-{name}")
    mail = kind_of(row).mail
    if mail is None:
        raise ValueError(f"Nothing makes a message of the kind {row.kind}: see ingest/delivery/kinds.py.")
    content = mail(row)
    is_over = row.kind.endswith(".cleared") and content.level != "bad"  # Else it ended without being fixed.
    return _message(content.subject, content.brief, row.body["url"], content.level, f"rtmpweb-{row.about}", is_over)


def _message(title: str, text: str, url: str, level: str, key: str, is_over: bool = False) -> Message:
    title = f"{SIGNS.get(level, SIGNS['bad'])} {_harmless(clean.text(title, MAX_TITLE))}"
    body = "\n".join(clean.text(line, MAX_TEXT) for line in text.split("\n"))
    return Message(title, f"{_harmless(body)[:MAX_TEXT]}\n{url}".rstrip(), url, level, key, is_over)


def _harmless(text: str) -> str:
    """Names that people and encoders choose call nobody, and are no markup: no @everyone, no <at>, no <b>."""
    return re.sub(r"@(?=\w)|<(?=[@!#/A-Za-z])", lambda found: f"{found[0]}\N{WORD JOINER}", text)


@dataclass(frozen=True, slots=True)
class Request:
    url: str
    headers: Mapping[str, str]
    body: bytes


_recorded: ContextVar[list[Request]] = ContextVar("recorded")


class _Recorder:
    """As much of the module `requests` as the library's services use to post; all is well with what it is given."""

    def __init__(self, requests: Any) -> None:
        self.codes, self.RequestException, self._response = requests.codes, requests.RequestException, requests.Response

    def post(self, url: str, *, data: str, headers: Mapping[str, str], params: Any = None, **_: Any) -> Any:
        query = f"?{urlencode(params)}" if params else ""
        _recorded.get().append(Request(url + query, dict(headers), data.encode()))
        response = self._response()
        response.status_code, response._content = 200, b"ok"
        return response

    def request(self, method: str, url: str, **given: Any) -> Any:
        if method.lower() != "post":
            raise ValueError(f"The library asks for {method}, which is not known here.")
        return self.post(url, **given)


@cache
def _module(name: str) -> Any:
    """Loaded only where something is sent: with what it needs the library is 10 MB."""
    import requests

    module: Any = import_module(f"apprise.plugins.{name}")
    logging.getLogger("apprise").disabled = True
    module.requests = _Recorder(requests)
    return module


def _plugin(kind: ServiceKind, values: Mapping[str, str], message: Message) -> "NotifyBase":
    from apprise import AppriseAsset

    asset = AppriseAsset(app_id="rtmpweb", app_desc="rtmpweb", app_url="", image_url_mask="", image_url_logo="")
    module, name = kind.library
    made: NotifyBase = getattr(_module(module), name)(
        **kind.arguments(values, message), asset=asset, format="text", overflow="truncate", store="no"
    )
    return made


NOT_SENT = {"pagerduty": ("Authorization",)}
"""Headers of the library's that the service does not ask for."""


def request_of(kind: str, values: Mapping[str, str], message: Message) -> Request:
    """The one request by which the service is told. Raises ValueError, which tells nothing of what was entered."""
    from apprise import NotifyFormat, NotifyType
    from apprise.exception import AppriseException

    types = {"bad": NotifyType.FAILURE, "warning": NotifyType.WARNING}
    said_as = NotifyType.SUCCESS if message.is_over else types.get(message.level, NotifyType.INFO)
    token = _recorded.set([])
    try:
        _plugin(KINDS[kind], values, message).notify(
            body=message.text,
            title=message.title,
            notify_type=said_as,
            body_format=NotifyFormat.TEXT,
        )
        (made,) = _recorded.get()
    except (AppriseException, KeyError, ValueError):
        raise ValueError(NOT_ACCEPTED) from None
    finally:
        _recorded.reset(token)
    headers = {name: value for name, value in made.headers.items() if name not in NOT_SENT.get(kind, ())}
    return Request(made.url, headers, made.body)


class ServiceChannel(Channel[tuple[Request, tuple[str, ...]]]):
    """One at a time: services limit how many they take. With each message go the secrets that nobody is told."""

    name = "service"
    receiver = "service"
    claim_s = 60.0
    is_read = True
    is_exclusive = True

    def prepare(self, row: Delivery) -> tuple[Request, tuple[str, ...]] | Answer:
        assert row.service is not None  # noqa: S101 - as its channel says.
        message = message_of(row)
        try:
            values = values_of(row.service)
            request = request_of(row.service.kind, values, message)
        except ValueError as problem:
            return Answer(None, str(problem), duration_ms=0, is_final=True)
        secrets = {each.name for each in KINDS[row.service.kind].fields if each.is_secret}
        return request, tuple(secret for name, secret in values.items() if name in secrets)

    def send(self, rows: Sequence[tuple[Delivery, tuple[Request, tuple[str, ...]]]]) -> list[Answer]:
        return [asyncio.run(_send(row, request, secrets)) for row, (request, secrets) in rows]


async def _send(row: Delivery, request: Request, secrets: Sequence[str]) -> Answer:
    assert row.service is not None  # noqa: S101 - as its channel says.
    answer = await post(request.url, request.body, request.headers, private=settings.WEBHOOK_PRIVATE)
    excerpt = _without(answer.excerpt, secrets)
    is_refused = answer.status is not None and 400 <= answer.status < 500 and answer.status not in PASSING
    return Answer(
        answer.status,
        _without(_words(row.service, answer, excerpt), secrets),
        excerpt,
        answer.duration_ms,
        is_away=answer.is_away and row.kind != TEST,
        is_final=is_refused or (row.kind == TEST and not answer.ok),
        retry_after_s=answer.retry_after_s,
    )


PASSING = (408, 425, 429)
"""Of the refusals, those that pass."""
MEANINGS = {
    400: "it does not accept the message",
    401: "the token or key is wrong",
    403: "the token or key may not post there",
    404: "the webhook was removed, or its address is wrong",
    410: "the webhook was removed",
    413: "the message is too long",
    429: "too many messages",
}
"""What answers mean, by status, unless the kind knows better."""


def _words(service: Service, answer: Answer, excerpt: str) -> str:
    """What went wrong: Slack answered 404 (no_service): the webhook was removed. Empty: nothing."""
    if answer.ok or answer.status is None or 300 <= answer.status < 400:
        return answer.error
    said, status = _said(excerpt), answer.status
    meaning = KINDS[service.kind].refusals.get(status) or MEANINGS.get(status, "")
    because = f" ({said})" if said else ""
    return f"{service.get_kind_display()} answered {status}{because}{f': {meaning}' if meaning else ''}."


def _said(excerpt: str) -> str:
    """What a service says of its refusal, if that is short: in JSON, or as it is."""
    try:
        found = json.loads(excerpt)
    except (ValueError, RecursionError):
        found = {} if excerpt.lstrip().startswith(("<", "{", "[")) else {"error": excerpt}
    if not isinstance(found, dict):
        return ""
    for name in ("description", "message", "error"):
        if isinstance(found.get(name), str):
            return clean.text(found[name].strip().rstrip("."), 120)
    return ""


def _without(text: str, secrets: Sequence[str]) -> str:
    """A secret is not repeated, nor are those parts of a URL that are secret: long, and no host's name."""
    for secret in secrets:
        for part in (secret, *(each for each in re.split(r"[/:?&=]", secret) if len(each) > 16 and "." not in each)):
            if len(part) > SHOWN_OF_SECRET:
                text = text.replace(part, "…")
    return text
