"""Shared objects between real connections, and what their application is asked and told."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from ingest.live.shared_objects import ObjectLimits
from ingest.rtmp import Limits, events
from ingest.rtmp.amf import amf0
from ingest.rtmp.messages import shared_object as so
from ingest.rtmp.messages.shared_object import (
    Release,
    RequestChange,
    RequestRemove,
    SendMessage,
    SharedObject,
    Use,
)
from ingest.server import RtmpServer, process
from ingest.server.connection import Connection
from tests.rtmp_client import RtmpClient
from tests.server.app import Instance, Message, ScriptedApp
from tests.server.conftest import Serve
from tests.server.waiting import set_deadlines

NO_READ = "SharedObject.NoReadAccess"
NO_WRITE = "SharedObject.NoWriteAccess"
NOT_CREATED = "SharedObject.ObjectCreationFailed"
BAD_PERSISTENCE = "SharedObject.BadPersistence"


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


Join = Callable[..., Awaitable[Sharer]]


@pytest.fixture(autouse=True)
def temporary(app: ScriptedApp) -> None:
    """The application has temporary objects."""
    app.change("rtmp.connect", shared_objects="temporary")


class Kept:
    """What an application keeps of persistent objects: one of them, whatever its name."""

    def __init__(self, app: ScriptedApp) -> None:
        self.data: dict[str, bytes] = {}
        self.version = 0
        self.flushes: list[Message] = []
        app.on |= {"rtmp.object.load": self.load, "rtmp.object.flush": self.flush}

    async def load(self, _instance: Instance, event: Message) -> Message:
        answer = {"type": "rtmp.object.loaded", "request_id": event["request_id"]}
        return answer | {"version": self.version, "data": self.data, "refused": None}

    async def flush(self, _instance: Instance, event: Message) -> Message | None:
        self.flushes.append(event)
        self.version = event["version"]
        for name, value in event["changes"].items():
            if value is None:
                self.data.pop(name, None)
            else:
                self.data[name] = value
        return None


@pytest.fixture
def kept(app: ScriptedApp) -> Kept:
    app.change("rtmp.connect", shared_objects="persistent")
    return Kept(app)


@pytest.fixture
async def join(server: RtmpServer) -> AsyncIterator[Join]:
    """Connected clients; `use=True`: they use their object already."""
    async with AsyncExitStack() as stack:

        async def make(*, use: bool = True, app: str = "room", at: RtmpServer = server, **kind: Any) -> Sharer:
            client = await stack.enter_async_context(Sharer(port=at.addresses[0][1], **kind))
            await client.connect(app)
            if use:
                await client.use()
            return client

        yield make


# --- Sharing ---


@pytest.mark.parametrize("encodings", [(False, False), (True, True), (False, True), (True, False)], ids=str)
async def test_shared_object_exchange_works_between_amf0_and_amf3_clients(
    app: ScriptedApp, join: Join, encodings: Any
) -> None:
    """Section 7.3.2, over types 19 and 16."""
    one, other = [await join(amf3=amf3) for amf3 in encodings]
    await one.set("users", {"anna": [1.0, True], "bert": "hello"})
    await other.is_told("users", {"anna": [1.0, True], "bert": "hello"})
    await other.ask(SendMessage("say", ["hello", {"to": "all"}]))
    for client in (one, other):
        await client.wait_until(lambda client=client: client.messages)  # type: ignore[misc]
        assert client.messages == [("say", ["hello", {"to": "all"}])]
    await one.ask(RequestChange("users", None))
    await other.is_told("users", None)
    assert other.version == 2
    late = await join(amf3=True)
    assert late.properties == {}


async def test_shared_objects_of_other_apps_or_names_are_separate(app: ScriptedApp, join: Join) -> None:
    one = await join()
    elsewhere, another = await join(app="lobby"), await join(name="whiteboard")
    await one.set("a", 1.0)
    await elsewhere.set("a", 2.0)
    assert another.properties == {}
    assert one.properties == {"a": 1.0}


async def test_client_that_only_uses_a_shared_object_is_not_ended_as_idle(
    app: ScriptedApp, server: RtmpServer, join: Join
) -> None:
    """It need not publish or play. One that shares nothing has to."""
    client, idle = await join(at=server), await join(at=server, use=False)
    set_deadlines(server, publish_or_play_s=0.2, waiting_s=0)
    await idle.wait_closed()
    await client.set("a", 1.0)


async def test_a_client_that_vanishes_is_forgotten(app: ScriptedApp, server: RtmpServer, join: Join) -> None:
    one, other = await join(), await join()
    await one.set("a", 1.0)
    one.abort()
    await app.event("rtmp.disconnect", connection=0)
    await other.set("b", 2.0)
    assert other.properties == {"a": 1.0, "b": 2.0}
    await other.close()
    await app.event("rtmp.disconnect", connection=1)
    assert len(server.objects) == 0


async def test_client_that_reads_no_object_changes_is_the_only_one_ended(
    app: ScriptedApp, serve: Serve, join: Join
) -> None:
    """What waits for it is bounded: its connection ends with `protocol_error`."""
    backlog = 256 * 1024
    quick = {"limits": Limits(control_messages_per_s=10**6), "objects": ObjectLimits(work_per_s=10**6)}
    server = await serve(config={"control_backlog_bytes": backlog, **quick})
    one, other, deaf = [await join(at=server) for _ in range(3)]
    deaf.pause_reading()
    connection = next(each for each in server.connections if each.peer == app.connections[2].scope["client"])
    most = number = 0
    while not app.connections[2].of("rtmp.disconnect"):
        number += 1
        assert number < 2000, "it was never ended"
        await one.set("a", f"{number} " + "x" * 30_000)
        most = max(most, connection.outlet.control_waiting)
    assert (await app.event("rtmp.disconnect", connection=2))["reason"] == "protocol_error"
    assert most <= backlog + 35_000
    await other.is_told("a", one.properties["a"])
    assert not app.connections[0].of("rtmp.disconnect")


# --- Access ---


@pytest.mark.parametrize(
    ("access", "persistent", "code"),
    [(None, False, NO_READ), ("none", True, NO_READ), ("temporary", True, BAD_PERSISTENCE)],
)
async def test_shared_object_is_refused_where_the_application_allows_none(
    app: ScriptedApp, join: Join, server: RtmpServer, access: str | None, persistent: bool, code: str
) -> None:
    """That is what one is which says nothing of them."""
    app.on["rtmp.connect"] = app.accept
    if access:
        app.change("rtmp.connect", shared_objects=access)
    client = await join(use=False, persistent=persistent)
    await client.ask(Use(), RequestChange("a", 1.0))
    await client.is_refused(code)
    assert len(server.objects) == 0
    assert not app.connections[0].of("rtmp.object.load")


# --- Limits ---


async def test_shared_object_value_over_the_limit_is_refused(app: ScriptedApp, serve: Serve, join: Join) -> None:
    client = await join(at=await serve(config={"objects": ObjectLimits(value_bytes=1000)}))
    await client.set("a", "x" * 900)
    await client.ask(RequestChange("a", "x" * 1100))
    await client.is_refused(NO_WRITE)
    await client.is_told("a", "x" * 900)
    await client.set("a", "short")


async def test_client_that_causes_too_much_shared_object_work_is_ended(
    app: ScriptedApp, serve: Serve, join: Join
) -> None:
    server = await serve(config={"objects": ObjectLimits(work_per_s=100)})
    one, *others = [await join(at=server) for _ in range(5)]
    began = time.monotonic()
    for number in range(100):
        await one.ask(SendMessage("say", [float(number)]))
    ended = await app.event("rtmp.disconnect", connection=0)
    assert (ended["reason"], "100" in ended["description"]) == ("protocol_error", True)
    await others[0].set("a", 1.0)
    for other in others[1:]:
        await other.is_told("a", 1.0)  # After all that was said before.
    said = [len(other.messages) for other in others]
    assert said == [said[0]] * 4
    assert 15 <= said[0] <= 25 * (1 + time.monotonic() - began)


async def test_queued_messages_of_a_client_ended_for_overload_are_dropped(
    app: ScriptedApp, serve: Serve, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All comes in one piece, and there is hardly any time for it in a turn of the loop."""
    monkeypatch.setattr(process, "SLICE_S", 0.0002)
    server = await serve(config={"objects": ObjectLimits(work_per_s=100)})
    one, *others = [await join(at=server) for _ in range(5)]
    began = time.monotonic()
    for number in range(400):
        said = SendMessage("say", [float(number)])
        one.protocol.send_shared_object(SharedObject(one.name, one.version, False, [said]))
    await one.flush()
    ended = await app.event("rtmp.disconnect", connection=0)
    assert ended["reason"] == "protocol_error"
    await others[0].set("a", 1.0)
    assert 15 <= len(others[0].messages) <= 25 * (1 + time.monotonic() - began)


