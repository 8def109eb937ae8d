"""Shared objects that are kept in the database, through real connections to media nodes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.utils import timezone

from ingest.consumers import shared_objects as consumer
from ingest.consumers.decisions import READ
from ingest.live.shared_objects import ObjectLimits
from ingest.log_records import Bound
from ingest.models import Application, Attempt, SharedObject
from ingest.rtmp.amf import amf0, amf3
from ingest.rtmp.messages.shared_object import Release, RequestChange, RequestRemove, Use
from ingest.server import Deadlines
from ingest.services import shared_objects
from ingest.services.history_writer import HistoryWriter
from ingest.services.shared_objects import ObjectRow, Waiting
from tests.ingest.control import flush, listening
from tests.ingest.faults import held, limited, locked_database, missing_table
from tests.ingest.operators import member
from tests.ingest.ticks import until
from tests.server.test_objects import Sharer

NOT_CREATED = "SharedObject.ObjectCreationFailed"
QUICK = Deadlines(object_save_s=0.05)
NOW = timezone.now()


@pytest.fixture
def room(process: HistoryWriter) -> Application:
    return Application.objects.create(name="room", shared_objects="persistent")


@asynccontextmanager
async def sharing(port: int, clients: int = 1, *, use: bool = True, **kind: Any) -> AsyncIterator[list[Sharer]]:
    async with AsyncExitStack() as stack:
        found = []
        for _ in range(clients):
            client = await stack.enter_async_context(Sharer(port=port, **({"persistent": True} | kind)))
            await client.connect()
            if use:
                await client.use()
            found.append(client)
        yield found


def kept(name: str = "chat") -> dict[str, bytes]:
    found = SharedObject.objects.filter(name=name).first()
    return shared_objects.unpack(found.data) if found else {}


@pytest.mark.stores
async def test_a_persistent_object_outlives_its_server(room: Application) -> None:
    """With every kind of value, and its version. A temporary one of the name doesn't."""
    values = {"list": [1.0, {"a": None}], "bytes": b"\x00\xff", "point": amf3.Object("Point", {"x": 1}, sealed=["x"])}
    async with (
        listening() as port,
        sharing(port, 2, amf3=True) as (one, other),
        sharing(port, persistent=False) as [temporary],
    ):
        for name, value in values.items():
            await one.set(name, value)
        await one.ask(RequestChange("gone", 1.0), RequestRemove("gone"))
        await one.set("\x00 any name \ud7ff", True)
        await other.is_told("\x00 any name \ud7ff", True)
        await temporary.set("a", 1.0)
    await asyncio.to_thread(flush)
    async with listening() as port, sharing(port, amf3=True) as [late], sharing(port, persistent=False) as [temporary]:
        assert late.properties == values | {"\x00 any name \ud7ff": True}
        assert late.version == one.version > 0
        assert temporary.properties == {}


@pytest.mark.both_forms
async def test_shared_object_changes_are_written_while_it_is_in_use(room: Application) -> None:
    async with listening(deadlines=QUICK) as port, sharing(port) as [client]:
        await client.set("a", 1.0)
        await until(lambda: kept() == {"a": amf0.encode(1.0)})
        await client.ask(RequestRemove("a"), RequestChange("b", "x"))
        await until(lambda: kept() == {"b": amf0.encode("x")})
    found = await SharedObject.objects.aget()
    assert (found.application_id, found.version) == (room.pk, 2)
    assert NOW - timedelta(minutes=1) < found.updated_at < timezone.now()


async def test_reopened_shared_object_includes_changes_not_yet_written(
    room: Application, process: HistoryWriter
) -> None:
    """The database may take its time, or be away: what this node wrote last counts."""
    async with listening() as port, sharing(port) as [client]:
        with locked_database():
            for number in range(3):
                await client.set("a", float(number))
                await client.set(f"{number}", True)
                await client.ask(RequestRemove(f"{number - 1}"), Release())
                await client.use()
                assert client.properties == {"a": float(number), f"{number}": True}
            assert not await sync_to_async(kept)()
        assert await asyncio.to_thread(process.flush, 10)
    assert set(await sync_to_async(kept)()) == {"a", "2"}
    assert process.dropped == 0


