"""Muted alerts: of a stream, all of its checks or one, for a while or until somebody lifts it.

Alerts ask `is_muted`. Issues open and clear on the pages as ever.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from dashboard import operating
from dashboard.limits import NAMES
from dashboard.models import Mute
from dashboard.operating import NOTE_LENGTH
from ingest import clean
from ingest.consumers import pages
from ingest.models import Stream
from ingest.services import audit
from ingest.services.audit import Actor

MOST_HOURS = 31 * 24


def active_mutes(now: datetime | None = None) -> QuerySet[Mute]:
    """Those that hold now, of all streams."""
    now = now or timezone.now()
    lasting = Q(until__isnull=True) | Q(until__gt=now)
    return Mute.objects.filter(lasting, lifted_at__isnull=True).select_related("by")


def is_muted(stream: int, check: str, now: datetime | None = None) -> bool:
    """Whether the stream (its row id) has no alerts of the check."""
    return active_mutes(now).filter(stream=stream, check_code__in=("", check)).exists()


def mute(stream: Stream, actor: Actor, *, check: str = "", hours: float | None = None, note: str = "") -> Mute:
    """Mutes a check's alerts, or all ("") for so many hours (None: until it is lifted), in place of an earlier mute."""
    now = timezone.now()
    with transaction.atomic():
        active_mutes(now).filter(stream=stream, check_code=check).update(lifted_at=now)
        made = Mute.objects.create(
            stream=stream,
            check_code=clean.text(check, 32),
            until=None if hours is None else now + timedelta(hours=hours),
            note=clean.text(note.strip(), NOTE_LENGTH),
            by=actor.user,
            at=now,
        )
        until = made.until.isoformat() if made.until else None
        audit.record(actor, "stream.mute", stream.path, stream=stream, check=check, until=until, note=made.note)
        _happened(stream, "operator.mute", actor, made.check_code, made.note, {"until": until})
    return made


def lift(stream: Stream, actor: Actor, *, check: str | None = None) -> int:
    """Lifts the mutes of the stream, or only that of a check ("": of all checks). How many there were."""
    now = timezone.now()
    with transaction.atomic():
        held = active_mutes(now).filter(stream=stream)
        if check is not None:
            held = held.filter(check_code=check)
        lifted = held.update(lifted_at=now)
        if lifted:
            audit.record(actor, "stream.unmute", stream.path, stream=stream, check=check)
            _happened(stream, "operator.unmute", actor, check or "", "", {})
    return lifted


def payloads(stream: int) -> list[dict[str, Any]]:
    """What holds of the stream, as pages get it: times in seconds since the epoch."""
    return [
        {
            "check": row.check_code,
            "at": row.at.timestamp(),
            "until": row.until.timestamp() if row.until else None,
            "note": row.note,
            "by": row.by.get_username() if row.by else "",
        }
        for row in active_mutes().filter(stream=stream)
    ]


def muted_text(held: Iterable[dict[str, Any]]) -> str:
    """What open pages are sent when a mute is made or lifted."""
    return pages.to_json({"kind": "mutes", "mutes": list(held)})


def _happened(stream: Stream, kind: str, actor: Actor, check: str, note: str, detail: dict[str, Any]) -> None:
    """In the feed of the latest publisher, if there was one yet."""
    session = operating.latest_publisher(stream)
    if session is not None:
        named = {**detail, "name": NAMES.get(check, check)}
        operating.put_event(session, kind, actor, code=check, description=note, detail=named)
    operating.tell(stream.pk, "stream.mutes", muted_text(payloads(stream.pk)))
