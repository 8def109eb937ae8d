"""What others are told: rows that are written in the transaction of what happened, and delivered later.

They are written by the thread that writes history, by recordings and by whoever ends a session: never on the way of an
admission, and nothing waits for whoever is told. A publisher's begin is told when its `session.started` is written, and
its end only if its begin was: so an admission that is undone, or whose node died before it could say more, tells
neither, and each begin has one end, whoever ends the session. Sessions that are only tests tell nothing.

Who is told of a stream hears of one publisher at a time: the begin of one that took it over waits for the end of the
one before, which its own node may write later, and is written with that. All of a stream's events have numbers that
grow by one. Whoever writes one holds the stream's `StreamTold` until it is committed, and looks at what there is then.

Webhooks are told so many issues of a session a minute. Of the others alerts hear how each check stands: one row of a
session and check, which the next such event writes anew. So a check that flaps fills no table, and no issue that lasts
is missed.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from ingest import clean
from ingest.models import OutboxEvent, Recording, Session, StatusEvent, StreamTold

Kind = OutboxEvent.Kind

HEALTH = (Kind.HEALTH_OPENED, Kind.HEALTH_CLEARED)
MAX_OPENED_A_MINUTE = 10
"""Issues of one session that webhooks are told to have opened within a minute. What wasn't told isn't told to clear."""
STANDING = "standing:"
"""How `once` begins of what alerts alone hear."""


def is_for_webhooks(event: OutboxEvent) -> bool:
    return not event.once.startswith(STANDING)


def told(events: Sequence[StatusEvent]) -> None:
    """What of these events of sessions, which are just being written, others are told. Again changes nothing."""
    started = [event for event in events if event.kind == "session.started" and event.code == Session.Kind.PUBLISH]
    if started:
        _published(started)
    health = [event for event in events if event.kind in HEALTH]
    if health:
        _judged(health)


def unpublished(session: Session) -> None:
    """The end of a publisher, in the transaction that wrote it: `session` has its end."""
    if not OutboxEvent.objects.filter(once=_once(Kind.PUBLISH, session.pk)).exists():
        return
    lasted = (session.ended_at - session.started_at).total_seconds() if session.ended_at else 0.0
    end = {
        "reason": session.end_reason,
        "description": session.end_description,
        "started_at": _time(session.started_at),
        "duration_s": round(lasted, 3),
        **{name: session.total(name) for name in ("bytes_in", "video_frames", "audio_frames", "keyframes")},
    }
    at = session.ended_at or session.started_at
    _write([_event(Kind.UNPUBLISH, session, at, _once(Kind.UNPUBLISH, session.pk), end=end)])
    _tell_next(session.stream_id)


def recorded(recording: Recording, session: Session, at: datetime) -> None:
    """A file that is closed, or failed. The same file is told of again when it has grown."""
    if session.is_test:
        return
    once = f"{Kind.RECORDING_DONE}:{recording.pk}:{session.pk}:{recording.size_bytes}"
    about = {
        "id": recording.pk,
        "name": recording.name,
        "file": recording.file,
        "state": recording.state,
        "description": recording.description,
        "started_at": _time(recording.started_at),
        "duration_ms": recording.duration_ms,
        "size_bytes": recording.size_bytes,
    }
    _write([_event(Kind.RECORDING_DONE, session, at, once, recording=about)])


def _published(started: Sequence[StatusEvent]) -> None:
    """Their rows are locked, so that whoever ends one meanwhile sees that its begin was told."""
    open_ = Session.objects.filter(
        pk__in=[event.session_id for event in started],
        kind=Session.Kind.PUBLISH,
        ended_at__isnull=True,
        is_test=False,
    )
    sessions = list(open_.select_for_update(of=("self",)).select_related("node").order_by("pk"))
    _lock(session.stream_id for session in sessions)
    for session in sorted(sessions, key=lambda session: session.started_at):
        if session.stream_id is None or not _told_to_be_live(session.stream_id, besides=session):
            _write([_begin(session)])


def _told_to_be_live(stream: int, *, besides: Session) -> bool:
    """Whether another publisher of the stream was told to have begun, and not to have ended."""
    others = _publishers(stream).exclude(pk=besides.pk).values_list("pk", flat=True)
    return OutboxEvent.objects.filter(once__in=[_once(Kind.PUBLISH, pk) for pk in others]).exists()


def _tell_next(stream: int | None) -> None:
    """The stream's publisher has ended: who came before that begins now, to those who are told."""
    if stream is None:
        return
    for session in _publishers(stream).select_related("node").order_by("started_at", "pk"):
        has_begun = StatusEvent.objects.filter(session=session, kind="session.started")
        if OutboxEvent.objects.filter(once=_once(Kind.PUBLISH, session.pk)).exists():
            return
        if has_begun.exists():
            _write([_begin(session), *_found_meanwhile(session)])
            return


