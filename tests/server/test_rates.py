"""What a peer may send in a second: those who send more are ended with the reason, real ones are far from it."""

import asyncio
from typing import Any

import pytest

from ingest.rate_limit import TokenBucket
from ingest.rtmp import Limits, Message, events
from ingest.rtmp.amf import amf0
from ingest.rtmp.limits import DEFAULT_LIMITS
from ingest.rtmp.messages import AggregatePart
from tests.pure.rtmp.pair import ConnectionPair
from tests.pure.rtmp.wire import set_chunk_size, type0, type3
from tests.rtmp_client import SendingClient
from tests.server.app import Instance, ScriptedApp
from tests.server.app import Message as Event
from tests.server.clients import Stage, publishing
from tests.server.conftest import OnStage, Serve

AUDIO, VIDEO, DATA, COMMAND = 8, 9, 18, 20

LOW = Limits(control_messages_per_s=20, media_messages_per_s=1000, small_chunks_per_s=100)
"""Five times as much is over, as it may come at once."""


def pings(client: SendingClient, stream_id: int) -> bytes:
    for _ in range(300):
        client.send_ping(1)
    return b""


def chunk_sizes(client: SendingClient, stream_id: int) -> bytes:
    return type0(2, 0, 1, 0, bytes([0, 0, 0, 128])) + type3(2, bytes([0, 0, 0, 128])) * 299


def unknown_parts(client: SendingClient, stream_id: int) -> bytes:
    client.send_aggregate(stream_id, *[AggregatePart(77, 0, b"?")] * 300)
    return b""


def empty_sound(client: SendingClient, stream_id: int) -> bytes:
    return type0(20, 0, AUDIO, stream_id, b"") + type3(20, b"") * 8000


def gathered_sound(client: SendingClient, stream_id: int) -> bytes:
    client.send_aggregate(stream_id, *[AggregatePart(AUDIO, 0, b"")] * 8000)
    return b""


def long_data(client: SendingClient, stream_id: int) -> bytes:
    for _ in range(10):
        client.send_data(stream_id, 0, "onTextData", *[None] * 5000)
    return b""


def chunks_in_turn(client: SendingClient, stream_id: int) -> bytes:
    begin = type0(20, 0, COMMAND, 0, b"a", 60_000) + type0(21, 0, COMMAND, 0, b"b", 60_000)
    return set_chunk_size(1) + begin + (type3(20, b"c") + type3(21, b"d")) * 500


