"""The audit log: one line for each thing that somebody did, wherever it was asked (page, API, admin or command), and
who asks by HTTP."""

import getpass
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Model
from django.http import HttpRequest

from ingest import clean
from ingest.models import AuditEntry, EncoderLogin, Session, Stream, StreamKey

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did it. `user`: None for a token or a command. `address`: "" on the server itself."""

    name: str
    user: User | None = None
    address: str = ""


def command(name: str) -> Actor:
    """Whoever runs a command on the server, by the system's name of the user."""
    return Actor(f"{name} ({getpass.getuser()})")


def record(
    actor: Actor,
    action: str,
    target: str | StreamKey | EncoderLogin = "",
    *,
    stream: Stream | None = None,
    session: Session | None = None,
    **detail: Any,
) -> AuditEntry:
    """Writes it down, in the transaction of what was done. `action`: subject and verb, such as "key.create".

    With a key or a log-in goes its stream. `detail` is kept as JSON: what was changed, from what, to what. Never a
    secret.
    """
    if not isinstance(target, str):
        stream, target = target.stream, name_of(target)
    entry = AuditEntry.objects.create(
        actor=clean.text(actor.name, 150),
        user=actor.user,
        address=clean.text(actor.address, 64),
        action=action,
        target=clean.text(target, 512),
        stream=stream,
        session=session,
        detail=clean.jsonable(detail),
    )
    logger.info("%s by %s%s: %s", action, entry.actor, f" from {entry.address}" if entry.address else "", entry.target)
    return entry


@contextmanager
def audited(
    actor: Actor, action: str, target: str | StreamKey | EncoderLogin, *, stream: Stream | None = None, **detail: Any
) -> Iterator[None]:
    """What is done within, and its entry, in one transaction. What the entry says is known before."""
    with transaction.atomic():
        yield
        record(actor, action, target, stream=stream, **detail)


def name_of(row: Model) -> str:
    """What something is called in the log: what belongs to a stream, with the stream."""
    stream = getattr(row, "stream", None)
    return f"{stream.path}: {row}" if isinstance(stream, Stream) else str(row)


def client_address(request: HttpRequest) -> str:
    """Where the request comes from; behind a trusted proxy (rtmpweb/middleware.py), the proxy's client."""
    return str(request.META.get("REMOTE_ADDR", ""))


def actor_of(request: HttpRequest) -> Actor:
    user = request.user
    assert isinstance(user, User)  # noqa: S101  # Pages and admin let no other act.
    return Actor(user.get_username(), user, client_address(request))