@pytest.mark.both_forms
@pytest.mark.parametrize("fault", ["slow", "broken"])
async def test_failing_database_refuses_new_shared_objects_but_not_open_ones(
    room: Application, fault: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "FAILURES", Bound(100))
    async with listening() as port, sharing(port, 2) as (one, other), sharing(port, use=False, name="new") as [new]:
        with limited(1), held(READ) if fault == "slow" else missing_table("ingest_sharedobject"):
            await new.ask(Use())
            await one.set("a", 1.0)
            await other.is_told("a", 1.0)
            assert new.statuses == [] or fault == "broken"
            await new.is_refused(NOT_CREATED)
        assert "shared object 'new' of room was refused: the database" in caplog.text
        await new.use()


async def test_a_write_that_fails_is_tried_again(
    room: Application, process: HistoryWriter, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(deadlines=QUICK) as port, sharing(port) as [client]:
        with missing_table("ingest_sharedobject"):
            await client.set("a", 1.0)
            await until(lambda: "History waits for the database" in caplog.text)
            await client.set("a", 4.0)
            await until(lambda: (row := process.unwritten_object("room", "chat")) and row.version == 2)
        assert await asyncio.to_thread(process.flush, 10)
        assert await sync_to_async(kept)() == {"a": amf0.encode(4.0)}
    assert caplog.text.count("History waits for the database") == 1


@pytest.mark.stores
async def test_property_changes_of_two_nodes_are_merged_in_the_database(room: Application) -> None:
    """Each has its own object; in the database both are one, the later change of a property counts."""
    async with (
        listening("node-a", deadlines=QUICK) as port_a,
        listening("node-b", deadlines=QUICK) as port_b,
        sharing(port_a) as [one],
        sharing(port_b) as [other],
    ):
        await one.set("a", 1.0)
        await until(lambda: "a" in kept())
        await other.set("b", 2.0)
        await until(lambda: "b" in kept())
        assert other.properties == {"b": 2.0}
    async with listening() as port, sharing(port) as [late]:
        assert late.properties == {"a": 1.0, "b": 2.0}


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("access", ["none", "temporary"])
async def test_shared_objects_beyond_the_applications_access_are_refused(access: str) -> None:
    await Application.objects.acreate(name="room", shared_objects=access)
    codes = {
        "none": ["SharedObject.NoReadAccess"] * 2,
        "temporary": ["SharedObject.BadPersistence"],
    }[access]
    async with (
        listening() as port,
        sharing(port, use=False) as [one],
        sharing(port, use=False, persistent=False) as [other],
    ):
        for client in (one, other):
            await client.ask(Use())
            await client.wait_until(lambda client=client: client.uses or client.statuses)  # type: ignore[misc]
        assert one.statuses + other.statuses == codes


@pytest.mark.usefixtures("process")
async def test_shared_objects_are_off_until_an_operator_enables_them() -> None:
    await sync_to_async(call_command)("application", "set", "room")
    assert (await Application.objects.aget()).shared_objects == "none"
    await sync_to_async(call_command)("application", "set", "room", "--shared-objects", "temporary")
    assert (await Application.objects.aget()).shared_objects == "temporary"


async def test_shared_object_with_an_unstorable_name_is_refused(room: Application) -> None:
    async with listening() as port:
        for name in ("x" * 256, "a\x00b"):
            async with sharing(port, use=False, name=name) as [client]:
                await client.ask(Use())
                await client.is_refused(NOT_CREATED)


async def test_number_of_shared_objects_of_an_application_is_bounded(
    room: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_objects, "MOST_OF_APPLICATION", 1)
    async with listening() as port, sharing(port) as [one], sharing(port, use=False, name="more") as [more]:
        await one.set("a", 1.0)
        await one.ask(Release())
        await until(lambda: kept() == {"a": amf0.encode(1.0)})
        await more.ask(Use())
        await more.is_refused(NOT_CREATED)
        await one.use()


async def test_a_client_that_only_shared_is_no_failed_attempt(room: Application) -> None:
    async with listening() as port:
        async with sharing(port, persistent=False):
            pass
        async with sharing(port, use=False) as [client]:
            client.protocol.call("publish")
    await asyncio.to_thread(flush)
    assert not await Attempt.objects.aexists()


async def test_persistent_shared_object_keeps_to_the_nodes_limits(room: Application) -> None:
    async with listening(objects=ObjectLimits(slots=1)) as port, sharing(port) as [client]:
        await client.set("a", 1.0)
        await client.ask(RequestChange("b", 1.0))
        await client.is_refused("SharedObject.NoWriteAccess")


# --- What waits to be written ---


def row(name: str, version: int, **changes: bytes | None) -> ObjectRow:
    return ObjectRow("room", name, version, NOW, changes)


def test_changes_that_wait_take_one_row_for_each_object() -> None:
    waiting = Waiting()
    assert waiting.put(row("chat", 1, a=b"1", b=b"2"))
    assert waiting.put(row("else", 1, a=b"1"))
    assert waiting.take() == [row("chat", 1, a=b"1", b=b"2"), row("else", 1, a=b"1")]
    assert waiting.put(row("chat", 2, a=None))
    assert waiting.put(row("chat", 3, c=b"3"))
    assert waiting.of("room", "chat") == row("chat", 3, a=None, b=b"2", c=b"3")
    waiting.written({}, 0.0)
    assert waiting.of("room", "chat") == row("chat", 3, a=None, c=b"3")
    assert len(waiting) == 1


def test_large_objects_are_written_less_often_and_all_of_them_bounded() -> None:
    """28 clients with small changes of 8 objects each had 20 MB written a second."""
    waiting = Waiting()
    size, count, written, now = 320 * 1024, 224, 0, 1000.0
    times: list[float] = []
    while now < 1060:
        for number in range(count):
            assert waiting.put(row(f"huge {number}", 1, n=b"1"))
        while rows := waiting.take(now):
            assert len(rows) <= 4
            written += size * len(rows)
            times += [now for each in rows if each.name == "huge 0"]
            waiting.written({each.key: size for each in rows}, now)
        assert 0 < waiting.wait_s(now) < 6
        now += 0.1
    assert written < 62 * shared_objects.BYTES_PER_S
    assert len(times) == 3, "each has its turn"
    assert len(waiting.take()) > 0, "when all is to be written, no time is waited for"


def test_a_small_object_is_written_whenever_it_changes() -> None:
    waiting = Waiting()
    for number in range(10):
        waiting.put(row("chat", number, a=b"1"))
        assert waiting.take(float(number))
        waiting.written({("room", "chat"): 5000}, float(number))
    waiting.put(row("else", 1, a=b"1"))
    assert waiting.wait_s(9.0) < 0.5


def test_waiting_shared_object_changes_are_bounded_in_bytes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shared_objects, "MOST_BYTES", 3000)
    waiting = Waiting()
    assert waiting.put(row("chat", 1, a=b"x" * 2000))
    assert not waiting.put(row("else", 1, a=b"x" * 1000))
    assert not waiting.put(row("chat", 2, b=b"x" * 1000))
    assert waiting.put(row("chat", 2, a=b"x" * 1000))
    assert waiting.put(row("else", 1, a=b"x" * 1000))
    waiting.take()
    assert waiting.put(row("chat", 3, a=b"x" * 2000))
    assert caplog.text.count("Changes of shared objects are lost") == 1