async def test_client_that_repeatedly_requests_a_large_object_is_ended(
    app: ScriptedApp, server: RtmpServer, join: Join
) -> None:
    one, other = await join(at=server), await join(at=server, name="another")
    for number in range(8):
        await one.set(f"{number}", "x" * 30_000)
    for _ in range(20):
        await one.ask(Use())
    ended = await app.event("rtmp.disconnect", connection=0)
    assert (ended["reason"], "shared objects" in ended["description"]) == ("protocol_error", True)
    await other.set("a", 1.0)


# --- Persistent objects ---


async def test_a_persistent_object_outlives_its_clients(
    app: ScriptedApp, kept: Kept, join: Join, server: RtmpServer
) -> None:
    one, other = await join(persistent=True), await join(persistent=True)
    assert [instance.of("rtmp.object.load") != [] for instance in app.connections] == [True, False]
    await one.set("a", [1.0, "x"])
    await one.set("b", True)
    await one.close()
    await app.event("rtmp.disconnect", connection=0)
    await other.ask(RequestRemove("b"), Release())
    await app.wait_until(lambda: "b" not in kept.data and bool(kept.data))
    assert len(server.objects) == 0
    assert kept.data == {"a": amf0.encode([1.0, "x"])}
    late = await join(persistent=True)
    assert (late.properties, late.version) == ({"a": [1.0, "x"]}, 3)