HOSTILE = {
    "pings": (pings, "20 control messages and commands"),
    "Set Chunk Size": (chunk_sizes, "20 control messages and commands"),
    "unknown messages in an aggregate": (unknown_parts, "20 control messages and commands"),
    "empty sound": (empty_sound, "1000 media messages"),
    "sound in aggregates": (gathered_sound, "1000 media messages"),
    "long data": (long_data, "1000 media messages"),
    "small chunks in turn": (chunks_in_turn, "100 small chunks"),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_publisher_over_a_message_rate_limit_is_ended_with_the_reason(
    name: str, app: ScriptedApp, serve: Serve
) -> None:
    make, what = HOSTILE[name]
    server = await serve(config={"limits": LOW})
    async with publishing(server, name="cam") as (client, stream_id):
        data = make(client.protocol, stream_id)
        await client.flush()
        client._writer.write(data)
        status = await client.wait_for(events.StatusReceived, lambda event: event.level == "error")
        assert status.stream_id == stream_id
        await client.wait_closed()
    ended = await app.event("rtmp.disconnect")
    assert (ended["reason"], ended["description"]) == ("protocol_error", f"More than {what} a second.")


TEXT = amf0.encode("onTextData", {"text": "x" * 150})
SECONDS = {
    "4K at 120 frames": [(VIDEO, 120, 50_000), (AUDIO, 47, 400)],
    "eight of them, 32 tracks of sound, data with each frame": [(VIDEO, 960, 1000), (AUDIO, 3200, 80), (DATA, 120, 0)],
    "Speex": [(AUDIO, 50, 40)],
    "a frame of 50 Mbit/s in chunks of 128 bytes": [(VIDEO, 25, 250_000)],
}


@pytest.mark.parametrize("name", SECONDS)
def test_traffic_of_real_publishers_stays_well_below_the_rate_limits(name: str) -> None:
    """Well below the rates."""
    pair = ConnectionPair()
    stream_id = pair.publishing()
    before = pair.server.control_messages
    for type_id, count, size in SECONDS[name]:
        for number in range(count):
            pair.client.send_message(Message(type_id, number, stream_id, TEXT if type_id == DATA else bytes(size)))
            if number % 20 == 0:
                pair.run()
    pair.run()
    server = pair.server
    assert server.media_messages < DEFAULT_LIMITS.media_messages_per_s * 0.6
    assert server.small_chunks == 0
    assert server.control_messages - before < DEFAULT_LIMITS.control_messages_per_s / 100


PLAYERS = {"pause": (True, 0.0), "seek": (1000.0,), "receiveAudio": (False,)}


@pytest.mark.parametrize("command", PLAYERS)
async def test_player_over_the_play_command_rate_is_ended(command: str, app: ScriptedApp, serve: Serve) -> None:
    server = await serve(config={"limits": Limits(play_commands_per_s=20)})
    async with Stage(server.addresses[0][1]) as stage:
        viewer = await stage.viewer("cam")
        await viewer.ask(command, *PLAYERS[command], times=100)
        await viewer.create_stream()
        assert not viewer.closed, "so many may come at once"
        await viewer.ask(command, *PLAYERS[command], times=100)
        await viewer.wait_closed()
    ended = await app.event("rtmp.disconnect")
    why = "More than 20 pauses, seeks and the like a second."
    assert (ended["reason"], ended["description"]) == ("protocol_error", why)


QUICK = {"questions_per_s": 20, "questions_at_once": 3}


class Clock:
    """Answers plays, and keeps when each was asked for."""

    def __init__(self, app: ScriptedApp) -> None:
        self.times: list[float] = []
        self._accept = app.accept_play
        app.on["rtmp.play"] = self._play

    async def _play(self, instance: Instance, event: Event) -> Event:
        self.times.append(asyncio.get_running_loop().time())
        return await self._accept(instance, event)


STORMS: dict[str, tuple[Any, ...]] = {
    "play": ("cam", -2.0, -1.0, True),
    "play2": ({"streamName": "cam", "transition": "swap"},),
}


@pytest.mark.parametrize("command", STORMS)
async def test_play_requests_over_the_rate_are_delayed(command: str, app: ScriptedApp, on_stage: OnStage) -> None:
    clock = Clock(app)
    stage = await on_stage(config=QUICK)
    began = asyncio.get_running_loop().time()
    viewer = await stage.viewer("cam")
    await viewer.ask(command, *STORMS[command], times=7)
    await app.wait_until(lambda: len(clock.times) == 8)
    assert clock.times[7] - began >= 5 / 20 - 0.01, "one in 50 ms, after three at once"


@pytest.mark.parametrize("command", STORMS)
async def test_play_requests_within_the_burst_are_asked_at_once(
    command: str, app: ScriptedApp, on_stage: OnStage
) -> None:
    clock = Clock(app)
    stage = await on_stage(config={"questions_per_s": 0.01, "questions_at_once": 3})
    viewer = await stage.viewer("cam")
    await viewer.ask(command, *STORMS[command], times=2)
    await app.wait_until(lambda: len(clock.times) == 3)


async def test_delayed_play_of_a_closed_connection_is_not_asked(app: ScriptedApp, serve: Serve) -> None:
    async def kick(_instance: Instance, _event: Event) -> Event:
        return {"type": "rtmp.close", "reason": "kicked"}

    clock = Clock(app)
    app.on["rtmp.stop"] = kick  # As soon as the next one waits.
    server = await serve(config={"questions_per_s": 1, "questions_at_once": 1})
    async with Stage(server.addresses[0][1]) as stage:
        viewer = await stage.viewer("cam")
        await viewer.ask("play", "other", -2.0, -1.0, True)
        await viewer.wait_closed()
    assert (await app.event("rtmp.disconnect"))["reason"] == "kicked"
    assert len(clock.times) == 1


async def test_stream_length_requests_over_the_rate_are_refused(app: ScriptedApp, serve: Serve) -> None:
    async def tell(_instance: Instance, event: Event) -> Event:
        return {"type": "rtmp.length.result", "request_id": event["request_id"], "seconds": 7.0}

    app.on["rtmp.length"] = tell
    server = await serve(config={"questions_per_s": 0.1, "questions_at_once": 3})
    async with Stage(server.addresses[0][1]) as stage:
        viewer = await stage.viewer("cam")
        found = [await viewer.call_on_stream("getStreamLength", f"cam{number}") for number in range(5)]
        assert [each.succeeded for each in found] == [True, True, False, False, False]
        assert "Too many lengths" in found[-1].values[-1]["description"]
        assert len(app.connections[-1].of("rtmp.length")) == 2
        assert not viewer.closed


RATE, BURST_S = 2000, 5.0


def passed(*looks: tuple[float, int]) -> list[bool]:
    """For each (time, what came since the look before)."""
    allowance = TokenBucket(RATE, RATE * BURST_S)
    total, found = 0, []
    for now, count in looks:
        total += count
        found.append(allowance.is_passed(total, now))
    return found


QUARTERS = [second / 4 for second in range(1, 400)]


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([(at, RATE // 4) for at in QUARTERS], [False] * len(QUARTERS)),
        ([(second, RATE * 2) for second in range(1, 10)], [False] * 5 + [True] * 4),
        ([(0.0, RATE * 5)], [False]),
        ([(0.0, RATE * 5 + 1)], [True]),
        ([(8.0, 8 * RATE)], [False]),
        ([*((at, 0) for at in QUARTERS), (100.0, RATE * 6)], [False] * len(QUARTERS) + [True]),
    ],
    ids=["lasting", "more, after a while", "at once", "too much at once", "one look after a pause of ours", "silence"],
)
def test_token_bucket_allows_the_lasting_rate_and_a_burst_of_seconds(
    looks: list[tuple[float, int]], expected: list[bool]
) -> None:
    """A silence earns nothing."""
    assert passed(*looks) == expected


def test_token_bucket_gives_a_burst_and_then_turns_at_the_rate() -> None:
    """Three at once, then two a second; who was silent may come at once again."""
    turns = TokenBucket(2, 3)
    assert [turns.wait_s(10.0) for _ in range(5)] == [0, 0, 0, 0.5, 1.0]
    assert not turns.take(11.0)
    assert turns.wait_s(11.5) == 0
    assert turns.wait_s(11.5) == 0.5
    assert [turns.take(60.0) for _ in range(5)] == [True] * 3 + [False] * 2
    assert turns.take(60.5), "those that were refused don't count"