# --- Operators ---


@pytest.fixture
def chat(db: None) -> SharedObject:
    room = Application.objects.create(name="room")
    data = shared_objects.pack({"users": amf0.encode(["anna", {"age": 5.0}]), "broken": b"\xff"})
    return SharedObject.objects.create(application=room, name="chat", version=3, data=data)


def test_operators_see_and_only_admins_delete_shared_objects(chat: SharedObject) -> None:
    clients = {role: member(role) for role in ("viewer", "operator", "admin")}
    listed, its_page = "/admin/ingest/sharedobject/", f"/admin/ingest/sharedobject/{chat.pk}/change/"
    assert clients["viewer"].get(listed).status_code == 403
    assert "chat" in clients["operator"].get(listed).content.decode()
    page = clients["operator"].get(its_page).content.decode()
    assert "users: [&quot;anna&quot;, {&quot;age&quot;: 5.0}]" in page
    assert "broken: &quot;(can&#x27;t be read)&quot;" in page
    deleting = f"/admin/ingest/sharedobject/{chat.pk}/delete/"
    assert clients["operator"].post(deleting, {"post": "yes"}).status_code == 403
    assert clients["admin"].post(deleting, {"post": "yes"}).status_code == 302
    assert not SharedObject.objects.exists()


def test_shared_objects_are_deleted_with_their_application(chat: SharedObject) -> None:
    chat.application.delete()
    shared_objects.save_object([row("chat", 4, a=b"1")])
    assert not SharedObject.objects.exists()
