"""What a client asks for in one message, looked at once, before anything of it is done."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ingest.live.objects.limits import SLOT_BYTES, ObjectLimits
from ingest.live.objects.values import Stored, plain, store
from ingest.rtmp.amf import UNDEFINED
from ingest.rtmp.messages.shared_object import (
    Release,
    RequestChange,
    RequestRemove,
    SendMessage,
    SharedObjectEvent,
    Use,
)


@dataclass(frozen=True, slots=True)
class Put:
    """Sets a property."""

    name: str
    stored: Stored


@dataclass(frozen=True, slots=True)
class Erase:
    """Sets a property to null or undefined, which deletes it."""

    name: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A value that is too long, or that half of the clients couldn't be sent; of a property, or of a message."""

    name: str | None


Step = Use | Release | Put | Erase | RequestRemove | SendMessage | Refused


def read_steps(events: Iterable[SharedObjectEvent], limits: ObjectLimits, *, amf3: bool) -> list[Step]:
    """Leaves out what only servers send, and events that nobody knows. `amf3`: the client's encoding."""
    steps: list[Step] = []
    for event in events:
        if isinstance(event, RequestChange):
            steps.append(_change(event.name, event.value, limits, amf3=amf3))
        elif isinstance(event, SendMessage):
            values = event.values if amf3 else [plain(value) for value in event.values]
            fits = _fits(store(values, amf3=amf3), limits)
            steps.append(SendMessage(event.handler, values) if fits else Refused(None))
        elif isinstance(event, Use | Release | RequestRemove):
            steps.append(event)
    return steps


def bytes_of(step: Step) -> int:
    """What a step that waits is counted."""
    return SLOT_BYTES + (len(step.name) + step.stored.size if isinstance(step, Put) else 0)


def _change(name: str, value: Any, limits: ObjectLimits, *, amf3: bool) -> Step:
    if value is None or value is UNDEFINED:
        return Erase(name)
    stored = store(value if amf3 else plain(value), amf3=amf3)
    return Put(name, stored) if stored is not None and _fits(stored, limits) else Refused(name)


def _fits(stored: Stored | None, limits: ObjectLimits) -> bool:
    return stored is not None and stored.size <= limits.value_bytes
