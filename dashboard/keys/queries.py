"""Stream keys as page and API show them: their state in words, and what is live with them. Never a secret."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone

from dashboard.templatetags.ui import lasted
from ingest.models import Session, StreamKey
from ingest.services import keys

SOON = timedelta(days=7)
"""A key that expires within it is shown so."""

STATES = {
    "active": "Active",
    "expiring": "Expiring soon",
    "grace": "Rotated, still working",
    "disabled": "Disabled",
    "expired": "Expired",
    "revoked": "Revoked",
}
"""What the list can be narrowed to. Without a choice it leaves out the revoked."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    key: StreamKey
    state: str
    """One of STATES."""
    icon: str
    words: str
    is_live: bool


def key_of(pk: int) -> StreamKey:
    """Raises Http404."""
    return get_object_or_404(StreamKey.objects.select_related("stream__application"), pk=pk)


def rows(*, text: str = "", state: str = "") -> QuerySet[StreamKey]:
    """Newest first. `text`: in a label, a stream's name or a key's first characters."""
    live = Session.objects.filter(key=OuterRef("pk"), kind=Session.Kind.PUBLISH, ended_at__isnull=True)
    query = _listed().select_related("stream__application").annotate(is_live=Exists(live))
    for word in text.split():
        query = query.filter(
            Q(label__icontains=word)
            | Q(prefix__istartswith=word.removesuffix("…"))
            | Q(stream__name__icontains=word)
            | Q(stream__application__name__icontains=word)
        )
    conditions = _conditions(timezone.now())
    query = query.filter(conditions[state]) if state in conditions else query.exclude(conditions["revoked"])
    return query.order_by(F("last_used_at").desc(nulls_last=True), "-created_at", "-pk")


def _listed() -> QuerySet[StreamKey]:
    """Without those of test links, which stand at the key that they are for."""
    return StreamKey.objects.filter(link_of__isnull=True)


def _conditions(now: datetime) -> dict[str, Q]:
    revoked = Q(revoked_at__isnull=False) & (Q(grace_until__isnull=True) | Q(grace_until__lte=now))
    works = ~revoked & Q(enabled=True) & (Q(expires_at__isnull=True) | Q(expires_at__gt=now))
    return {
        "active": works,
        "expiring": works & Q(expires_at__lte=now + SOON),
        "grace": works & Q(revoked_at__isnull=False),
        "disabled": ~revoked & Q(enabled=False),
        "expired": ~revoked & Q(enabled=True, expires_at__lte=now),
        "revoked": revoked,
    }


def key_row(key: StreamKey) -> KeyRow:
    return KeyRow(key, *_state(key, timezone.now()), bool(getattr(key, "is_live", False)))


def _state(key: StreamKey, now: datetime) -> tuple[str, str, str]:
    state = keys.state(key=key, now=now)
    if state != "active":
        return state, {"disabled": "none", "expired": "bad", "revoked": "ban"}[state], STATES[state]
    if key.grace_until is not None:
        return "grace", "warn", f"Rotated, works for {lasted(now, key.grace_until)} more"
    if key.expires_at is not None and key.expires_at <= now + SOON:
        return "expiring", "warn", f"Expires in {lasted(now, key.expires_at)}"
    return "active", "good", "Active"


def counts() -> dict[str, int]:
    """How many keys there are, without the revoked: `all`, `usable`, and of each other state."""
    conditions = _conditions(timezone.now())
    every = _listed().exclude(conditions["revoked"])
    found = {state: every.filter(conditions[state]).count() for state in ("active", "disabled", "expired")}
    return {"all": sum(found.values()), "usable": found["active"], **found}
