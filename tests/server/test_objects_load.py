"""Shared objects under load: others of the node wait for nobody, and who asks too much ends in order."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ingest.live.shared_objects import LiveObject, ObjectLimits
from ingest.rtmp.amf import amf0
from ingest.rtmp.messages.shared_object import RequestChange, SharedObject, Use
from ingest.server import RtmpServer, process
from ingest.server.shared_objects import SharedObjects
from tests.server.app import Instance, Message, ScriptedApp
from tests.server.conftest import Serve
from tests.server.test_objects import Sharer
from tests.server.waiting import becomes

VALUES = {f"user {number}": {"a": float(number), "b": "x" * 10, "c": True} for number in range(700)}
CLIENTS = 60


class Callbacks:
    """How long the loop was held up at most, by whatever runs in it: by its time on the processor."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def watch(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            self.longest_s = max(self.longest_s, time.thread_time() - before)


@asynccontextmanager
async def watching() -> AsyncIterator[Callbacks]:
    """Without what all tests before left in this process: a full collection of garbage takes half a second for it."""
    found = Callbacks()
    gc.collect()
    gc.freeze()
    task = asyncio.create_task(found.watch())
    try:
        yield found
    finally:
        task.cancel()
        gc.unfreeze()


async def connected(server: RtmpServer, count: int, **kind: Any) -> list[Sharer]:
    """Connected clients that read nothing, as they are in the process that is measured."""
    found = []
    for number in range(count):
        client = Sharer(port=server.addresses[0][1], amf3=number % 2 == 1, **kind)
        await client.open()
        await client.connect()
        found.append(client)
    return found


def the_object(server: RtmpServer) -> LiveObject[Any]:
    [found] = server.objects._objects._objects.values()
    return found


@pytest.mark.parametrize("persistent", [True, False], ids=["loaded", "joined"])
async def test_many_clients_joining_an_object_at_once_do_not_block_the_loop(
    app: ScriptedApp, server: RtmpServer, persistent: bool
) -> None:
    """Before, each was sent an object of its own: over a second with nothing else done, for these."""

    async def load(instance: Instance, event: Message) -> None:
        loads.append((instance, event))

    loads: list[tuple[Instance, Message]] = []
    app.change("rtmp.connect", shared_objects="persistent")
    app.on["rtmp.object.load"] = load
    clients = await connected(server, CLIENTS, persistent=persistent)
    try:
        if not persistent:
            await clients[0].use()
            names = list(VALUES)
            for start in range(0, len(names), 30):
                await clients[0].ask(*[RequestChange(name, VALUES[name]) for name in names[start : start + 30]])
            await clients[0].is_told("user 699", VALUES["user 699"])
        for client in clients:
            client.pause_reading()
        async with watching() as callbacks:
            for client in clients[not persistent :]:
                await client.ask(Use())
            if persistent:
                await becomes(lambda: loads and len(the_object(server).waiting or ()) == CLIENTS, 10)
                [(instance, event)] = loads
                data = {name: amf0.encode(value) for name, value in VALUES.items()}
                callbacks.longest_s = 0.0
                answer = {"type": "rtmp.object.loaded", "request_id": event["request_id"]}
                await instance.send(answer | {"version": 1, "data": data, "refused": None})
            await becomes(lambda: len(the_object(server).members) == CLIENTS, 10)
        assert callbacks.longest_s < 0.5
        clients[-1].resume_reading()
        await clients[-1].wait_until(lambda: clients[-1].properties == VALUES)
    finally:
        for client in clients:
            client.abort()


@pytest.mark.parametrize("kind", ["play", "publish"])
@pytest.mark.parametrize("told", [False, True], ids=["limit", "told"])
async def test_session_ended_within_a_read_is_reported_once_and_nothing_follows(
    app: ScriptedApp,
    serve: Serve,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    told: bool,
) -> None:
    """`told`: its client is told of the end, which the limit of shared objects doesn't do."""

    def end(_objects: Any, link: Any, _event: Any) -> None:
        link.end("kicked", "An end in the middle of a read.")

    monkeypatch.setattr(process, "SLICE_S", 60.0)  # What doesn't fit one may be done after the read.
    app.change("rtmp.connect", shared_objects="temporary")
    server = await serve(config={"objects": ObjectLimits(work_per_s=10)})
    async with Sharer(port=server.addresses[0][1]) as client:
        await client.connect()
        await client.use()
        stream_id = await (client.play("a") if kind == "play" else client.publish("a"))
        if told:
            monkeypatch.setattr(SharedObjects, "received", end)
        for _ in range(100):
            client.protocol.send_shared_object(SharedObject(client.name, 0, False, [Use()]))
        if kind == "play":
            client.protocol.play(stream_id, "b")
        else:
            client.protocol.delete_stream(stream_id)
            client.protocol.publish(stream_id, "b")
        await client.flush()
        await client.wait_closed()
        ended = await app.event("rtmp.disconnect")
    kinds = app.connections[0].kinds
    end_of = {"play": "rtmp.stop", "publish": "rtmp.unpublish"}[kind]
    assert ended["reason"] == ("kicked" if told else "protocol_error")
    assert kinds.count(end_of) == 1
    assert kinds.index(end_of) < kinds.index("rtmp.disconnect")
    assert kinds.count(f"rtmp.{kind}") == 1
    assert server.sessions == {}
    assert not [record for record in caplog.records if record.exc_info]
