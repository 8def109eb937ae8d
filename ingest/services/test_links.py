"""Test links: what lets a streamer without a log-in try an encoder out, and see the verdict on it.

A link is a test-only key of its own, with the limits of the key in whose place it stands: what is published with it
never goes on air (docs/adr/0010-test-only-keys.md). Its secret is both what the streamer pastes and what opens the
page, where it stands in the URL's fragment, which browsers send to no server. So it expires, and is revoked, as a key.
"""

from datetime import timedelta

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils import timezone

from ingest.models import StreamKey
from ingest.services import keys
from ingest.services.keys import MAX_SECRET, NewKey

LIFETIMES = {
    "1h": (timedelta(hours=1), "1 hour"),
    "24h": (timedelta(days=1), "1 day"),
    "7d": (timedelta(days=7), "1 week"),
}
"""For which a link may work, each with its words."""

MOST = 10
"""Of a key, that work at a time."""

SHOWN_AFTER = timedelta(days=7)
"""A link that has expired or was revoked is listed for so long."""

LABEL = "Test link: {}"


def make(*, key: StreamKey, lifetime: timedelta) -> NewKey:
    """It works until the key expires, at the longest. Raises ValidationError for a key that can't be used, and for one
    that has MOST links."""
    now = timezone.now()
    unusable = key.link_of_id is not None or key.revoked_at is not None
    if unusable or keys.state(key=key, now=now) != "active":
        raise ValidationError("Test links are made for keys that work. Enable this one, or choose another.")
    if of_key(key).filter(revoked_at__isnull=True, expires_at__gt=now).count() >= MOST:
        raise ValidationError(f"This key has {MOST} test links that work (limit {MOST}). Revoke one first.")
    ends = now + lifetime
    return keys.create(
        stream=key.stream,
        label=LABEL.format(key)[:128],
        expires_at=min(ends, key.expires_at) if key.expires_at else ends,
        max_kbps=key.max_kbps,
        over_limit=key.over_limit,
        allowed_networks=key.allowed_networks,
        test_only=True,
        link_of=key,
    )


def find(*, secret: str) -> StreamKey | None:
    """The key of a link that works."""
    found = keys.find(secret=secret) if len(secret) <= MAX_SECRET else None
    return found if found and found.link_of_id is not None and keys.state(key=found) == "active" else None


def of_key(key: StreamKey) -> QuerySet[StreamKey]:
    """Newest first, without what ended long ago."""
    since = timezone.now() - SHOWN_AFTER
    rows = StreamKey.objects.select_related("stream__application").filter(link_of=key, expires_at__gt=since)
    return rows.order_by("-created_at", "-pk")