def _found_meanwhile(session: Session) -> Iterator[OutboxEvent]:
    """The issues of one whose begin waited."""
    standing = OutboxEvent.objects.filter(session=session, kind=Kind.HEALTH_OPENED, once__startswith=STANDING)
    for event in standing.order_by("at"):
        health = event.payload["health"]
        once = f"{Kind.HEALTH_OPENED}:{session.pk}:begun:{health['check']}"
        yield _event(Kind.HEALTH_OPENED, session, event.at, once, health=health)


def _begin_waits(session: Session) -> bool:
    if session.stream_id is None or OutboxEvent.objects.filter(once=_once(Kind.PUBLISH, session.pk)).exists():
        return False
    return _told_to_be_live(session.stream_id, besides=session)


def _publishers(stream: int) -> "QuerySet[Session]":
    """Those that are open."""
    return Session.objects.filter(stream=stream, kind=Session.Kind.PUBLISH, ended_at__isnull=True, is_test=False)


def _begin(session: Session) -> OutboxEvent:
    return _event(Kind.PUBLISH, session, session.started_at, _once(Kind.PUBLISH, session.pk))


def _judged(health: Sequence[StatusEvent]) -> None:
    of = {event.session_id for event in health}
    found = Session.objects.filter(pk__in=of, kind=Session.Kind.PUBLISH, is_test=False)
    sessions = {session.pk: session for session in found.select_related("node")}
    for event in health:
        session = sessions.get(event.session_id)
        once = f"{event.kind}:{event.session_id}:{event.sequence}"
        if session is None or OutboxEvent.objects.filter(once=once).exists():
            continue
        issue = {"check": event.code, "level": event.level, "title": event.description, **event.detail}
        if _is_to_be_told(event) and not _begin_waits(session):
            _write([_event(Kind(event.kind), session, event.at, once, health=issue)])
        else:
            _stands(_event(Kind(event.kind), session, event.at, f"{STANDING}{session.pk}:{event.code}", health=issue))


def _is_to_be_told(event: StatusEvent) -> bool:
    """To webhooks."""
    of_session = OutboxEvent.objects.filter(session=event.session_id, kind__in=HEALTH).exclude(
        once__startswith=STANDING
    )
    if event.kind == Kind.HEALTH_OPENED:
        minute = of_session.filter(kind=Kind.HEALTH_OPENED, at__gt=event.at - timedelta(minutes=1))
        return minute.count() < MAX_OPENED_A_MINUTE
    latest = of_session.filter(payload__health__check=event.code).order_by("-at", "-pk").first()
    return latest is not None and latest.kind == Kind.HEALTH_OPENED


def _stands(event: OutboxEvent) -> None:
    """How the check stands, in place of how it stood. What is older, or the same again, changes nothing."""
    if OutboxEvent.objects.filter(once=event.once, at__gte=event.at).exists():
        return
    OutboxEvent.objects.bulk_create(
        [event], update_conflicts=True, unique_fields=["once"], update_fields=["kind", "at", "payload", "taken_at"]
    )


def _once(kind: OutboxEvent.Kind, session: uuid.UUID) -> str:
    return f"{kind}:{session}"


def _event(kind: OutboxEvent.Kind, session: Session, at: datetime, once: str, **about: dict[str, Any]) -> OutboxEvent:
    event = OutboxEvent(kind=kind, at=at, once=once, stream_id=session.stream_id, session=session)
    event.payload = {
        "id": str(event.pk),
        "kind": kind.value,
        "at": _time(at),
        "app": session.app,
        "name": session.name,
        "session": {
            "id": str(session.pk),
            "address": session.address,
            "encoder": session.encoder,
            "node": session.node.name if session.node is not None else None,
        },
        **{name: clean.jsonable(value) for name, value in about.items()},
    }
    return event


def _time(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _write(events: Iterable[OutboxEvent]) -> None:
    """Under the next numbers of their streams. What there is already stays as it was."""
    several = list(events)
    with transaction.atomic():
        streams = _lock(event.stream_id for event in several)
        there = OutboxEvent.objects.filter(once__in=[event.once for event in several])
        known = set(there.values_list("once", flat=True))
        fresh = [event for event in several if event.once not in known]
        for event in fresh:
            latest = streams.get(event.stream_id or 0)
            if latest is not None:
                latest.sequence += 1
                latest.at = event.at = max(event.at, latest.at or event.at)
                event.sequence = event.payload["sequence"] = latest.sequence
        OutboxEvent.objects.bulk_create(fresh, ignore_conflicts=True)
        for latest in streams.values():
            latest.save(update_fields=["sequence", "at"])


def _lock(streams: Iterable[int | None]) -> dict[int, StreamTold]:
    """Nobody else writes an event of them before the transaction has ended. What each was told last, by their ids."""
    wanted = {stream for stream in streams if stream is not None}
    if not wanted:
        return {}
    StreamTold.objects.bulk_create([StreamTold(stream_id=stream) for stream in sorted(wanted)], ignore_conflicts=True)
    rows = StreamTold.objects.select_for_update().filter(pk__in=wanted).order_by("pk")
    return {row.stream_id: row for row in rows}
