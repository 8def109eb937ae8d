"""What people do with a stream's push targets: add, change, remove, start and stop them; each with its entry of the
audit log. A key that was saved is not shown again: whoever moves a target to another server enters its key anew."""

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from ingest import clean
from ingest.models import PushTarget, Session, Stream
from ingest.models.relays import MAX_LABEL
from ingest.services import audit
from ingest.services.audit import Actor
from ingest.services.relay_urls import split_push
from ingest.services.sealing import seal
from ingest.services.sessions import open_publisher

PURPOSE: Final = "push"
"""Of sealing."""

MOST_TARGETS: Final = 10
"""Of a stream: each costs the node the stream's bitrate once more."""

KEY_AGAIN = "The server is another: enter the key again, as it would be sent there."
TOO_MANY = f"A stream has {MOST_TARGETS} targets at most: remove one first."
LABEL_TAKEN = "Another target of the stream has this name: take another."
OFF_AIR = "Nobody publishes this stream now: what is pushed starts with it."
DISABLED = "This target is off: switch it on first."


class PushProblem(Exception):  # noqa: N818 - an answer, not an error.
    """It can't be done now. The message is for the operator."""


def checked(values: Mapping[str, Any], target: PushTarget) -> dict[str, Any]:
    """The fields of the target as they are to be, by what was entered: `label`, `url`, `key` (empty: as it was), and
    what else is given. Raises ValidationError, by field.
    """
    fields: dict[str, Any] = {name: values[name] for name in ("starts", "enabled") if name in values}
    label = clean.text(values.get("label", target.label).strip(), MAX_LABEL)
    if not label:
        raise ValidationError({"label": "Enter a name for it, such as YouTube."})
    fields["label"] = label
    url, key = values.get("url", target.url), values.get("key", "")
    if target.pk is None or key.strip() or url.strip() != target.url:
        try:
            fields["url"], secret = split_push(url, key)
        except ValidationError as problem:
            is_other = target.pk is not None and not key.strip() and "key" in problem.message_dict
            raise ValidationError({"key": KEY_AGAIN}) if is_other else problem from None
        fields["sealed"] = seal(PURPOSE, secret)
    return fields


def check_room(target: PushTarget, label: str) -> None:
    """That the stream may have it, under the label. Raises ValidationError."""
    others = PushTarget.objects.filter(stream=target.stream_id).exclude(pk=target.pk)
    if target.pk is None and others.count() >= MOST_TARGETS:
        raise ValidationError(TOO_MANY)
    if others.filter(label=label).exists():
        raise ValidationError({"label": LABEL_TAKEN})


def save(actor: Actor, target: PushTarget, values: Mapping[str, Any]) -> None:
    """Makes it, or changes it: `values` as `checked` takes them. Raises ValidationError."""
    fields = checked(values, target)
    is_new = target.pk is None
    with transaction.atomic():
        Stream.objects.select_for_update(no_key=True).get(pk=target.stream_id)  # One target after the other.
        check_room(target, fields["label"])
        changed = {name: [getattr(target, name), value] for name, value in fields.items() if name != "sealed"}
        changed = {name: pair for name, pair in changed.items() if is_new or pair[0] != pair[1]}
        for name, value in fields.items():
            setattr(target, name, value)
        target.full_clean(exclude=["stream", "sealed"])
        if is_new:
            target.save(force_insert=True)
            detail: dict[str, Any] = {name: pair[1] for name, pair in changed.items()}
        else:
            target.save(update_fields=list(fields))
            detail = {"changed": changed | ({"key": "entered anew"} if "sealed" in fields else {})}
        verb = "create" if is_new else "change"
        audit.record(actor, f"push_target.{verb}", name_of(target), stream=target.stream, **detail)


def remove(actor: Actor, target: PushTarget) -> None:
    """What is pushed there ends within 2 s."""
    with audit.audited(actor, "push_target.delete", name_of(target), stream=target.stream, url=target.url):
        target.delete()


def start(actor: Actor, target: PushTarget) -> Session:
    """Has it pushed, for as long as who publishes is live; one that waits or was refused is tried at once. Raises
    PushProblem; returns who publishes."""
    session = open_publisher(target.stream)
    if session is None:
        raise PushProblem(OFF_AIR)
    if not target.enabled:
        raise PushProblem(DISABLED)
    now = timezone.now()
    _ask(actor, target, session.pk, now, PushTarget.Asked.START)
    return session


def stop(actor: Actor, target: PushTarget) -> Session:
    """Ends it, until somebody starts it or the next publisher comes. Raises PushProblem; returns who publishes."""
    session = open_publisher(target.stream)
    if session is None:
        raise PushProblem(OFF_AIR)
    _ask(actor, target, session.pk, timezone.now(), PushTarget.Asked.STOP)
    return session


def _ask(actor: Actor, target: PushTarget, session: uuid.UUID, now: datetime, asked: PushTarget.Asked) -> None:
    is_start = asked == PushTarget.Asked.START
    fields = {
        "asked": asked,
        "asked_for": session,
        "asked_at": now,
        "state": "connecting" if is_start else "stopped",
        "state_since": now,
        "state_session": session,
        "failing_since": now if is_start else None,
        "failure": "",
        "code": "",
        "description": "",
    }
    for name, value in fields.items():
        setattr(target, name, value)
    with audit.audited(actor, f"push_target.{asked.value}", name_of(target), stream=target.stream):
        target.save(update_fields=list(fields))


def name_of(target: PushTarget) -> str:
    return f"{target.stream.path}: {target.label}"
