"""Ending a publisher's session at an operator's wish: for the page and for the API."""

import logging
from enum import Enum

from django.db import transaction

from dashboard import operating
from dashboard.history import open_publisher
from dashboard.operating import NOTE_LENGTH
from ingest import clean
from ingest.models import Session, Stream
from ingest.services import acts
from ingest.services.audit import Actor

logger = logging.getLogger(__name__)


class Kick(Enum):
    ASKED = "asked"  # The session's node ends it within a second or two.
    OFF_AIR = "off_air"  # Nobody publishes.
    OTHER = "other"  # Another session than the one that was meant publishes.


def kick_publisher(stream: Stream, actor: Actor, *, note: str, session_id: str = "") -> tuple[Kick, Session | None]:
    """Ask for the end of the stream's publisher. A `session_id` limits it to that session."""
    session = open_publisher(stream)
    if session is None:
        return Kick.OFF_AIR, None
    if session_id and str(session.pk) != session_id:
        return Kick.OTHER, session
    said = clean.text(note.strip(), NOTE_LENGTH)
    with transaction.atomic():
        if not acts.kick(actor, session, note=said):
            return Kick.OFF_AIR, None
        operating.put_event(session, "operator.kick", actor, description=said)
    logger.info("Kick of %s, session %s, by %s. %s", stream.path, session.pk, actor.name, said)
    return Kick.ASKED, session
