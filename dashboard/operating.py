"""What people do to a stream: an event of its session, which open pages get at once, and an entry of the audit log."""

import logging
from collections.abc import Mapping
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction
from django.db.models import Max

from ingest import clean
from ingest.consumers import pages
from ingest.models import Session, StatusEvent, Stream
from ingest.services.audit import Actor
from ingest.services.sessions import event_payload

logger = logging.getLogger(__name__)

NOTE_LENGTH = 200

FIRST_SEQUENCE = 1_000_000
"""Of people's events. The node of a live session numbers its own in memory, from 1 and far from here."""


def latest_publisher(stream: Stream) -> Session | None:
    """The session that publishes the stream now, else the last that did."""
    return stream.sessions.filter(kind=Session.Kind.PUBLISH, is_test=False).order_by("-started_at").first()


def put_event(
    session: Session,
    kind: str,
    actor: Actor,
    *,
    code: str = "",
    description: str = "",
    detail: Mapping[str, Any] | None = None,
) -> StatusEvent:
    """Writes an act down as the session's event, whether that is live or not; pages hear of it once it is committed.

    `detail` is kept as JSON, and with it `by`, who did it.
    """
    with transaction.atomic():
        Session.objects.select_for_update().get(pk=session.pk)  # One number after the other.
        own = StatusEvent.objects.filter(session=session, sequence__gte=FIRST_SEQUENCE)
        last = own.aggregate(last=Max("sequence"))["last"]
        event = StatusEvent.objects.create(
            session=session,
            sequence=FIRST_SEQUENCE if last is None else last + 1,
            kind=kind,
            code=clean.text(code, 64),
            description=clean.text(description, 512),
            detail=clean.jsonable({**(detail or {}), "by": actor.name}),
        )
        if session.stream_id is not None:
            tell(session.stream_id, "stream.event", pages.event_text(event_payload(event)))
    return event


def tell(stream: int, kind: str, text: str) -> None:
    """Sends to whoever has the stream's page open, after the transaction; walls look themselves at what they show of
    it. Whatever the layer's trouble: it is written down, and pages that are loaded again have it.
    """

    def send() -> None:
        layer = get_channel_layer()
        if layer is None:
            return
        try:
            async_to_sync(layer.group_send)(pages.stream_group(stream), {"type": kind, "text": text})
            async_to_sync(layer.group_send)(pages.WALL, {"type": "live.marks", "stream": stream})
        except Exception as error:
            logger.warning("The channel layer did not take an operator's act: %s", type(error).__name__)

    transaction.on_commit(send)
