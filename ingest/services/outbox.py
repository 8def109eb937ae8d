"""What others are told: rows that are written in the transaction of what happened, and delivered later.

They are written by the thread that writes history, by recordings and by whoever ends a session: never on the way of an
admission, and nothing waits for whoever is told. A publisher's begin is told when its `session.started` is written, and
its end only if its begin was: so an admission that is undone, or whose node died before it could say more, tells
neither, and each begin has one end, whoever ends the session. Sessions that are only tests tell nothing.

Who is told of a stream hears of one publisher at a time: the begin of one that took it over waits for the end of the
one before, which its own node may write later, and is written with that. All of a stream's events have numbers that
grow by one. Whoever writes one holds the stream's `StreamTold` until it is committed, and looks at what there is then.

These are held before anything else that others may wait for (leases, sessions, recordings, the stream itself), and
those of several streams all at once: so of two that write at the same moment one waits, and never each for the other.

Webhooks are told so many issues of a session a minute. Of the others alerts hear how each check stands: one row of a
session and check, which the next such event writes anew. So a check that flaps fills no table, and no issue that lasts
is missed.
"""

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet, Window
from django.db.models.fields.json import KT
from django.db.models.functions import RowNumber

from ingest import clean
from ingest.models import OutboxEvent, Recording, Session, StatusEvent, StreamTold
from ingest.services.sql import insert_each, update_each

Kind = OutboxEvent.Kind

HEALTH = (Kind.HEALTH_OPENED, Kind.HEALTH_CLEARED)
MAX_OPENED_A_MINUTE = 10
"""Issues of one session that webhooks are told to have opened within a minute. What wasn't told isn't told to clear."""
MINUTE = timedelta(minutes=1)
STANDING = "standing:"
"""How `once` begins of what alerts alone hear."""

Held = Mapping[int, StreamTold]
"""What each stream was told last, by the streams' ids. Nobody else writes an event of them meanwhile."""


def is_for_webhooks(event: OutboxEvent) -> bool:
    return not event.once.startswith(STANDING)


def hold(streams: Iterable[int | None]) -> Held:
    """Nobody else writes an event of them before the transaction has ended."""
    wanted = sorted({stream for stream in streams if stream is not None})
    if not wanted:
        return {}
    rows = StreamTold.objects.filter(pk__in=wanted).order_by("pk")
    there = set(rows.values_list("pk", flat=True))
    insert_each([StreamTold(stream_id=stream) for stream in wanted if stream not in there], but_those_there=True)
    return {row.stream_id: row for row in rows.select_for_update()}


def hold_of(sessions: Collection[uuid.UUID]) -> Held:
    """The streams of those that are publishers."""
    return hold(_publishers(pk__in=sessions).values_list("stream_id", flat=True)) if sessions else {}


def may_notify(kind: str, code: str) -> bool:
    """Whether such an event of a session may be one that others are told."""
    return kind in HEALTH or (kind == "session.started" and code == Session.Kind.PUBLISH)


def notify(events: Sequence[StatusEvent], held: Held) -> None:
    """What of these events of sessions, which are just being written, others are told. Again changes nothing. The
    sessions' streams are held since before that.

    So many statements, however many events there are.
    """
    notified = [event for event in events if may_notify(event.kind, event.code)]
    about = {event.session_id for event in notified}
    if not about:
        return
    with transaction.atomic():
        # Locked, so that whoever ends one of no stream meanwhile sees that its begin was told.
        rows = _publishers(pk__in=about).select_for_update(of=("self",), no_key=True).order_by("pk")
        _notify({session.pk: session for session in rows.select_related("node")}, notified, held)


def unpublished(ended: Sequence[Session], held: Held) -> None:
    """The ends of publishers, in their order, in the transaction that wrote them: each has its end. Their streams are
    held since before that. What each end lets begin is told after it.
    """
    onces = {session.pk: _once(Kind.PUBLISH, session.pk) for session in ended}
    there = _there(onces.values())
    if not there:
        return
    after = _After({session.stream_id for session in ended if onces[session.pk] in there}, ended, there)
    events: list[OutboxEvent] = []
    for session in ended:
        is_notified = after.ends(session)
        if is_notified:
            at = session.ended_at or session.started_at
            events.append(_event(Kind.UNPUBLISH, session, at, _once(Kind.UNPUBLISH, session.pk), end=_end(session)))
            events += after.next(session.stream_id)
    _write(events, held)


def _end(session: Session) -> dict[str, Any]:
    lasted = (session.ended_at - session.started_at).total_seconds() if session.ended_at else 0.0
    return {
        "reason": session.end_reason,
        "description": session.end_description,
        "started_at": _time(session.started_at),
        "duration_s": round(lasted, 3),
        **{name: session.total(name) for name in ("bytes_in", "video_frames", "audio_frames", "keyframes")},
    }


