"""What people do to a stream and its sessions: kick, note, acknowledge.

Each is an event of the session, which open pages get at once, and an entry of the audit log."""

import logging
import uuid
from collections.abc import Mapping
from enum import Enum
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction
from django.db.models import Max

from dashboard.streams.queries import Now
from ingest import clean, pages
from ingest.contracts import Issue
from ingest.contracts.figures import STREAM_CHECKS
from ingest.models import Session, StatusEvent, Stream
from ingest.services import actions as services_actions
from ingest.services import audit
from ingest.services.audit import Actor
from ingest.services.sessions import event_payload, open_publisher

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
    """Writes an action down as the session's event, whether that is live or not; pages hear of it once it is committed.

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
            notify_pages(session.stream_id, "stream.event", pages.event_text(event_payload(event)))
    return event


def notify_pages(stream: int, kind: str, text: str, *, is_on_walls: bool = True) -> None:
    """Sends to whoever has the stream's page open, after the transaction; walls look themselves at what they show of
    it. Whatever the layer's trouble: it is written down, and pages that are loaded again have it.
    """
    _send_later(pages.stream_group(stream), {"type": kind, "text": text})
    if is_on_walls:
        notify_walls(stream)


def notify_walls(stream: int | None) -> None:
    """Has walls look at what operators said of a stream, or (None) of all."""
    _send_later(pages.WALL, {"type": "live.marks", "stream": stream})


def _send_later(group: str, message: dict[str, Any]) -> None:
    def send() -> None:
        layer = get_channel_layer()
        if layer is None:
            return
        try:
            async_to_sync(layer.group_send)(group, message)
        except Exception as error:
            logger.warning("The channel layer did not take an operator's act: %s", type(error).__name__)

    transaction.on_commit(send)


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
    note = clean.text(note.strip(), NOTE_LENGTH)
    with transaction.atomic():
        if not services_actions.kick(actor, session, note=note):
            return Kick.OFF_AIR, None
        put_event(session, "operator.kick", actor, description=note)
    logger.info("Kick of %s, session %s, by %s. %s", stream.path, session.pk, actor.name, note)
    return Kick.ASKED, session


NOTE = "operator.note"
ACKNOWLEDGED = "operator.ack"

SAME_S = 0.5
"""Two openings of an issue are further apart; JSON and databases round times."""


class ActionProblem(Exception):  # noqa: N818 - an answer, not an error.
    """It can't be done now. The message is for the operator."""


def add_note(stream: Stream, actor: Actor, text: str) -> StatusEvent:
    """For the session that publishes now, else for the last one. Raises ActionProblem."""
    session = latest_publisher(stream)
    if session is None and text.strip():
        raise ActionProblem("Nobody has published this stream yet: there is no session to note it at.")
    return note_session(session, actor, text)


def note_session(session: Session | None, actor: Actor, text: str) -> StatusEvent:
    """Raises ActionProblem."""
    note = clean.text(text.strip(), NOTE_LENGTH)
    if not note or session is None:
        raise ActionProblem("The note is empty.")
    return _record(session, actor, "session.note", NOTE, note)


def acknowledge_issue(stream: Stream, actor: Actor, *, check: str, note: str = "") -> StatusEvent:
    """Of the open issue as it is now: should it open anew, or get worse, nobody has acknowledged that.

    Raises ActionProblem.
    """
    snapshot = Now.read().of_stream(stream)
    issue = next((issue for issue in snapshot["issues"] if issue["check"] == check), None)
    session = Session.objects.filter(pk=snapshot["session_id"]).first() if snapshot["session_id"] else None
    if issue is None or session is None:
        raise ActionProblem("This issue is not open any more.")
    former = _of_opening(session, issue)
    if former is not None:
        return former
    note = clean.text(note.strip(), NOTE_LENGTH)
    detail = {"since": issue["since"], "level": issue["level"], "name": STREAM_CHECKS.get(check, check)}
    return _record(session, actor, "issue.acknowledge", ACKNOWLEDGED, note, code=check, detail=detail, check=check)


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


SESSION_END = "session.ended"
"""What an acknowledgement of a session's end is of, where an issue's names its check."""


def acknowledge_end(session: Session, actor: Actor, text: str = "") -> StatusEvent:
    """That the end is known; a second one changes nothing. Raises ActionProblem while the session is open."""
    if session.ended_at is None:
        raise ActionProblem("The session has not ended. Issues are acknowledged on the stream's page.")
    former = end_acknowledgement(session)
    if former is not None:
        return former
    note, detail = clean.text(text.strip(), NOTE_LENGTH), {"name": "The end of the session"}
    return _record(session, actor, "session.acknowledge", ACKNOWLEDGED, note, code=SESSION_END, detail=detail)


def end_acknowledgement(session: Session) -> StatusEvent | None:
    return StatusEvent.objects.filter(session=session, kind=ACKNOWLEDGED, code=SESSION_END).order_by("sequence").first()


def _record(
    session: Session,
    actor: Actor,
    action: str,
    kind: str,
    note: str,
    *,
    code: str = "",
    detail: Mapping[str, Any] | None = None,
    **about: str,
) -> StatusEvent:
    """The action in the audit log, with what it is `about`, and as the session's event."""
    path = f"{session.app}/{session.name}"
    with transaction.atomic():
        audit.record(actor, action, path, stream=session.stream, session=session, **about, note=note)
        return put_event(session, kind, actor, code=code, description=note, detail=detail)
