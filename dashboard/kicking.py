"""Ending a publisher's session at an operator's wish: for the page and for the API."""

import logging
from enum import Enum

from django.contrib.auth.models import User

from dashboard.history import open_publisher
from ingest import clean
from ingest.models import Session, Stream
from ingest.services.sessions import request_stop

logger = logging.getLogger(__name__)

NOTE_LENGTH = 200


class Kick(Enum):
    ASKED = "asked"  # The session's node ends it within a second or two.
    OFF_AIR = "off_air"  # Nobody publishes.
    OTHER = "other"  # Another session than the one that was meant publishes.


def kick_publisher(
    stream: Stream, *, note: str, by: User | None, by_name: str, session_id: str = ""
) -> tuple[Kick, Session | None]:
    """Ask for the end of the stream's publisher. A `session_id` limits it to that session.

    `by` is the user, None for a token; `by_name` names either.
    """
    session = open_publisher(stream)
    if session is None:
        return Kick.OFF_AIR, None
    if session_id and str(session.pk) != session_id:
        return Kick.OTHER, session
    said = note.rstrip(" .")
    sentence = f"Ended by {by_name}: {said}." if said else f"Ended by {by_name}."
    if not request_stop(session_id=session.pk, reason="kicked", by=by, note=sentence):
        return Kick.OFF_AIR, None
    logger.info("Kick of %s, session %s. %s", stream.path, session.pk, clean.text(sentence, 255))
    return Kick.ASKED, session