async def test_persistent_changes_are_gathered_into_one_flush_per_interval(
    app: ScriptedApp, kept: Kept, serve: Serve, join: Join
) -> None:
    """One flush tells of all that changed since the former one; one that ends nothing else tells of nothing."""
    save_s = 0.3
    server = await serve(object_save_s=save_s)
    client = await join(persistent=True, at=server)
    began = time.monotonic()
    for number in range(10):
        await client.set("a", float(number))
    await client.set("b", "x")
    await app.wait_until(lambda: kept.version == 11)
    assert len(kept.flushes) * (save_s - 0.01) <= time.monotonic() - began, "the next one after `save_s` again"
    assert kept.data == {"a": amf0.encode(9.0), "b": amf0.encode("x")}
    assert {(flush["type"], flush["name"]) for flush in kept.flushes} == {("rtmp.object.flush", "chat")}
    assert "b" in kept.flushes[-1]["changes"]
    before = len(kept.flushes)
    await client.close()
    await app.event("rtmp.disconnect", connection=0)
    assert len(kept.flushes) == before


async def test_persistent_changes_are_flushed_at_a_stop(app: ScriptedApp, kept: Kept, serve: Serve) -> None:
    server = await serve(object_save_s=60)
    async with Sharer(port=server.addresses[0][1], persistent=True) as client:
        await client.connect()
        await client.use()
        await client.set("a", 1.0)
        await server.stop(grace_s=2)
    assert kept.data == {"a": amf0.encode(1.0)}
    kinds = app.connections[0].kinds
    assert kinds.index("rtmp.object.flush") < kinds.index("rtmp.disconnect")


async def test_loading_object_delays_only_the_clients_that_use_it(app: ScriptedApp, kept: Kept, join: Join) -> None:
    loads: list[tuple[Instance, Message]] = []

    async def later(instance: Instance, event: Message) -> None:
        loads.append((instance, event))

    app.on["rtmp.object.load"] = later
    kept.data = {"a": amf0.encode(1.0)}
    one, other = [await join(persistent=True, use=False) for _ in range(2)]
    await one.ask(Use(), RequestChange("b", 2.0))
    await app.event("rtmp.object.load", connection=0)
    await other.ask(Use())
    assert await one.publish("cam1") == 1, "all else goes on"
    temporary = await join()
    await temporary.set("a", "another object of the name")
    ((instance, event),) = loads
    await instance.send(await kept.load(instance, event))
    for client in (one, other):
        await client.is_told("b", 2.0)
        assert client.properties == {"a": 1.0, "b": 2.0}


