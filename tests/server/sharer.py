"""A client of shared objects on a real connection."""

from typing import Any

from ingest.rtmp import events
from ingest.rtmp.messages import shared_object as so
from tests.rtmp_client import RtmpClient


class Sharer(RtmpClient):
    """A client of one object. `properties` are those that the server sent or confirmed."""

    def __init__(self, *, port: int, name: str = "chat", persistent: bool = False, amf3: bool = False) -> None:
        super().__init__(port=port)
        self.name, self.persistent, self.amf3 = name, persistent, amf3
        self.properties: dict[str, Any] = {}
        self.version = 0
        self.uses = 0
        """The number of confirmed uses of the object."""
        self.messages: list[tuple[str, list[Any]]] = []
        self.statuses: list[str] = []
        self._set: dict[str, Any] = {}
        self.listener = self._listen

    async def connect(self, app: str = "room", **properties: Any) -> events.ResultReceived:
        return await super().connect(app, objectEncoding=3.0 if self.amf3 else 0.0, **properties)

    async def ask(self, *asked: so.SharedObjectEvent) -> None:
        self._set |= {event.name: event.value for event in asked if isinstance(event, so.RequestChange)}
        self.protocol.send_shared_object(so.SharedObject(self.name, self.version, self.persistent, list(asked)))
        await self.flush()

    async def use(self, *more: so.SharedObjectEvent) -> None:
        before = self.uses
        await self.ask(so.Use(), *more)
        await self.wait_until(lambda: self.uses > before)

    async def set(self, name: str, value: Any) -> None:
        """Set a property. Return when the server has confirmed it."""
        await self.ask(so.RequestChange(name, value))
        await self.is_told(name, value)

    async def is_told(self, name: str, value: Any) -> None:
        """Return when the property has this value. None: it is deleted."""
        await self.wait_until(lambda: self.properties.get(name) == value)

    async def is_refused(self, code: str) -> None:
        await self.wait_until(lambda: self.statuses)
        assert self.statuses == [code]
        self.statuses.clear()

    def _listen(self, event: events.Event) -> None:
        if not isinstance(event, events.SharedObjectReceived) or event.name != self.name:
            return
        assert event.persistent == self.persistent
        self.version = event.version
        for each in event.events:
            match each:
                case so.UseSuccess():
                    self.uses += 1
                case so.Clear():
                    self.properties.clear()
                case so.Change(name, value):
                    self.properties[name] = value
                case so.Remove(name):
                    self.properties.pop(name, None)
                case so.Success(name):
                    self.properties[name] = self._set[name]
                case so.SendMessage(handler, values):
                    self.messages.append((handler, values))
                case so.Status(code):
                    self.statuses.append(code)
