"""Messages to open pages cost next to nothing where none is open, and come in order where one is. While the channel
layer is away, one asks for all; when it is back, all go on."""

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from channels.layers import channel_layers, get_channel_layer
from channels_redis.core import RedisChannelLayer

from ingest.consumers import channel_layer
from ingest.consumers.channel_layer import absence
from ingest.live_store import LiveStore, get_livestore
from ingest.pages import card
from tests.background import free_port
from tests.ingest.control import NodeApp
from tests.ingest.ticks import SAMPLE, snapshot, tick_until, until, watch

pytestmark = [pytest.mark.stores, pytest.mark.usefixtures("process")]

SEVERAL = 100
FEW = 10
"""Questions to Redis of a tick with one page open: who has members, that group's members, what the page receives."""


def message(number: int, made: list[int]) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        made.append(number)
        return {"type": "stream.event", "text": json.dumps(number)}

    return make


async def test_message_to_a_group_without_members_is_not_built() -> None:
    made: list[int] = []
    receive = await watch("stream.1")
    for number in range(SEVERAL):
        channel_layer.send_to_group(f"stream.{number}", message(number, made))
    assert await receive() == 1
    assert made == [1]


async def test_message_that_fails_to_build_is_logged_and_the_next_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    receive = await watch("stream.1")
    channel_layer.send_to_group("stream.1", lambda: {"text": str(1 / 0)})
    channel_layer.send_to_group("stream.1", message(2, []))
    assert await receive() == 2
    assert "A message to the group stream.1 could not be made" in caplog.text
    assert "ZeroDivisionError" in caplog.text


async def test_messages_of_a_group_come_in_order() -> None:
    first, second = await watch("stream.1"), await watch("stream.2")
    for number in range(20):
        channel_layer.send_to_group(f"stream.{1 + number % 2}", message(number, []))
        await asyncio.sleep(0.01 * (number % 3))  # So they are of several deliveries.
    assert [await first() for _ in range(10)] == list(range(0, 20, 2))
    assert [await second() for _ in range(10)] == list(range(1, 20, 2))


async def test_channel_that_left_a_group_is_no_member() -> None:
    layer: Any = get_channel_layer()
    names = [f"stream.{number}" for number in range(SEVERAL)]
    assert not await channel_layer.with_members(names)
    channel = await layer.new_channel()
    for name in names[::10]:
        await layer.group_add(name, channel)
    assert sorted(await channel_layer.with_members(names)) == sorted(names[::10])
    for name in names[10::10]:
        await layer.group_discard(name, channel)
    assert list(await channel_layer.with_members(names)) == ["stream.0"]


async def test_only_snapshots_of_watched_streams_are_sent(node: NodeApp) -> None:
    receive = await watch("stream.7")
    before = await asked()
    await node.tick(at=100.0, streams=[snapshot(number) for number in range(1, SEVERAL)], samples=[SAMPLE])
    assert (await receive())["stream"] == snapshot(7)
    after = await asked()
    assert all(after[name] - before[name] < FEW for name in after)


async def asked() -> dict[str, int]:
    """How often Redis was, by its own count; in memory nobody is."""
    layer: Any = get_channel_layer()
    if not isinstance(layer, RedisChannelLayer):
        return {}
    stats = await layer.connection(0).info("commandstats")
    return {name: int(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"]) for name in ("eval", "zrange")}


@pytest.fixture
def use() -> Iterator[Callable[[RedisChannelLayer], None]]:
    """Has this process use another layer, until the test is over."""
    own = get_channel_layer()
    yield lambda layer: channel_layers.set("default", layer)
    channel_layers.set("default", own)


async def test_unreachable_channel_layer_is_logged_once_and_then_sent_everything(
    node: NodeApp, use: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(channel_layer, "_warned", -channel_layer.WARN_S)
    own = get_channel_layer()
    use(RedisChannelLayer(hosts=[f"redis://127.0.0.1:{free_port()}"]))
    for number in range(3):
        await node.tick(at=number, streams=[snapshot(1)])
        channel_layer.send_to_group("stream.1", message(number, []))
        await until(lambda: "did not take a message" in caplog.text)
    use(own)
    receive = await watch("live")
    received = asyncio.ensure_future(receive())
    await tick_until(node, received.done, at=9.0, streams=[snapshot(1, players=2)])
    assert (await received)["streams"] == [card(snapshot(1, players=2))], "whole, as nobody was sent it before"
    assert caplog.text.count("The channel layer did not take a message: ConnectionError") == 1


def _holds(store: LiveStore, stream: int) -> bool:
    return [each["id"] for each in store.read().streams] == [stream]


async def test_a_layer_that_hangs_holds_no_tick_up(node: NodeApp, use: Callable[[Any], None]) -> None:
    store = get_livestore()
    held: list[asyncio.StreamWriter] = []
    hanging = await asyncio.start_server(lambda reader, writer: held.append(writer), "127.0.0.1", 0)
    layer = RedisChannelLayer(hosts=[f"redis://127.0.0.1:{hanging.sockets[0].getsockname()[1]}"])
    use(layer)
    made: list[int] = []
    for number in range(1, 4):
        channel_layer.send_to_group("stream.1", message(number, made))
        await tick_until(node, partial(_holds, store, number), at=float(number), streams=[snapshot(number)])
    await until(lambda: held)
    assert made == []
    for each in held:
        each.close()
    await layer.close_pools()
    hanging.close()


CONSUMERS = 50


class Layer:
    """Takes messages when it is up, and counts the tries."""

    def __init__(self) -> None:
        self.up = False
        self.tries = 0

    async def send(self, channel: str, message: dict[str, Any]) -> None:
        self.tries += 1
        if not self.up:
            raise ConnectionError


async def test_absent_channel_layer_is_probed_by_one_consumer_for_all(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(channel_layer, "ASK_S", 0.01)
    monkeypatch.setattr(channel_layer, "SPREAD_S", 0.05)
    caplog.set_level(logging.INFO)
    away = Layer()
    waiting = [asyncio.ensure_future(absence().over(away, "one", ConnectionError())) for _ in range(CONSUMERS)]
    await until(lambda: away.tries >= 3)
    assert not any(task.done() for task in waiting)
    waiting[0].cancel()  # The connection that noticed it first ends: the others still hear of its end.
    tries = away.tries
    away.up = True
    async with asyncio.timeout(5):
        await asyncio.wait(waiting)
    assert away.tries == tries + 1
    assert [task.cancelled() for task in waiting] == [True] + [False] * (CONSUMERS - 1)
    said = [record.getMessage() for record in caplog.records]
    assert said[:-1] == ["The channel layer gives no messages: ConnectionError"]
    assert re.fullmatch(r"The channel layer is back after \d+ s\.", said[-1])
    async with asyncio.timeout(5):
        await absence().over(away, "one", ConnectionError())
    assert away.tries == tries + 2, "a second one is noticed as the first"
