"""Persistent shared objects in the database: a row for each, with all of its properties."""

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ingest import clean
from ingest.models import Application, SharedObject
from ingest.objectchanges import Key, ObjectRow
from ingest.rtmp import RemoteProtocolError, amf0
from ingest.services import instances

MOST_OF_APPLICATION = 1000
"""Objects that an application may have in the database: clients make them, and nobody deletes them but operators."""


class NoRoomError(Exception):
    """The application has as many objects as it may, or none can have this name."""


@dataclass(frozen=True, slots=True)
class Loaded:
    version: int
    data: dict[str, bytes]


def load(*, app: str, name: str, unwritten: ObjectRow | None) -> Loaded:
    """The object of an application or its instance (`app`), with what was asked to be written before this was; an empty
    one if there is none.

    Raises NoRoomError, so that no client begins what could not be kept.
    """
    if not clean.fits(name) or len(name) > SharedObject.NAME_LENGTH:
        raise NoRoomError
    application, instance = instances.split(app)
    objects = SharedObject.objects.filter(application__name=application)
    found = objects.filter(instance=instance, name=name).first()
    if found is None and unwritten is None and objects.count() >= MOST_OF_APPLICATION:
        raise NoRoomError
    version, data = (found.version, unpack(found.data)) if found else (0, {})
    if unwritten:
        version, data = max(version, unwritten.version), _changed(data, unwritten.changes)
    return Loaded(version, data)


def save(rows: Iterable[ObjectRow]) -> dict[Key, int]:
    """Within a transaction: the bytes written of each. Properties that other nodes have changed stay. Repeating it
    changes nothing."""
    sizes: dict[Key, int] = {}
    for row in rows:
        app, instance = instances.split(row.app)
        application = Application.objects.filter(name=app).first()
        if application is None:  # Deleted since, with all of its objects.
            continue
        those = SharedObject.objects.select_for_update().filter(application=application, instance=instance)
        found = those.filter(name=row.name).first()
        if found is None:
            found = SharedObject(application=application, instance=instance, name=row.name)
        found.version = max(found.version, row.version)
        found.data = pack(_changed(unpack(found.data), row.changes))
        found.updated_at = row.at
        found.save()
        sizes[row.key] = len(found.data)
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
