"""The shared objects of a node: connections' messages to the registry, its messages to connections, and what the
application keeps.

docs/rtmp-asgi.md describes `rtmp.object.load`, `rtmp.object.loaded` and `rtmp.object.flush`. Nothing is waited for: who
wants to use a persistent object hears nothing of it until it was loaded, and what changes is handed over later.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from ingest.contracts import ObjectFlush, ObjectLoad, ObjectLoaded
from ingest.credentials import scrub_text
from ingest.live.shared_objects import (
    Access,
    Delivery,
    LiveObject,
    Member,
    ObjectLimits,
    ObjectRegistry,
    Stored,
    restored,
)
from ingest.log_records import about
from ingest.rate_limit import TokenBucket
from ingest.rtmp import RemoteProtocolError, events
from ingest.rtmp.limits import KIB, Limits
from ingest.server.config import Deadlines
from ingest.server.connection import Connection
from ingest.server.process import TimeSlices

logger = logging.getLogger(__name__)

NOT_CREATED: Final = "SharedObject.ObjectCreationFailed"


@dataclass(eq=False, slots=True)
class User(Member):
    connection: Connection
    limit: TokenBucket
    work: int = 0
    """What its requests have caused so far, in units of `ObjectLimits.work_per_s`."""


Shared = LiveObject[User]


class _Load(NamedTuple):
    shared: Shared
    overdue: asyncio.TimerHandle


class SharedObjects:
    """One for the node; connections tell it of what their clients send, and of their end."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limits: ObjectLimits, wire: Limits, deadlines: Deadlines
    ) -> None:
        self._loop = loop
        self._limits = limits
        self._wire = wire
        self._slices = TimeSlices(loop)
        self._deadlines = deadlines
        self._objects: ObjectRegistry[User] = ObjectRegistry(self, limits, wire)
        self._users: dict[Connection, User] = {}
        self._loads: dict[int, _Load] = {}
        self._request_ids = itertools.count(1)
        self._timers: dict[Shared, asyncio.TimerHandle] = {}
        """Until what has changed is handed over."""

    def __len__(self) -> int:
        return len(self._objects)

    # --- Connections ---

    def admit(self, connection: Connection, access: Access) -> None:
        """The connection was accepted. One that was not admitted may use none."""
        if access != "none":
            self._users[connection] = self._user(connection, access)

    def received(self, connection: Connection, event: events.SharedObjectReceived) -> None:
        if connection.ending:
            return
        if connection in self._users:
            connection.has_activity = True
        self._slices.do(connection, partial(self._handle, connection, event))

    def _handle(self, connection: Connection, event: events.SharedObjectReceived) -> None:
        user = self._users.get(connection) or self._user(connection, "none")
        if event.persistent and scrub_text(event.name, *connection.control.secrets) != event.name:
            deliveries = self._objects.refuse(user, event.name, NOT_CREATED, persistent=True)
        else:
            deliveries = self._objects.handle(user, event.name, event.events, persistent=event.persistent)
        self._deliver(deliveries)

    def leave(self, connection: Connection) -> None:
        """The connection ends; its application still takes messages. What it asked for before counts."""
        self._slices.finish(connection)
        user = self._users.pop(connection, None)
        if user:
            self._objects.leave(user)

    def close(self) -> None:
        self._slices.close()
        for timer in (*self._timers.values(), *(load.overdue for load in self._loads.values())):
            timer.cancel()
        if len(self._objects):
            logger.error(
                "The latest changes of %d persistent shared objects are lost: their clients' applications had failed.",
                len(self._objects),
            )

    def _user(self, connection: Connection, access: Access) -> User:
        limits = self._limits
        limit = TokenBucket(limits.work_per_s, limits.work_per_s * limits.work_s, self._loop.time())
        return User(connection.control.caller.app, access, connection.rtmp.amf3, connection, limit)

    def _deliver(self, deliveries: Iterable[Delivery[User]]) -> None:
        """Each message is encoded once for all. A receiver that doesn't read ends by itself, see `Outlet`."""
        causes: dict[User, None] = {}
        for delivery in deliveries:
            forms: dict[bool, bytes] = {}
            work = delivery.units
            for user in delivery.receivers:
                if user.connection.ending or user.connection.lost:
                    continue
                data = forms.get(user.amf3)
                if data is None:
                    data = forms[user.amf3] = delivery.encoded(amf3=user.amf3)
                work += 1 + len(data) // KIB
                try:
                    user.connection.write_control(data)
                except Exception as error:
                    user.connection.broken(error)
            delivery.cause.work += work
            causes[delivery.cause] = None
        now = self._loop.time()
        for user in causes:
            if user.limit.is_passed(user.work, now) and not user.connection.ending:
                most = self._limits.work_per_s
                description = f"More than {most} messages a second to users of shared objects."
                self._slices.forget(user.connection)  # Its end would do all of it at once.
                user.connection.end("protocol_error", description, notify=False)

    # --- What the application keeps ---

    def load(self, shared: Shared, member: User) -> None:
        for request_id, load in list(self._loads.items()):
            if load.shared is shared:  # Its former loader is gone.
                self._forget_load(request_id)
        request_id = next(self._request_ids)
        overdue = self._loop.call_later(self._deadlines.decision_s, self._overdue, request_id)
        self._loads[request_id] = _Load(shared, overdue)
        message: ObjectLoad = {"type": "rtmp.object.load", "request_id": request_id, "name": shared.name}
        member.connection.control.try_put(message)

    def loaded(self, message: ObjectLoaded) -> None:
        refused = message["refused"]
        shared = self._forget_load(message["request_id"])
        if shared is None:
            return
        if refused is not None:
            self._fail(shared, refused)
            return
        found: dict[str, Stored] = {}
        left = self._restored(message["data"].items(), found)
        self._slices.do(shared, partial(self._restore, shared, message["version"], left, found))

    def _restore(self, shared: Shared, version: int, left: Iterator[None], found: dict[str, Stored]) -> None:
        """One property in each piece of work, then what each client waits for."""
        if not shared.waiting:  # All who did are gone.
            return
        try:
            is_done = next(left, True)
        except RemoteProtocolError as error:
            logger.error(
                "The shared object %r of %s can't be used: a value that was kept can't be read: %s. Delete it, and "
                "clients can begin it anew.",
                shared.name,
                shared.app,
                error,
            )
            self._fail(shared, NOT_CREATED)
            return
        if not is_done:
            self._slices.do(shared, partial(self._restore, shared, version, left, found))
            return
        self._deliver(self._objects.loaded(shared, version, found))
        for user in list(shared.pending):
            self._slices.do(user.connection, partial(self._resume, shared, user))

    def _restored(self, kept: Iterable[tuple[str, bytes]], found: dict[str, Stored]) -> Iterator[None]:
        for name, data in kept:
            found[name] = restored(data, self._wire)
            yield None

    def _resume(self, shared: Shared, user: User) -> None:
        self._deliver(self._objects.resume(shared, user))

    def changed(self, shared: Shared) -> None:
        if shared not in self._timers:
            self._timers[shared] = self._loop.call_later(self._deadlines.object_save_s, self._save_due, shared)

    def save(self, shared: Shared, member: User) -> bool:
        timer = self._timers.pop(shared, None)
        if timer:
            timer.cancel()
        return self._hand_over(shared, member)

    def _save_due(self, shared: Shared) -> None:
        del self._timers[shared]
        if not any(self._hand_over(shared, member) for member in shared.members) and shared.members:
            self.changed(shared)

    def _hand_over(self, shared: Shared, member: User) -> bool:
        message: ObjectFlush = {
            "type": "rtmp.object.flush",
            "name": shared.name,
            "version": shared.version,
            "changes": shared.unsaved,
        }
        if not member.connection.control.try_put(message):
            return False
        shared.take_unsaved()
        return True

    def _overdue(self, request_id: int) -> None:
        shared = self._forget_load(request_id)
        if shared is not None:
            with about(stream=shared.app):
                logger.warning("No answer to what the shared object %r is, in time: refused", shared.name)
            self._fail(shared, NOT_CREATED)

    def _fail(self, shared: Shared, code: str) -> None:
        self._deliver(self._objects.failed(shared, code))

    def _forget_load(self, request_id: int) -> Shared | None:
        """The object, if somebody still waits for it."""
        load = self._loads.pop(request_id, None)
        if load is None:
            return None
        load.overdue.cancel()
        return load.shared if load.shared.waiting else None


OBJECT_EVENTS: Final[dict[type, Callable[[Any, Any, float], None]]] = {
    events.SharedObjectReceived: lambda connection, event, now: connection.control.objects.received(connection, event),
}
OBJECTS: Final[dict[str, Callable[[Any, Any], None]]] = {
    "rtmp.object.loaded": lambda control, message: control.objects.loaded(message),
}
