"""What people do with stream keys: each act with its entry of the audit log, in one transaction, without a secret."""

from datetime import timedelta
from typing import Any

from django.db import transaction

from ingest.models import Stream, StreamKey
from ingest.services import audit, keys
from ingest.services.audit import Actor
from ingest.services.keys import NewKey

CHANGEABLE = ("label", "expires_at", "allowed_networks", "max_kbps", "over_limit", "test_only")


def create(actor: Actor, *, stream: Stream, secret: str | None = None, **rights: Any) -> NewKey:
    """`rights`: as of `keys.create`, which says what is raised."""
    with transaction.atomic():
        made = keys.create(stream=stream, secret=secret, **rights)
        told = rights | {"imported": secret is not None}
        _record(actor, "key.create", made.key, **_said(told))
    return made


def rotate(actor: Actor, key: StreamKey, *, grace: timedelta = timedelta(0)) -> NewKey:
    """Raises ValidationError as `keys.rotate`."""
    with transaction.atomic():
        made = keys.rotate(key=key, grace=grace)
        _record(actor, "key.rotate", key, grace_s=int(grace.total_seconds()), successor=audit.name_of(made.key))
    return made


def revoke(actor: Actor, key: StreamKey) -> None:
    """The key's sessions end within 2 s."""
    with transaction.atomic():
        keys.revoke(key=key)
        _record(actor, "key.revoke", key)


def enable(actor: Actor, key: StreamKey, enabled: bool) -> None:
    """A disabled key publishes nothing, and what it publishes ends; it can be enabled again."""
    with transaction.atomic():
        key.enabled = enabled
        key.save(update_fields=["enabled"])
        _record(actor, "key.enable" if enabled else "key.disable", key)


def change(actor: Actor, key: StreamKey, **rights: Any) -> None:
    """Changes what of CHANGEABLE is given and differs. Raises ValidationError."""
    changed = {name: [getattr(key, name), value] for name, value in rights.items() if getattr(key, name) != value}
    if not changed:
        return
    for name, value in rights.items():
        setattr(key, name, value)
    key.full_clean(exclude=["stream", "digest"])
    with transaction.atomic():
        key.save(update_fields=list(changed))
        _record(actor, "key.change", key, changed=changed)


def _record(actor: Actor, action: str, key: StreamKey, **detail: Any) -> None:
    audit.record(actor, action, audit.name_of(key), stream=key.stream, **detail)


def _said(rights: dict[str, Any]) -> dict[str, Any]:
    """What is not as it is without being said."""
    told = {name: value for name, value in rights.items() if value not in (None, "", [], (), False)}
    if "max_kbps" not in told:
        told.pop("over_limit", None)
    return told