def recorded(recording: Recording, session: Session, at: datetime, held: Held | None = None) -> None:
    """A file that is closed, or failed. The same file is told of again when it has grown. `held`: by the caller."""
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
    _write([_event(Kind.RECORDING_DONE, session, at, once, recording=about)], held)


# --- What is told, in one transaction ---


@dataclass(slots=True)
class _Batch:
    """Events that are written together, under the next numbers of their streams. What there is already stays as it was.

    `there`: when those were that there are, by `once`, of all that may be told.
    """

    held: Held
    there: dict[str, datetime]
    fresh: list[OutboxEvent] = field(default_factory=list)

    def add(self, event: OutboxEvent) -> None:
        if event.once in self.there:
            return
        latest = self.held.get(event.stream_id or 0)
        if latest is not None:
            latest.sequence += 1
            latest.at = event.at = max(event.at, latest.at or event.at)
            event.sequence = event.payload["sequence"] = latest.sequence
        self.there[event.once] = event.at
        self.fresh.append(event)

    def write(self) -> None:
        if not self.fresh:
            return
        insert_each(self.fresh, but_those_there=True)
        grown = self.held.keys() & {event.stream_id for event in self.fresh}
        update_each([self.held[stream] for stream in sorted(grown)], ["sequence", "at"])


def _write(events: Iterable[OutboxEvent], held: Held | None = None) -> None:
    several = list(events)
    with transaction.atomic():
        held = hold(event.stream_id for event in several) if held is None else held
        batch = _Batch(held, _there(event.once for event in several))
        for event in several:
            batch.add(event)
        batch.write()


def _there(onces: Iterable[str]) -> dict[str, datetime]:
    return dict(OutboxEvent.objects.filter(once__in=set(onces)).values_list("once", "at"))


def _notify(sessions: Mapping[uuid.UUID, Session], events: Sequence[StatusEvent], held: Held) -> None:
    """`sessions`: those of the events of which others are told anything."""
    health = [event for event in events if event.kind in HEALTH and event.session_id in sessions]
    of_streams: dict[int, set[str]] = defaultdict(set)
    """The begins of each stream's open publishers."""
    for stream, pk in _publishers(stream__in=list(held), ended_at=None).values_list("stream_id", "pk"):
        of_streams[stream or 0].add(_once(Kind.PUBLISH, pk))
    onces = {once for begins in of_streams.values() for once in begins}
    onces |= {_once(Kind.PUBLISH, pk) for pk in sessions}
    onces |= {_once_of(event) for event in health} | {_standing(event) for event in health}
    batch = _Batch(held, _there(onces))

    def waits(session: Session) -> bool:
        """Whether another publisher of its stream was told to have begun, and not to have ended."""
        once = _once(Kind.PUBLISH, session.pk)
        return once not in batch.there and any(
            other in batch.there for other in of_streams[session.stream_id or 0] - {once}
        )

    began = {event.session_id for event in events if event.kind not in HEALTH}
    for session in sorted(sessions.values(), key=lambda session: (session.started_at, session.pk)):
        if session.pk in began and session.ended_at is None and not waits(session):
            batch.add(_begin(session))
    fresh = [event for event in health if _once_of(event) not in batch.there]
    standing = _add_health(batch, fresh, sessions, waiting={pk for pk, session in sessions.items() if waits(session)})
    batch.write()
    OutboxEvent.objects.bulk_create(
        standing, update_conflicts=True, unique_fields=["once"], update_fields=["kind", "at", "payload", "taken_at"]
    )


def _add_health(
    batch: _Batch, health: Sequence[StatusEvent], sessions: Mapping[uuid.UUID, Session], waiting: Collection[uuid.UUID]
) -> list[OutboxEvent]:
    """Tells webhooks; returns how the checks stand of which they are not told, each as it was last. What is older than
    what there is, or the same again, changes nothing. `waiting`: those whose begin is not told yet.
    """
    stands: dict[str, OutboxEvent] = {}
    opened, latest = _opened(health), _latest(health)
    for event in health:
        session, check = sessions[event.session_id], (event.session_id, event.code)
        issue = {"check": event.code, "level": event.level, "title": event.description, **event.detail}
        if event.kind == Kind.HEALTH_OPENED:
            lately = [at for at in opened[session.pk] if at > event.at - MINUTE]
            is_notified = len(lately) < MAX_OPENED_A_MINUTE
        else:
            is_notified = latest.get(check) == Kind.HEALTH_OPENED
        if is_notified and session.pk not in waiting:
            if _once_of(event) in batch.there:
                continue
            made = _event(Kind(event.kind), session, event.at, _once_of(event), health=issue)
            batch.add(made)
            latest[check] = event.kind
            if event.kind == Kind.HEALTH_OPENED:
                opened[session.pk].append(made.at)
            continue
        once = _standing(event)
        stood_at = stands[once].at if once in stands else batch.there.get(once)
        if stood_at is None or stood_at < event.at:
            stands[once] = _event(Kind(event.kind), session, event.at, once, health=issue)
    return list(stands.values())


