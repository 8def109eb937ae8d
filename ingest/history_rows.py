"""What history is told, a row for each: what happened to a session, an address, a recording."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ingest.attempts import AttemptRow
from ingest.contracts import EndReason, Totals
from ingest.contracts.recording import RecordEvent
from ingest.objectchanges import ObjectRow


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


@dataclass(frozen=True, slots=True)
class EventRow:
    session: uuid.UUID
    sequence: int
    at: datetime
    kind: str
    level: str = ""
    code: str = ""
    description: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MediaRow:
    session: uuid.UUID
    media: Mapping[str, Any]
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EndRow:
    session: uuid.UUID
    reason: EndReason
    description: str
    at: datetime
    totals: Totals | None = None


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
    """What became of a recording's file."""

    session: uuid.UUID
    at: datetime
    event: RecordEvent


Operation = BeginRow | EventRow | MediaRow | AttemptRow | BanRow | RecordRow | ObjectRow | EndRow | DiscardRow
ENDS = (EndRow, DiscardRow)
KEPT = (BeginRow, BanRow, RecordRow, *ENDS)
