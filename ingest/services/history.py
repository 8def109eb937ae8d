"""History: what it is told, a row for each thing that happened to a session, an address or a recording; and how a batch
of them gets into the database, in one transaction, in statements that don't grow with it."""

import uuid
from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from ingest.contracts.connection import RecordEvent
from ingest.models import Session, StatusEvent, Stream
from ingest.services import attempts, bans, leases, nodes, outbox, pulls, pushes, recordings, sessions, shared_objects
from ingest.services.attempts import OpenAttempt
from ingest.services.pulls import PullRow
from ingest.services.pushes import PushRow
from ingest.services.sessions import EndRow, MediaRow
from ingest.services.shared_objects import Key, ObjectRow
from ingest.services.sql import insert_each


@dataclass(frozen=True, slots=True)
class BeginRow:
    """A play session, which was admitted by reading alone; its texts are already fit for the database."""

    session: uuid.UUID
    app: str
    name: str
    stream: int | None
    node: str
    channel: str
    address: str
    encoder: str
    at: datetime
    protocol: str = ""


@dataclass(frozen=True, slots=True)
class DiscardRow:
    """Undoes an admission that came too late. `silent_since`: as in `sessions.discard`."""

    session: uuid.UUID
    silent_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class BanRow:
    """An address that this process refuses unheard from now on, for `seconds`."""

    address: str
    at: datetime
    seconds: float
    guesses: int
    node: str


@dataclass(frozen=True, slots=True)
class RecordRow:
    session: uuid.UUID
    at: datetime
    event: RecordEvent


Relay = PushRow | PullRow
Operation = (
    BeginRow | StatusEvent | MediaRow | OpenAttempt | BanRow | RecordRow | ObjectRow | EndRow | DiscardRow | Relay
)
ENDS = (EndRow, DiscardRow)
ALONE = (BanRow, RecordRow, DiscardRow, PushRow, PullRow)
KEPT = (BeginRow, BanRow, RecordRow, *ENDS)


def write(batch: Sequence[Operation]) -> dict[Key, int]:
    """Writes the operations, those of each session in order. Repeating a batch changes nothing.

    Sessions begin first, all in one statement: nothing that is told of one comes before its begin. Attempts and
    shared objects belong to none. The streams of all of which others are told are held before anything is written (see
    `outbox`), and then the leases of all that end. Returns the bytes of each object that was written.
    """
    telling = {operation.session for operation in batch if isinstance(operation, EndRow | RecordRow)}
    events = (operation for operation in batch if isinstance(operation, StatusEvent))
    telling |= {event.session_id for event in events if outbox.may_notify(event.kind, event.code)}
    held = outbox.hold_of(telling)
    leases.hold(sessions={operation.session for operation in batch if isinstance(operation, ENDS)})
    _begin([operation for operation in batch if isinstance(operation, BeginRow)])
    attempts.write([operation for operation in batch if isinstance(operation, OpenAttempt)])
    sizes = shared_objects.save_object(operation for operation in batch if isinstance(operation, ObjectRow))
    for is_alone, several in groupby(batch, lambda operation: isinstance(operation, ALONE)):
        if is_alone:
            for operation in several:
                _write_alone(operation, held)
        else:
            _write_together(list(several), held)
    return sizes


def _write_alone(row: Operation, held: outbox.Held) -> None:
    if isinstance(row, BanRow):
        bans.impose(address=row.address, seconds=row.seconds, now=row.at, guesses=row.guesses, node=row.node)
    elif isinstance(row, RecordRow):
        recordings.note(session=row.session, at=row.at, event=row.event, held=held)
    elif isinstance(row, PushRow):
        pushes.set_state(row)
    elif isinstance(row, PullRow):
        pulls.set_state(row)
    elif isinstance(row, DiscardRow):
        sessions.discard(session=row.session, silent_since=row.silent_since)


def _write_together(several: Sequence[Operation], held: outbox.Held) -> None:
    """Events, media and ends of many sessions: each session's events come before its end, and nothing after that."""
    events = [operation for operation in several if isinstance(operation, StatusEvent)]
    if events:
        insert_each(events, but_those_there=True)
        outbox.notify(events, held)
    sessions.set_media([operation for operation in several if isinstance(operation, MediaRow)])
    ends = [operation for operation in several if isinstance(operation, EndRow)]
    if ends:
        sessions.end_all(ends, held)


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
                protocol=row.protocol,
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
