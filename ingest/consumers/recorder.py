"""Records what happens to sessions and what was refused.

An event goes to three places, each of which may be slow or away without the others noticing: to the database by the
history writer, to the lake by the telemetry writer, and to open pages by the channel layer. Nothing here waits.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from ingest import clean, clock, pages, viewing
from ingest.consumers import channel_layer, journal
from ingest.consumers.active import ACTIVE, COUNTS, ActiveSession, address_hash
from ingest.consumers.notices import REFUSALS, put_drop
from ingest.contracts import EndReason, EventRecord, Issue, Totals, end_of
from ingest.contracts.figures import CHECK_NAMES
from ingest.credentials import mask
from ingest.log_records import Bound
from ingest.models import Session, StatusEvent
from ingest.services.attempts import AttemptRow
from ingest.services.authorization import Peer
from ingest.services.history_writer import get_history
from ingest.services.leases import Former
from ingest.services.refusals import REASONS
from ingest.services.sessions import EndRow, event_payload
from ingest.telemetry import get_writer

MAX_EVENTS = 2000
"""Of one session; over it only its end is recorded. A peer can cause events, but not without bound.

Past it is the number of an end that another node found: nobody knows the number of the last event before.
"""

STARTED = "session.started"
ENDED = "session.ended"

ISSUE_DETAIL = frozenset(("level", "since", "actual", "expected", "advice", "value", "limit", "unit"))
"""Of a health issue, in the details of its events; its check is their code, its sentence their description, and when it
has cleared, which the sentence would deny, the check's name.
"""

SHOWN_OF_PLAYERS = (STARTED, ENDED)
"""What pages are told of players, who may be many at once."""

LAKE_ATTEMPTS_S = 100
"""Attempts that go to the lake in one second; the database counts all of them."""

PAGE_ATTEMPTS_S = 5
"""Attempts that open pages are told of in one second: they read the rows then."""

PAGE_ATTEMPT = ("action", "address", "reason", "description", "app", "name", "count")


def event_now(
    kind: str,
    *,
    level: str = "",
    code: str = "",
    description: str = "",
    detail: Mapping[str, Any] | None = None,
) -> StatusEvent:
    """An event of now, before it has its session and its number; its texts made fit for what they are written to."""
    return StatusEvent(
        kind=kind,
        at=clock.utc_now(),
        level=clean.text(level, 16),
        code=clean.text(code, 64),
        description=clean.text(description, 512),
        detail=dict(detail or {}),
    )


def record(session: ActiveSession, event: StatusEvent, *, reason: str = "", totals: Totals | None = None) -> None:
    """Records the event under the session's next sequence number. A key test's goes to the database alone."""
    if session.sequence >= MAX_EVENTS and event.kind != ENDED:
        return
    session.sequence += 1
    event.session_id, event.sequence = session.id, session.sequence
    get_history().put(event)
    if session.is_test:
        return
    _to_lake(
        session=str(session.id),
        sequence=event.sequence,
        at=event.at,
        node=session.node,
        app=session.app,
        name=session.name,
        stream=session.stream,
        key=session.key,
        kind=event.kind,
        session_kind=session.kind,
        level=event.level,
        code=event.code,
        reason=reason,
        encoder=session.encoder,
        address_hash=session.address_hash,
        totals=totals,
        detail=event.detail,
        protocol=session.protocol,
    )
    _to_pages(session, event)


def _to_pages(session: ActiveSession, event: StatusEvent) -> None:
    if session.stream is None or (session.kind == "play" and event.kind not in SHOWN_OF_PLAYERS):
        return
    group = pages.stream_group(session.stream)
    channel_layer.send_to_group(group, lambda: {"type": "stream.event", "text": pages.event_text(event_payload(event))})


def begin(session: ActiveSession) -> None:
    ACTIVE[str(session.id)] = session
    COUNTS.started(session.kind)
    journal.accepted(session)


def end(session: ActiveSession, reason: EndReason, description: str = "", totals: Totals | None = None) -> None:
    """Ends the session, once: its last event, its row, its lease."""
    if ACTIVE.pop(str(session.id), None) is None:
        return
    for issue in session.issues:
        cleared(session, issue, by=ENDED, reason=reason)
    session.issues = ()
    totals = viewing.believed(totals) if totals is not None else None
    event = event_now(ENDED, level="status", code=reason, description=description, detail=dict(totals or {}))
    record(session, event, reason=reason, totals=totals)
    COUNTS.ended(session.kind, reason)
    _to_wall(session, event, reason)
    journal.ended(session, reason, event.description, totals)
    get_history().put(EndRow(session.id, reason, event.description[:255], event.at, totals))


def _to_wall(session: ActiveSession, event: StatusEvent, reason: str) -> None:
    """With the next tick, if nobody meant this end."""
    if (
        session.kind == "publish"
        and session.stream is not None
        and not session.is_test
        and not end_of(reason).is_expected
    ):
        put_drop(
            pages.drop(
                session=str(session.id),
                stream=session.stream,
                app=session.app,
                name=session.name,
                node=session.node,
                at=event.at.timestamp(),
                reason=reason,
            )
        )


def opened(session: ActiveSession, issue: Issue) -> None:
    """Records that a health issue opened, or changed its level."""
    record(session, _of_issue("health.opened", issue["level"], issue))
    if issue["check"] == "bitrate_high" and issue["level"] == "bad":
        record(session, _of_issue("limit.breached", issue["level"], issue))


def cleared(session: ActiveSession, issue: Issue, *, by: str = "", reason: str = "") -> None:
    """Records that an issue is over: since its limits are kept again, or `by` another event, for a `reason`: then it
    was not put right.
    """
    event = _of_issue("health.cleared", "status", issue, CHECK_NAMES.get(issue["check"], issue["title"]))
    event.detail["open_s"] = round(max(0.0, event.at.timestamp() - issue["since"]), 1)
    if by:
        event.detail |= {"by": by, "reason": reason}
    record(session, event)


def _of_issue(kind: str, level: str, issue: Issue, text: str = "") -> StatusEvent:
    """`text`: in place of its sentence."""
    detail = {name: value for name, value in issue.items() if name in ISSUE_DETAIL}
    return event_now(kind, level=level, code=issue["check"], description=text or issue["title"], detail=detail)


def lost(row: Session) -> None:
    """Records the end of a session whose own node could not: the database has it already."""
    session = ActiveSession(
        id=row.pk,
        kind="publish" if row.kind == Session.Kind.PUBLISH else "play",
        app=row.app,
        name=row.name,
        stream=row.stream_id,
        key=row.key_id,
        fencing=0,
        node=row.node.name if row.node is not None else "",
        address=row.address,
        encoder=row.encoder,
        is_test=row.is_test,
        protocol=row.protocol,
        sequence=MAX_EVENTS + 1,
    )
    event = event_now(ENDED, level="status", code=row.end_reason, description=row.end_description)
    event.at = row.ended_at or event.at
    record(session, event, reason=row.end_reason)
    COUNTS.ended(session.kind, row.end_reason)
    _to_wall(session, event, row.end_reason)
    journal.ended(session, row.end_reason, row.end_description, None)


def took_over(session: ActiveSession, former: Former) -> None:
    state = "live" if former.silent_s is None else f"silent for {former.silent_s:.1f} s"
    event = event_now(
        "publish.takeover",
        level="status",
        description=f"Took the stream over from {former.session.address}, which was {state}.",
        detail={
            "session_id": str(former.session.pk),
            "address": former.session.address,
            "silent_s": former.silent_s,
            "why": former.why,
        },
    )
    record(session, event)


_lake_attempts = Bound(LAKE_ATTEMPTS_S)
_page_attempts = Bound(PAGE_ATTEMPTS_S)


def attempt(
    *,
    action: str,
    peer: Peer,
    reason: str,
    app: str = "",
    app_is_known: bool = False,
    name: str = "",
    code: str = "",
    description: str,
    stream: int | None = None,
    key: int | None = None,
    count: int = 1,
) -> None:
    """Records a refusal, or a connection that broke before it came to anything. `app` and `name` come masked.

    But an imported key looks like any name. The history writer, which may ask the database, masks one that it finds;
    lake and log, which wait for no database, get no name at all that isn't a known stream's or application's. What
    follows a '/' in `app`, where encoders put a key by mistake, is left out: no application's name has one.
    """
    first, slash, _ = app.partition("/")
    app = f"{first}/…" if slash else first
    row = AttemptRow(
        at=clock.utc_now(),
        action=action,
        app=clean.text(app, 128),
        name=clean.text(name, 255),
        address=clean.text(peer.address, 64),
        encoder=clean.text(peer.encoder, 255),
        node=clean.text(peer.node, 128),
        reason=reason,
        code=code,
        description=clean.text(description, 512),
        stream=stream,
        key=key,
        count=count,
    )
    get_history().put(row)
    COUNTS.refused(reason, count)
    shown = replace(
        row,
        app=row.app if app_is_known else mask(row.app),
        name=row.name if stream is not None else mask(row.name),
    )
    journal.refused(shown)
    REFUSALS.put(shown)
    if channel_layer.may_have_members(pages.ATTEMPTS) and _page_attempts.take() is not None:
        payload = {"at": row.at.timestamp()} | {name: getattr(shown, name) for name in PAGE_ATTEMPT}
        channel_layer.send_to_group(
            pages.ATTEMPTS, lambda: {"type": "attempt.refused", "text": pages.attempt_text(payload)}
        )
    if _lake_attempts.take() is None:
        return
    _to_lake(
        session="",
        sequence=0,
        at=row.at,
        app=shown.app,
        name=shown.name,
        node=row.node,
        stream=stream,
        key=key,
        kind="attempt",
        session_kind=action if action in {"publish", "play"} else "",
        level="error",
        code=code,
        reason=reason,
        encoder=row.encoder,
        address_hash=address_hash(peer.address),
        totals=None,
        detail={},
    )


def overcrowded(address: str, node: str, count: int) -> None:
    """Records that there was no room for so many new connections of an address ("": of further addresses)."""
    attempt(
        action="connect",
        peer=Peer(address=address, encoder="", node=node, channel=""),
        reason="too_many_connections",
        description=REASONS["too_many_connections"].description,
        count=count,
    )


def _to_lake(*, at: datetime, totals: Totals | None, detail: dict[str, Any], **fields: Any) -> None:
    writer = get_writer()
    if writer is not None:
        writer.event(
            EventRecord(
                at_us=round(at.timestamp() * 1e6),
                bytes_in=totals["bytes_in"] if totals else 0,
                bytes_out=totals["bytes_out"] if totals else 0,
                detail=pages.to_json(detail),
                join_ms=totals.get("join_ms") if totals else None,
                stalls=totals.get("stalls") if totals else None,
                stalled_ms=totals.get("stalled_ms") if totals else None,
                watched_ms=totals.get("watched_ms") if totals else None,
                **fields,
            )
        )
