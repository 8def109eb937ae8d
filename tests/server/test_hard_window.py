"""A hard window (Set Peer Bandwidth, RTMP 1.0, section 5.4.5): not a byte more than it is ever unacknowledged."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import events
from ingest.rtmp.flow import SendingWindow
from ingest.rtmp.handshake import HANDSHAKE_BYTES
from ingest.rtmp.messages import MessageType, control
from ingest.rtmp.messages.control import BandwidthLimit
from ingest.server.output import Outlet
from tests.rtmp_client import RtmpClient, SendingClient
from tests.server.app import ScriptedApp
from tests.server.clients import HOURS_MS, Viewer
from tests.server.conftest import Enter, Serve
from tests.server.media import AVC_HEADER, key_frame
from tests.server.recorded.conftest import made, record, write
from tests.server.test_window import HOUR, NEVER, ROOM_FRAMES, WINDOW, Room
from tests.server.waiting import becomes, within

HARD = control.set_peer_bandwidth(WINDOW, BandwidthLimit.HARD)


class ByHand(SendingClient):
    """Acknowledges nothing by itself."""

    def __init__(self) -> None:
        super().__init__(nonce=os.urandom(1528))
        self.acknowledging.interval = NEVER

    def _on_window(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        """The server's windows change nothing."""

    handlers = {**SendingClient.handlers, MessageType.WINDOW_ACKNOWLEDGEMENT_SIZE: _on_window}


def received(client: RtmpClient) -> int:
    return client.protocol.bytes_received - HANDSHAKE_BYTES


async def is_full(client: RtmpClient, acknowledged: int = 0) -> bool:
    return received(client) >= acknowledged + WINDOW


async def read_by_hand(client: RtmpClient, is_done: Callable[[], bool]) -> None:
    """Acknowledges each whole window, and sees that no more came before."""
    acknowledged = 0

    async def goes_on() -> bool:
        return is_done() or await is_full(client, acknowledged)

    while not is_done():
        assert await within(5, goes_on, True)
        await asyncio.sleep(0.01)  # What is over would be here.
        assert received(client) <= acknowledged + WINDOW
        acknowledged = received(client)
        client.protocol.send_message(control.acknowledgement(acknowledged))
        await client.flush()


async def hold(room: Room) -> None:
    await room.tell(HARD)
    await becomes(lambda: room.connection.rtmp.window.is_strict)


@pytest.mark.parametrize(("size", "count"), [(100, 500), (5_000, 40), (50_000, 6)], ids=["small", "usual", "long"])
async def test_live_stream_never_exceeds_a_hard_window(serve: Serve, enter: Enter, size: int, count: int) -> None:
    """Headers count, and a frame is cut where the window ends."""
    room: Room = await enter(Room(await serve(window_s=HOUR), ByHand()))
    await hold(room)
    room.frames = [key_frame(number, size) for number in range(count)]
    await room.show()
    pictures = room.player.received
    await read_by_hand(room.player, lambda: sum(type(each) is events.VideoReceived for each in pictures) > count)
    assert [event.payload for event in room.player.of(events.VideoReceived)] == [AVC_HEADER, *room.frames]
    assert not room.connection.rtmp.window.given_up


async def test_recording_never_exceeds_a_hard_window(app: ScriptedApp, serve: Serve, tmp_path: Path) -> None:
    clip = made(4, key_bytes=30_000)
    record(app, write(tmp_path / "clip.flv", clip))
    server = await serve(window_s=HOUR)
    viewer = Viewer(port=server.addresses[0][1])
    viewer.protocol = ByHand()
    async with viewer:
        await viewer.connect("live")
        viewer.protocol.send_message(HARD)
        viewer.stream_id = await viewer.create_stream()
        viewer.protocol.play(viewer.stream_id, "clip", 0)
        viewer.protocol.set_buffer_length(viewer.stream_id, HOURS_MS)
        await viewer.flush()
        await read_by_hand(viewer, lambda: "NetStream.Play.Stop" in viewer.story())
        assert viewer.media() == clip