@pytest.mark.parametrize("answer", ["refused", "unreadable", "none"])
async def test_persistent_object_whose_load_fails_is_refused_and_can_be_retried(
    app: ScriptedApp, kept: Kept, serve: Serve, join: Join, server: RtmpServer, answer: str
) -> None:
    async def load(_instance: Instance, event: Message) -> Message | None:
        answers: dict[str, Message] = {"refused": {"refused": NO_READ}, "unreadable": {"data": {"a": b"\xff"}}}
        return await kept.load(_instance, event) | answers[answer] if answer in answers else None

    app.on["rtmp.object.load"] = load
    server = await serve(decision_s=0.2) if answer == "none" else server
    client = await join(persistent=True, use=False, at=server)
    await client.ask(Use())
    await client.is_refused(NO_READ if answer == "refused" else NOT_CREATED)
    assert len(server.objects) == 0
    await client.ask(RequestChange("a", 1.0))
    await client.is_refused(NO_WRITE)
    app.on["rtmp.object.load"] = kept.load
    await client.use()


async def test_object_load_passes_to_another_client_when_the_first_leaves(
    app: ScriptedApp, kept: Kept, join: Join
) -> None:
    async def answer_the_second(instance: Instance, event: Message) -> Message | None:
        return await kept.load(instance, event) if instance is app.connections[1] else None

    app.on["rtmp.object.load"] = answer_the_second
    one, other = [await join(persistent=True, use=False) for _ in range(2)]
    await one.ask(Use())
    await app.event("rtmp.object.load", connection=0)
    await other.ask(Use())
    await other.create_stream()  # Its Use has arrived.
    one.abort()
    await other.wait_until(lambda: other.uses == 1)


async def test_changes_unsaved_by_a_failed_application_are_saved_by_the_next(
    app: ScriptedApp, kept: Kept, serve: Serve, join: Join, server: RtmpServer
) -> None:
    """They stay until another client's application takes them."""
    server = await serve(object_save_s=60)
    one = await join(persistent=True, at=server)
    await one.set("a", 1.0)
    app.on["rtmp.publish"] = app.fail
    one.protocol.create_stream()
    one.protocol.publish(1, "cam1")
    await one.flush()
    await one.wait_closed()
    assert (kept.flushes, len(server.objects)) == ([], 1)
    other = await join(persistent=True, at=server)
    assert other.properties == {"a": 1.0}
    await other.close()
    await app.wait_until(lambda: bool(kept.flushes))
    assert kept.data == {"a": amf0.encode(1.0)}


async def test_a_name_with_a_secret_in_it_is_not_kept(app: ScriptedApp, kept: Kept, join: Join) -> None:
    client = await join(persistent=True, use=False, name="chat?token=abcdefghijkl")
    await client.ask(Use())
    await client.is_refused(NOT_CREATED)
    assert not app.connections[0].of("rtmp.object.load")


async def test_changes_sent_before_a_protocol_error_still_take_effect(app: ScriptedApp, join: Join) -> None:
    one, other = await join(), await join()
    await one.ask(RequestChange("a", 1.0))
    one._writer.write(b"\xff" * 64)
    await other.is_told("a", 1.0)
    assert (await app.event("rtmp.disconnect", connection=0))["reason"] == "protocol_error"
    assert other.of(events.SharedObjectReceived)


async def test_shared_object_messages_count_against_the_receivers_window(
    app: ScriptedApp, server: RtmpServer, join: Join
) -> None:
    one, other = await join(), await join()
    peer = app.connections[1].scope["client"]
    connection = next(each for each in server.connections if isinstance(each, Connection) and each.peer == peer)
    before = connection.rtmp.window.sent
    await one.set("a", "x" * 10_000)
    await other.is_told("a", "x" * 10_000)
    assert 10_000 < connection.rtmp.window.sent - before < 10_100
