"""Many clients of a shared object at once: others of the node wait for none of them."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ingest.live.shared_objects import LiveObject
from ingest.rtmp.amf import amf0
from ingest.rtmp.messages.shared_object import RequestChange, Use
from ingest.server import RtmpServer
from tests.ingest.server.app import Instance, Message, ScriptedApplication
from tests.ingest.server.sharer import Sharer

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


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - nothing tells of it.
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("persistent", [True, False], ids=["loaded", "joined"])
async def test_clients_that_begin_at_once_hold_up_nobody(
    app: ScriptedApplication, server: RtmpServer, persistent: bool
) -> None:
    """Before, each was sent an object of its own: over a second with nothing else done, for these."""

    async def accept(_instance: Instance, _event: Message) -> Message:
        return {"type": "rtmp.accept", "shared_objects": "persistent"}

    async def load(instance: Instance, event: Message) -> None:
        loads.append((instance, event))

    loads: list[tuple[Instance, Message]] = []
    app.on |= {"rtmp.connect": accept, "rtmp.object.load": load}
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
                await until(lambda: bool(loads) and len(the_object(server).waiting or ()) == CLIENTS)
                [(instance, event)] = loads
                data = {name: amf0.encode(value) for name, value in VALUES.items()}
                callbacks.longest_s = 0.0
                answer = {"type": "rtmp.object.loaded", "request_id": event["request_id"]}
                await instance.send(answer | {"version": 1, "data": data, "refused": None})
            await until(lambda: len(the_object(server).members) == CLIENTS)
        assert callbacks.longest_s < 0.5
        clients[-1].resume_reading()
        await clients[-1].wait_until(lambda: clients[-1].properties == VALUES)
    finally:
        for client in clients:
            client.abort()
