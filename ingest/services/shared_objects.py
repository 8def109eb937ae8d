"""Persistent shared objects in the database, a row for each with all of its properties; and their changes that wait for
it, one for each object, however often it changes.

All of an object is one row, whatever has changed of it. So what is written is bounded by its size, and a large object
comes less often: clients can make any number of small changes, and who publishes waits for the same database."""

import base64
import json
import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingest import clean
from ingest.models import Application, SharedObject
from ingest.rtmp import RemoteProtocolError
from ingest.rtmp.amf import amf0
from ingest.services import authorization

logger = logging.getLogger(__name__)

MOST_BYTES = 64 * 1024 * 1024
"""What may wait, all objects together. Beyond, changes are lost: only while the database is away for long."""

PROPERTY_BYTES = 256
"""Counted for a property besides its name and value."""

BYTES_PER_S = 4 * 1024 * 1024
"""Of all objects, as they are written. Less than a tenth of what any disk takes."""

OBJECT_BYTES_PER_S = 64 * 1024
"""Of one object: one of 256 KiB is written each five seconds, one with a list of 50 users each time that it changes."""

BATCH_BYTES = 512 * 1024
"""In a transaction, which holds SQLite's lock: some 10 ms."""

BATCH = 50
"""Objects in a transaction."""

UNKNOWN_BYTES = 128 * 1024
"""Counted for an object that this process has not written yet."""

MOST_KNOWN = 10_000
"""Objects of which it is remembered when they were written."""

Key = tuple[str, str]
"""An application instance, and the object's name."""


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """What has become of properties; None: deleted."""

    app: str
    name: str
    version: int
    at: datetime
    changes: dict[str, bytes | None]

    @property
    def key(self) -> Key:
        return self.app, self.name

    @property
    def size(self) -> int:
        return sum(len(name) + len(value or b"") + PROPERTY_BYTES for name, value in self.changes.items())

    def then(self, later: "ObjectRow") -> "ObjectRow":
        return ObjectRow(self.app, self.name, later.version, later.at, self.changes | later.changes)


class Waiting:
    """What is still to be written. Rows that were taken are known until `written` is called."""

    def __init__(self) -> None:
        self._rows: dict[Key, ObjectRow] = {}
        self._bytes = 0
        self._writing: dict[Key, ObjectRow] = {}
        self._loses = False
        self._next = -math.inf
        """When anything may be written again."""
        self._known: dict[Key, tuple[int, float]] = {}
        """Of objects that were written: their size then, and when each may be written again."""

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, row: ObjectRow) -> bool:
        """False: there is no room for it."""
        former = self._rows.get(row.key)
        merged = former.then(row) if former else row
        size = self._bytes + merged.size - (former.size if former else 0)
        if size > MOST_BYTES:
            if not self._loses:
                logger.error(
                    "Changes of shared objects are lost, as more than %d MiB of them wait for the database. Bring it "
                    "back, or let fewer applications have persistent objects.",
                    MOST_BYTES // 1024**2,
                )
            self._loses = True
            return False
        self._loses = False
        self._rows[row.key] = merged
        self._bytes = size
        return True

    def wait_s(self, now: float) -> float:
        """Until the next may be written: infinity if there is none. `now`: as in `take`."""
        if not self._rows:
            return math.inf
        due = max(self._next, min(self._due(key) for key in self._rows))
        return max(0.0, due - now)

    def take(self, now: float = math.inf) -> list[ObjectRow]:
        """For one transaction: of those whose time has come. `now`: infinity for whatever waits."""
        rows: list[ObjectRow] = []
        size = 0
        for key in list(self._rows) if self._next <= now else ():
            if self._due(key) > now:
                continue
            size += self._known.get(key, (UNKNOWN_BYTES, 0.0))[0]
            if rows and (size > BATCH_BYTES or len(rows) >= BATCH):
                break
            rows.append(self._rows.pop(key))
        self._bytes -= sum(row.size for row in rows)
        self._writing = {row.key: row for row in rows}
        return rows

    def written(self, sizes: Mapping[Key, int], now: float) -> None:
        """What was taken is in the database, or given up. `sizes`: what was written of each."""
        self._writing = {}
        self._next = max(self._next, now) + sum(sizes.values()) / BYTES_PER_S
        for key, size in sizes.items():
            self._known[key] = size, now + size / OBJECT_BYTES_PER_S
        if len(self._known) > MOST_KNOWN:
            self._known = {key: known for key, known in self._known.items() if known[1] > now}

    def _due(self, key: Key) -> float:
        known = self._known.get(key)
        return known[1] if known else -math.inf

    def of(self, app: str, name: str) -> ObjectRow | None:
        """All that the database may not have yet of an object."""
        written, waiting = self._writing.get((app, name)), self._rows.get((app, name))
        return written.then(waiting) if written and waiting else waiting or written


