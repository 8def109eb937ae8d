"""What people say of a stream: notes, and that they know of an issue. Both are events of its session."""

import uuid
from typing import Any

from django.db import transaction

from dashboard import operating
from dashboard.limits import NAMES
from dashboard.operating import NOTE_LENGTH
from dashboard.streams import Now
from ingest import clean
from ingest.contracts import Issue
from ingest.models import Session, StatusEvent, Stream
from ingest.services import audit
from ingest.services.audit import Actor
from ingest.services.sessions import event_payload

NOTE = "operator.note"
ACKNOWLEDGED = "operator.ack"

SAME_S = 0.5
"""Two openings of an issue are further apart; JSON and databases round times."""


class ActProblem(Exception):  # noqa: N818 - an answer, not an error.
    """It can't be done now. The message is for the operator."""


def add_note(stream: Stream, actor: Actor, text: str) -> StatusEvent:
    """For the session that publishes now, else for the last one. Raises ActProblem."""
    said = clean.text(text.strip(), NOTE_LENGTH)
    if not said:
        raise ActProblem("The note is empty.")
    session = operating.latest_publisher(stream)
    if session is None:
        raise ActProblem("Nobody has published this stream yet: there is no session to note it at.")
    with transaction.atomic():
        audit.record(actor, "session.note", stream.path, stream=stream, session=session, note=said)
        return operating.put_event(session, NOTE, actor, description=said)


def acknowledge(stream: Stream, actor: Actor, *, check: str, note: str = "") -> StatusEvent:
    """Of the open issue as it is now: should it open anew, or get worse, nobody has acknowledged that.

    Raises ActProblem.
    """
    snapshot = Now.read().of_stream(stream)
    issue = next((issue for issue in snapshot["issues"] if issue["check"] == check), None)
    session = Session.objects.filter(pk=snapshot["session_id"]).first() if snapshot["session_id"] else None
    if issue is None or session is None:
        raise ActProblem("This issue is not open any more.")
    former = _of_opening(session, issue)
    if former is not None:
        return former
    said = clean.text(note.strip(), NOTE_LENGTH)
    detail = {"since": issue["since"], "level": issue["level"], "name": NAMES.get(check, check)}
    with transaction.atomic():
        audit.record(actor, "issue.acknowledge", stream.path, stream=stream, session=session, check=check, note=said)
        return operating.put_event(session, ACKNOWLEDGED, actor, code=check, description=said, detail=detail)


def acknowledgements(session_id: str | None) -> list[dict[str, Any]]:
    """Those of a session that is live, newest first, as pages get events."""
    if not session_id:
        return []
    events = StatusEvent.objects.filter(session=uuid.UUID(session_id), kind=ACKNOWLEDGED).order_by("-sequence")
    return [event_payload(event) for event in events]


def _of_opening(session: Session, issue: Issue) -> StatusEvent | None:
    """The acknowledgement of the issue since it opened, at this level."""
    for event in StatusEvent.objects.filter(session=session, kind=ACKNOWLEDGED, code=issue["check"]):
        is_same = abs(event.detail.get("since", 0) - issue["since"]) < SAME_S
        if is_same and is_of_level(event, issue["level"]):
            return event
    return None


def is_of_level(acknowledgement: StatusEvent, level: str) -> bool:
    """Whether it is of an issue at this level too: not once the issue got worse."""
    return acknowledgement.detail.get("level") in (level, "bad")