async def test_answers_wait_for_the_hard_window_behind_a_cut_frame(serve: Serve, enter: Enter) -> None:
    room: Room = await enter(Room(await serve(window_s=HOUR), ByHand()))
    await hold(room)
    room.frames = [key_frame(0, 50_000)]
    await room.show()
    assert await within(5, lambda: is_full(room.player), True)
    before = room.connection.rtmp.control_messages
    room.player.protocol.call("_checkbw")
    await room.player.flush()
    await becomes(lambda: room.connection.rtmp.control_messages > before)
    await read_by_hand(room.player, lambda: room.player.of(events.ResultReceived)[-1].procedure == "_checkbw")
    kinds = [type(event) for event in room.player.received]
    assert kinds[-2:] == [events.VideoReceived, events.ResultReceived]


async def test_hard_window_is_given_up_for_a_player_that_never_acknowledges(serve: Serve, enter: Enter) -> None:
    """It has it all, by what TCP says."""
    room: Room = await enter(Room(await serve(window_s=0.2), ByHand()))
    await hold(room)
    await room.show()
    await room.saw_all()
    assert room.connection.rtmp.window.given_up


async def test_hard_window_narrower_than_the_bytes_in_flight_does_not_stall(serve: Serve, enter: Enter) -> None:
    """The client is told when to acknowledge, and goes on."""
    room: Room = await enter(Room(await serve(window_s=HOUR)))
    await room.show()
    await room.saw_all()
    await hold(room)
    await room.show()
    await room.player.wait_count(events.VideoReceived, 1 + 2 * ROOM_FRAMES)
    assert not room.connection.rtmp.window.given_up


async def test_end_of_the_play_is_sent_though_the_hard_window_is_full(
    app: ScriptedApp, serve: Serve, enter: Enter
) -> None:
    room: Room = await enter(Room(await serve(window_s=HOUR), ByHand()))
    await hold(room)
    room.frames = [key_frame(0, 50_000)]
    await room.show()
    assert await within(5, lambda: is_full(room.player), True)
    drop = {"type": "node.drop", "session_id": room.playing.session_id, "reason": "kicked"}
    await app.node.send(drop)
    await room.player.wait_for(events.StatusReceived, lambda status: status.code == "NetStream.Play.Failed")


class Wire:
    """A transport that takes all."""

    def __init__(self) -> None:
        self.written = bytearray()

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> None:
        return None


LIMIT = 1000


def a_hard_window(wire: Wire) -> Outlet:
    """Of LIMIT bytes, none of which is used."""
    window = SendingWindow()
    window.sent = 0
    window.restrict(LIMIT, BandwidthLimit.HARD)
    return Outlet(cast(asyncio.Transport, wire), window, lambda: 0.0, joins=False)


STEP = st.tuples(st.sampled_from(["media", "control", "acknowledgement"]), st.integers(1, 3 * LIMIT))


@given(st.lists(STEP, max_size=60))
def test_outlet_keeps_a_hard_window_for_any_writes_and_acknowledgements(steps: list[tuple[str, int]]) -> None:
    wire = Wire()
    outlet = a_hard_window(wire)
    window = outlet.window
    given_bytes = bytearray()
    acknowledged = 0

    def acknowledge(number: int) -> None:
        window.acknowledge(number)
        outlet.follow_window()

    for kind, size in steps:
        data = bytes([size % 251]) * size
        if kind == "acknowledgement":
            acknowledged = min(acknowledged + size, len(wire.written))
            acknowledge(acknowledged)
        elif kind == "control":
            window.sent += size
            outlet.write_control(data)
            given_bytes += data
        elif outlet.is_open:
            outlet.write_media([data], size)
            given_bytes += data
        assert len(wire.written) - acknowledged <= LIMIT
    while len(wire.written) < len(given_bytes):
        acknowledged = len(wire.written)
        acknowledge(acknowledged)
        assert len(wire.written) - acknowledged <= LIMIT
    assert wire.written == given_bytes
    acknowledge(len(wire.written))
    assert outlet.is_open


def test_answers_held_back_by_the_window_count_as_waiting_control_bytes() -> None:
    outlet = a_hard_window(Wire())
    outlet.fill()
    for _ in range(3):
        outlet.window.sent += 2 * LIMIT
        outlet.write_control(bytes(2 * LIMIT))
        outlet.drain()
    assert outlet.control_waiting >= 5 * LIMIT