MOST_OF_APPLICATION = 1000
"""Objects that an application may have in the database: clients make them, and nobody deletes them but operators."""


class NoRoomError(Exception):
    """The application has as many objects as it may, or none can have this name."""


def load_object(*, app: str, name: str, unwritten: ObjectRow | None) -> tuple[int, dict[str, bytes]]:
    """Version and properties of the object of an application or its instance (`app`), with what was asked to be written
    before this was; of an empty one if there is none.

    Raises NoRoomError, so that no client begins what could not be kept.
    """
    if not clean.fits(name) or len(name) > SharedObject.NAME_LENGTH:
        raise NoRoomError
    application, instance = authorization.split_instance(app)
    objects = SharedObject.objects.filter(application__name=application)
    row = objects.filter(instance=instance, name=name).first()
    if row is None and unwritten is None and objects.count() >= MOST_OF_APPLICATION:
        raise NoRoomError
    version, data = (row.version, unpack(row.data)) if row else (0, {})
    if unwritten:
        version, data = max(version, unwritten.version), _changed(data, unwritten.changes)
    return version, data


def save_object(rows: Iterable[ObjectRow]) -> dict[Key, int]:
    """Within a transaction: the bytes written of each. Properties that other nodes have changed stay. Repeating it
    changes nothing."""
    sizes: dict[Key, int] = {}
    for row in rows:
        app, instance = authorization.split_instance(row.app)
        application = Application.objects.filter(name=app).first()
        if application is None:  # Deleted since, with all of its objects.
            continue
        those = SharedObject.objects.select_for_update().filter(application=application, instance=instance)
        stored = those.filter(name=row.name).first()
        if stored is None:
            stored = SharedObject(application=application, instance=instance, name=row.name)
        stored.version = max(stored.version, row.version)
        stored.data = pack(_changed(unpack(stored.data), row.changes))
        stored.updated_at = row.at
        stored.save()
        sizes[row.key] = len(stored.data)
    return sizes


def pack(data: Mapping[str, bytes]) -> bytes:
    """As JSON: values in base64, by their names."""
    return json.dumps({name: base64.b64encode(value).decode() for name, value in data.items()}).encode()


def unpack(packed: bytes | memoryview) -> dict[str, bytes]:
    found: dict[str, str] = json.loads(bytes(packed))
    return {name: base64.b64decode(value) for name, value in found.items()}


def _changed(data: dict[str, bytes], changes: Mapping[str, bytes | None]) -> dict[str, bytes]:
    merged = {**data, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def shown(kept: SharedObject) -> str:
    """The properties for operators, a line each: as JSON, cut where they are long."""
    return "\n".join(
        f"{clean.text(name, clean.MAX_TEXT)}: {json.dumps(clean.jsonable(_value(value)), ensure_ascii=False)}"
        for name, value in list(unpack(kept.data).items())[: clean.MAX_ITEMS]
    )


def _value(data: bytes) -> Any:
    try:
        return amf0.decode(data)[0]
    except RemoteProtocolError:
        return "(can't be read)"
