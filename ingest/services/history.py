"""History in the database: a batch of what happened, in one transaction, in statements that don't grow with it."""

from collections.abc import Sequence, Set

from ingest.attempts import AttemptRow, Attempts
from ingest.history_rows import (
    ENDS,
    BanRow,
    BeginRow,
    DiscardRow,
    EndRow,
    EventRow,
    MediaRow,
    Operation,
    RecordRow,
)
from ingest.models import Session, StatusEvent, Stream
from ingest.objectchanges import Key, ObjectRow
from ingest.services import bans, leases, nodes, objects, outbox, recordings, sessions
from ingest.services.rows import insert_each


def write(batch: Sequence[Operation], attempts: Attempts) -> dict[Key, int]:
    """Writes the operations, those of each session in order. Repeating a batch changes nothing.

    Sessions begin first, all in one statement: nothing that is told of one comes before its begin. Attempts and
    shared objects belong to none. The streams of all of which others are told are held before anything is written (see
    `outbox`), and then the leases of all that end. Returns the bytes of each object that was written.
    """
    telling = (
        operation.session
        for operation in batch
        if isinstance(operation, EndRow | RecordRow)
        or (isinstance(operation, EventRow) and outbox.tells(operation.kind, operation.code))
    )
    held = outbox.hold_of(set(telling))
    leases.hold(sessions={operation.session for operation in batch if isinstance(operation, ENDS)})
    _begin([operation for operation in batch if isinstance(operation, BeginRow)])
    attempts.write([operation for operation in batch if isinstance(operation, AttemptRow)])
    sizes = objects.save(operation for operation in batch if isinstance(operation, ObjectRow))
    several = _Several(held)
    for operation in batch:
        if isinstance(operation, EventRow | MediaRow | EndRow):
            several.add(operation)
        elif isinstance(operation, BanRow):
            bans.impose(
                address=operation.address,
                seconds=operation.seconds,
                now=operation.at,
                guesses=operation.guesses,
                node=operation.node,
            )
        elif isinstance(operation, RecordRow):
            several.write()
            recordings.note(session=operation.session, at=operation.at, event=operation.event, held=held)
        elif isinstance(operation, DiscardRow):
            several.write()
            sessions.discard(session=operation.session, silent_since=operation.silent_since)
    several.write()
    return sizes


class _Several:
    """Events, media and ends of many sessions, which are written together: each session's events come before its end,
    and nothing comes after that."""

    def __init__(self, held: outbox.Held) -> None:
        self._held = held
        self._events: list[StatusEvent] = []
        self._media: list[sessions.MediaSaid] = []
        self._ends: list[sessions.Ending] = []

    def add(self, row: EventRow | MediaRow | EndRow) -> None:
        if isinstance(row, EventRow):
            self._events.append(status_event(row))
        elif isinstance(row, MediaRow):
            self._media.append(sessions.MediaSaid(row.session, row.media, row.metadata))
        else:
            self._ends.append(sessions.Ending(row.session, row.reason, row.description, row.at, row.totals))

    def write(self) -> None:
        if self._events:
            insert_each(self._events, but_those_there=True)
            outbox.told(self._events, self._held)
        if self._media:
            sessions.set_media(self._media)
        if self._ends:
            sessions.end_all(self._ends, self._held)
        self._events, self._media, self._ends = [], [], []


def _begin(rows: Sequence[BeginRow]) -> None:
    """Makes the sessions' rows. One whose stream was deleted since is made without: its node then ends it. One that
    waited for a name has the stream that came under it since."""
    if not rows:
        return
    streams = set(Stream.objects.filter(pk__in={row.stream for row in rows}).values_list("pk", flat=True))
    came = _came({(row.app, row.name) for row in rows if row.stream is None})
    there = {name: nodes.row(name=name) for name in {row.node for row in rows}}
    insert_each(
        [
            Session(
                pk=row.session,
                kind=Session.Kind.PLAY,
                app=row.app,
                name=row.name,
                stream_id=row.stream if row.stream in streams else came.get((row.app, row.name)),
                node=there[row.node],
                channel=row.channel,
                address=row.address,
                encoder=row.encoder,
                started_at=row.at,
            )
            for row in rows
        ],
        but_those_there=True,
    )


def _came(names: Set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """The streams that there are of these names (application, name)."""
    if not names:
        return {}
    rows = Stream.objects.filter(application__name__in={app for app, _ in names}, name__in={name for _, name in names})
    return {(app, name): pk for app, name, pk in rows.values_list("application__name", "name", "pk")}


def status_event(row: EventRow) -> StatusEvent:
    return StatusEvent(
        session_id=row.session,
        sequence=row.sequence,
        at=row.at,
        kind=row.kind,
        level=row.level,
        code=row.code,
        description=row.description,
        detail=row.detail,
    )
