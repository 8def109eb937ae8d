"""What people say of one session: a note, and that they know how it ended. Both are events of that session."""

from django.db import transaction

from dashboard import operating
from dashboard.notes import ACKNOWLEDGED, NOTE, ActProblem
from dashboard.operating import NOTE_LENGTH
from ingest import clean
from ingest.models import Session, StatusEvent
from ingest.services import audit
from ingest.services.audit import Actor

END = "session.ended"
"""What an acknowledgement of a session's end is of, where an issue's names its check."""


def note(session: Session, actor: Actor, text: str) -> StatusEvent:
    """Raises ActProblem."""
    said = clean.text(text.strip(), NOTE_LENGTH)
    if not said:
        raise ActProblem("The note is empty.")
    with transaction.atomic():
        audit.record(actor, "session.note", _name(session), stream=session.stream, session=session, note=said)
        return operating.put_event(session, NOTE, actor, description=said)


def acknowledge(session: Session, actor: Actor, text: str = "") -> StatusEvent:
    """That the end is known; a second one changes nothing. Raises ActProblem while the session is open."""
    if session.ended_at is None:
        raise ActProblem("The session has not ended. Issues are acknowledged on the stream's page.")
    former = acknowledgement(session)
    if former is not None:
        return former
    said = clean.text(text.strip(), NOTE_LENGTH)
    with transaction.atomic():
        audit.record(actor, "session.acknowledge", _name(session), stream=session.stream, session=session, note=said)
        detail = {"name": "The end of the session"}
        return operating.put_event(session, ACKNOWLEDGED, actor, code=END, description=said, detail=detail)


def acknowledgement(session: Session) -> StatusEvent | None:
    """Of its end."""
    return StatusEvent.objects.filter(session=session, kind=ACKNOWLEDGED, code=END).order_by("sequence").first()


def _name(session: Session) -> str:
    return f"{session.app}/{session.name}"
