"""A client of shared objects on a real connection."""

from typing import Any

from ingest.rtmp import events
from ingest.rtmp.messages.shared_object import (
    Change,
    Clear,
    Remove,
    RequestChange,
    SendMessage,
    SharedObject,
    SharedObjectEvent,
    Status,
    Success,
    Use,
    UseSuccess,
)
from tests.rtmp_client import RtmpClient


class Sharer(RtmpClient):
    """`properties` are those of the object, as it was told of it and as it set them."""

    def __init__(self, *, port: int, name: str = "chat", persistent: bool = False, amf3: bool = False) -> None:
        super().__init__(port=port)
        self.name = name
        self.persistent = persistent
        self.amf3 = amf3
        self.properties: dict[str, Any] = {}
        self.version = 0
        self.uses = 0
        """How often it was told that it uses the object."""
        self.messages: list[tuple[str, list[Any]]] = []
        self.statuses: list[str] = []
        self._set: dict[str, Any] = {}
        self.listener = self._listen

    async def __aenter__(self) -> "Sharer":
        await self.open()
        return self

    async def connect(self, app: str = "room", **properties: Any) -> events.ResultReceived:
        return await super().connect(app, objectEncoding=3.0 if self.amf3 else 0.0, **properties)

    async def use(self, *more: SharedObjectEvent) -> None:
        """Returns as soon as the object is there."""
        before = self.uses
        await self.ask(Use(), *more)
        await self.wait_until(lambda: self.uses > before)

    async def set(self, name: str, value: Any) -> None:
        """Returns as soon as the server said so."""
        await self.ask(RequestChange(name, value))
        await self.wait_until(lambda: self.properties.get(name) == value)

    async def ask(self, *asked: SharedObjectEvent) -> None:
        self._set |= {event.name: event.value for event in asked if isinstance(event, RequestChange)}
        self.protocol.send_shared_object(SharedObject(self.name, self.version, self.persistent, list(asked)))
        await self.flush()

    async def is_told(self, name: str, value: Any) -> None:
        """Returns as soon as the property is this; None: deleted."""
        await self.wait_until(lambda: self.properties.get(name) == value)

    async def is_sent(self, handler: str, *values: Any) -> None:
        """Returns as soon as it has got the message, which is its first."""
        await self.wait_until(lambda: bool(self.messages))
        assert self.messages == [(handler, list(values))]

    async def is_answered(self) -> None:
        """Returns as soon as it may use the object, or may not."""
        await self.wait_until(lambda: bool(self.uses or self.statuses))

    async def is_refused(self, code: str) -> None:
        await self.wait_until(lambda: bool(self.statuses))
        assert self.statuses == [code]
        self.statuses.clear()

    def _listen(self, event: events.Event) -> None:
        if not isinstance(event, events.SharedObjectReceived) or event.name != self.name:
            return
        assert event.persistent == self.persistent
        self.version = event.version
        for each in event.events:
            match each:
                case UseSuccess():
                    self.uses += 1
                case Clear():
                    self.properties.clear()
                case Change(name, value):
                    self.properties[name] = value
                case Remove(name):
                    self.properties.pop(name, None)
                case Success(name):
                    self.properties[name] = self._set[name]
                case SendMessage(handler, values):
                    self.messages.append((handler, values))
                case Status(code):
                    self.statuses.append(code)