def _opened(health: Sequence[StatusEvent]) -> dict[uuid.UUID, list[datetime]]:
    """When webhooks were told of issues of these sessions, since a minute before the first of the events."""
    found: dict[uuid.UUID, list[datetime]] = defaultdict(list)
    ats = [event.at for event in health if event.kind == Kind.HEALTH_OPENED]
    if ats:
        rows = _of_webhooks(health).filter(kind=Kind.HEALTH_OPENED, at__gt=min(ats) - MINUTE)
        for session, at in rows.values_list("session_id", "at"):
            found[session].append(at)
    return found


def _latest(health: Sequence[StatusEvent]) -> dict[tuple[uuid.UUID, str], str]:
    """What webhooks were told last of each session's check that these events clear."""
    codes = {event.code for event in health if event.kind == Kind.HEALTH_CLEARED}
    if not codes:
        return {}
    place = Window(
        RowNumber(),
        partition_by=[F("session"), F("code")],
        order_by=[F("at").desc(), F("sequence").desc(nulls_last=True)],
    )
    rows = _of_webhooks(health).filter(payload__health__check__in=codes).annotate(code=KT("payload__health__check"))
    newest = rows.annotate(place=place).filter(place=1).values_list("session_id", "code", "kind")
    return {(session, code): kind for session, code, kind in newest}


def _of_webhooks(health: Sequence[StatusEvent]) -> "QuerySet[OutboxEvent]":
    """What webhooks were told of the checks of these events' sessions."""
    of = {event.session_id for event in health}
    return OutboxEvent.objects.filter(session__in=of, kind__in=HEALTH).exclude(once__startswith=STANDING).order_by()


class _After:
    """Who is told to publish a stream, while several publishers end one after the other: each of those that end is open
    until its turn has come.
    """

    def __init__(self, streams: Iterable[int | None], ended: Sequence[Session], there: Mapping[str, datetime]) -> None:
        """`there`: when the begins of those that end were told, of which others are told."""
        self._open: dict[int, dict[uuid.UUID, Session]] = {stream: {} for stream in streams if stream is not None}
        rows = _publishers(stream__in=list(self._open), ended_at=None).select_related("node") if self._open else ()
        several = [*rows, *(session for session in ended if session.stream_id in self._open and not session.is_test)]
        for session in sorted(several, key=lambda session: (session.started_at, session.pk)):
            self._open[session.stream_id or 0][session.pk] = session
        self._notified = {*there, *_there(_once(Kind.PUBLISH, session.pk) for session in several)}
        waiting = [session.pk for session in several if not self._is_notified(session)]
        started = StatusEvent.objects.filter(session__in=waiting, kind="session.started") if waiting else None
        self._begun = set(started.values_list("session_id", flat=True)) if started is not None else set()

    def _is_notified(self, session: Session) -> bool:
        return _once(Kind.PUBLISH, session.pk) in self._notified

    def ends(self, session: Session) -> bool:
        """Whether others were told that it had begun."""
        self._open.get(session.stream_id or 0, {}).pop(session.pk, None)
        return self._is_notified(session)

    def next(self, stream: int | None) -> list[OutboxEvent]:
        """Its publisher has ended: who came before that begins now, to those who are told."""
        open_ = list(self._open.get(stream or 0, {}).values())
        if any(self._is_notified(session) for session in open_):
            return []
        session = next((session for session in open_ if session.pk in self._begun), None)
        if session is None:
            return []
        self._notified.add(_once(Kind.PUBLISH, session.pk))
        return [_begin(session), *_open_issues(session)]


def _open_issues(session: Session) -> Iterator[OutboxEvent]:
    """The issues of one whose begin waited."""
    standing = OutboxEvent.objects.filter(session=session, kind=Kind.HEALTH_OPENED, once__startswith=STANDING)
    for event in standing.order_by("at"):
        health = event.payload["health"]
        once = f"{Kind.HEALTH_OPENED}:{session.pk}:begun:{health['check']}"
        yield _event(Kind.HEALTH_OPENED, session, event.at, once, health=health)


def _publishers(**those: Any) -> "QuerySet[Session]":
    """Of whom others are told."""
    return Session.objects.filter(kind=Session.Kind.PUBLISH, is_test=False, **those)


def _begin(session: Session) -> OutboxEvent:
    return _event(Kind.PUBLISH, session, session.started_at, _once(Kind.PUBLISH, session.pk))


def _once(kind: OutboxEvent.Kind, session: uuid.UUID) -> str:
    return f"{kind}:{session}"


def _once_of(event: StatusEvent) -> str:
    return f"{event.kind}:{event.session_id}:{event.sequence}"


def _standing(event: StatusEvent) -> str:
    return f"{STANDING}{event.session_id}:{event.code}"


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
