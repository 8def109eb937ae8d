"""Players that are held to their window, and those for whom it is given up."""

import asyncio
import os
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from ingest.live import QueueLimits
from ingest.rtmp import Message, events
from ingest.rtmp.handshake import HANDSHAKE_BYTES
from ingest.rtmp.messages import control
from ingest.rtmp.messages.control import UserControl
from ingest.server import RtmpServer
from ingest.server.connection import Connection
from ingest.server.playing import Playing
from tests.media import make_clip, of_kind, read_packets
from tests.rtmp_client import RtmpClient, SendingClient
from tests.server.app import ScriptedApp
from tests.server.clients import port_of, programs, publishing
from tests.server.conftest import Enter, Serve
from tests.server.media import AVC_HEADER, key_frame
from tests.server.waiting import becomes, set_deadlines
from tests.tools import require_tool

WINDOW = 20_000
NEVER = 1 << 40
HOUR = 3600.0


ROOM_FRAMES = 60
ROOM_FRAME_BYTES = 5_000


class Room:
    """A publisher and a player of its stream, on a server with a small window."""

    def __init__(self, server: RtmpServer, protocol: SendingClient | None = None) -> None:
        self.server = server
        self.player = RtmpClient(port=port_of(server))
        if protocol:
            self.player.protocol = protocol
        self.frames = [key_frame(number, ROOM_FRAME_BYTES) for number in range(ROOM_FRAMES)]
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Room":
        self.publisher, self.stream_id = await self._stack.enter_async_context(publishing(self.server, name="cam"))
        await self._stack.enter_async_context(self.player)
        await self.player.connect("live")
        await self.player.play("cam")
        await self.publisher.send_video(self.stream_id, 0, AVC_HEADER)
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stack.aclose()

    async def show(self) -> None:
        for number, frame in enumerate(self.frames):
            await self.publisher.send_video(self.stream_id, number * 40, frame)

    @property
    def playing(self) -> Playing:
        return next(session for session in self.server.sessions.values() if isinstance(session, Playing))

    @property
    def connection(self) -> Connection:
        found = self.playing.connection
        assert isinstance(found, Connection)
        return found

    async def tell(self, message: Message) -> None:
        self.player.protocol.send_message(message)
        await self.player.flush()

    async def acknowledge(self, sequence_number: int) -> None:
        """And wait until the server has read it."""
        await self.tell(control.acknowledgement(sequence_number))
        self.player.protocol.call("_checkbw")
        await self.player.flush()
        await self.player.wait_for(events.ResultReceived, lambda event: event.procedure == "_checkbw")

    async def acknowledge_once(self) -> None:
        self.player.protocol.acknowledging.interval = NEVER
        await self.acknowledge(0)

    async def saw_all(self) -> None:
        await self.player.wait_count(events.VideoReceived, 1 + ROOM_FRAMES)
        assert [event.payload for event in self.player.of(events.VideoReceived)] == [AVC_HEADER, *self.frames]
        assert self.playing.subscriber.dropped_frames == 0


class Mute(SendingClient):
    """Answers no ping."""

    user_control_handlers = {}


class Late(SendingClient):
    """Acknowledges what came before a ping when the next one comes, and no sooner."""

    acknowledged = 0
    _answered = False

    def _pong(self, event: UserControl, values: tuple[Any, ...]) -> None:
        if self._answered:
            self.send_message(control.acknowledgement(self.bytes_received - HANDSHAKE_BYTES))
            self.acknowledged += 1
        self._answered = not self._answered
        self.send_user_control(UserControl.PING_RESPONSE, *values)

    user_control_handlers = {**SendingClient.user_control_handlers, UserControl.PING_REQUEST: _pong}


SMALL: dict[str, Any] = {"window_bytes": WINDOW}


async def test_acknowledging_player_is_held_to_its_window_and_loses_nothing(serve: Serve, enter: Enter) -> None:
    """It gets all, but no more at once than twice its window; what waits, waits where it could be dropped."""
    room: Room = await enter(Room(await serve(config=SMALL, window_s=HOUR, write_s=0.5)))
    await room.acknowledge(0)
    room.player.pause_reading()
    await room.show()
    outlet, subscriber = room.connection.outlet, room.playing.subscriber
    await becomes(lambda: subscriber.pending_messages > ROOM_FRAMES // 2)
    assert (outlet.is_open, outlet.is_full, outlet.is_window_closed) == (False, False, True)
    assert outlet.window.sent < 2 * WINDOW + 2 * ROOM_FRAME_BYTES
    await asyncio.sleep(0.7)  # No reason to end it: its TCP took what it was sent.
    room.player.resume_reading()
    await room.saw_all()
    assert not outlet.window.given_up


async def test_frames_waiting_behind_the_window_are_dropped_for_newer_ones(serve: Serve, enter: Enter) -> None:
    room: Room = await enter(Room(await serve(config=SMALL | {"queue": QueueLimits(messages=10)}, window_s=HOUR)))
    await room.acknowledge(0)
    room.player.pause_reading()
    await room.show()
    await becomes(lambda: room.playing.subscriber.dropped_frames > ROOM_FRAMES // 2)
    room.player.resume_reading()
    await room.player.wait_for(events.VideoReceived, lambda event: event.payload == room.frames[-1])


async def test_player_that_never_acknowledges_is_not_held_to_a_window(serve: Serve, enter: Enter) -> None:
    room: Room = await enter(Room(await serve(config=SMALL, sweep_s=HOUR, window_s=HOUR), Mute(nonce=os.urandom(1528))))
    room.player.protocol.acknowledging.interval = NEVER
    await room.show()
    await room.saw_all()
    assert room.connection.outlet.window.closes_at > 1 << 40


@pytest.mark.parametrize("answers", [True, False])
async def test_window_is_given_up_for_a_player_that_stops_acknowledging(
    serve: Serve, enter: Enter, answers: bool
) -> None:
    """And answers a ping, or nothing in time."""
    protocol = None if answers else Mute(nonce=os.urandom(1528))
    room: Room = await enter(Room(await serve(config=SMALL, window_s=HOUR if answers else 0.2), protocol))
    await room.acknowledge_once()
    await room.show()
    await room.saw_all()
    assert room.connection.outlet.window.given_up


async def test_player_that_acknowledges_only_after_its_pong_keeps_its_window(serve: Serve) -> None:
    """However long after: a real player, which does so when it has gone through what it read, may have to wait for its
    turn to run.
    """
    server = await serve(config=SMALL, window_s=HOUR)
    late = Late(nonce=os.urandom(1528))
    async with Room(server, late) as room:
        late.acknowledging.interval = NEVER
        await room.acknowledge(0)
        await room.show()
        await room.saw_all()
        assert late.acknowledged > 2
        assert not room.connection.outlet.window.given_up


async def test_player_that_reads_again_after_a_halt_is_held_to_its_window_again(serve: Serve, enter: Enter) -> None:
    room: Room = await enter(Room(await serve(config=SMALL, window_s=0.2)))
    await room.acknowledge(0)
    room.player.pause_reading()
    await room.show()
    outlet = room.connection.outlet
    await becomes(lambda: outlet.window.given_up)
    set_deadlines(room.server, window_s=HOUR)
    room.player.resume_reading()
    await room.saw_all()
    await becomes(lambda: not outlet.window.given_up)
    room.player.pause_reading()
    await room.show()
    await becomes(lambda: outlet.is_window_closed)


@pytest.mark.parametrize("numbers", [[0xFFFFFFFF], [7, 3, 0], [NEVER], [0x7FFFFFFF, 1]], ids=str)
async def test_wrong_acknowledgements_do_not_stall_a_player(serve: Serve, enter: Enter, numbers: list[int]) -> None:
    room: Room = await enter(Room(await serve(config=SMALL, window_s=0.2)))
    room.player.protocol.acknowledging.interval = NEVER
    for number in numbers:
        await room.acknowledge(number)
    await room.show()
    await room.saw_all()


@pytest.mark.parametrize("size", [1024, 4000])
async def test_set_peer_bandwidth_sets_the_window_without_stalling_the_player(
    serve: Serve, enter: Enter, size: int
) -> None:
    room: Room = await enter(Room(await serve(config=SMALL, window_s=HOUR)))
    await room.tell(control.set_peer_bandwidth(size, control.BandwidthLimit.HARD))
    await becomes(lambda: room.connection.rtmp.window.limit == size)
    await room.show()
    await room.saw_all()
    assert room.player.protocol.acknowledging.interval == size
    assert not room.connection.outlet.window.given_up


async def test_a_wider_bandwidth_opens_a_closed_window(serve: Serve, enter: Enter) -> None:
    room: Room = await enter(Room(await serve(config=SMALL, sweep_s=HOUR, window_s=HOUR)))
    await room.acknowledge_once()
    await room.show()
    await becomes(lambda: room.connection.outlet.is_window_closed)
    await room.tell(control.set_peer_bandwidth(WINDOW * ROOM_FRAMES, control.BandwidthLimit.HARD))
    await room.saw_all()


async def test_player_that_reads_nothing_is_ended_though_its_window_is_closed(app: ScriptedApp, serve: Serve) -> None:
    """The kernel holds more than the window, so the transport's buffer is empty."""
    server = await serve(config={"window_bytes": 500_000, "unsent_bytes": 0}, write_s=0.3, window_s=HOUR)
    async with Room(server) as room:
        await room.acknowledge(0)
        room.player._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        room.player.pause_reading()
        room.frames = [key_frame(0, 50_000)] * ROOM_FRAMES
        await room.show()
        ended = await app.event("rtmp.stop")
    assert (ended["reason"], ended["description"]) == ("too_slow", "The peer took nothing for 0.3 s.")


async def test_player_that_reads_slowly_is_not_ended_while_its_window_is_closed(
    app: ScriptedApp, serve: Serve, enter: Enter
) -> None:
    room: Room = await enter(
        Room(await serve(config={"window_bytes": 500_000, "unsent_bytes": 0}, write_s=HOUR, window_s=HOUR))
    )
    await room.acknowledge(0)
    room.player.protocol.acknowledging.interval = NEVER
    room.player._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    room.player.pause_reading()
    room.frames = [key_frame(0, 50_000)] * ROOM_FRAMES
    await room.show()
    await becomes(lambda: room.connection.outlet.is_window_closed)
    connection = room.connection
    for number in range(25):
        if number == 20:  # One that took nothing for this second would be ended now.
            set_deadlines(room.server, write_s=0.9)
        await asyncio.sleep(0.05)
        room.player.resume_reading()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        room.player.pause_reading()
    assert not connection.outlet.is_delivered
    assert connection.ending is None
    assert app.connections[-1].of("rtmp.stop") == []


async def test_acknowledgements_in_a_row_do_no_harm(app: ScriptedApp, server: RtmpServer) -> None:
    """librtmp at 1 Gbit/s, after a second in which nothing came through."""
    async with Room(server) as room:
        for number in range(700):
            await room.tell(control.acknowledgement(number))
        await room.acknowledge(0)
        await room.show()
        await room.saw_all()
    assert (await app.event("rtmp.disconnect"))["reason"] != "protocol_error"


PLAYERS = {
    "ffmpeg": "ffmpeg -v error -i {url} -c copy -f flv {out}",
    "rtmpdump": "rtmpdump -q --live -r {url} -o {out}",
    "gst-launch-1.0": "gst-launch-1.0 -q rtmp2src location={url} ! filesink location={out}",
}


@pytest.mark.timeout(60)
async def test_real_players_see_all_through_a_small_window(app: ScriptedApp, serve: Serve, tmp_path: Path) -> None:
    """All that the server had. FFmpeg as the publisher may lose its last messages on its side: an Acknowledgement that
    it left unread makes its close a reset, and what Nagle's algorithm still held is gone. So small a window, which
    holds for both directions, makes that likely.
    """
    for tool in (*PLAYERS, "rtmp2src"):
        require_tool(tool)
    clip = make_clip(tmp_path / "clip.flv", seconds=1, video_kbps=1600)
    server = await serve(config=SMALL, sweep_s=0.25)  # The default's.
    url = f"rtmp://127.0.0.1:{server.addresses[0][1]}/live/cam"
    outputs = {tool: tmp_path / f"{tool}.flv" for tool in PLAYERS}
    async with programs(*(PLAYERS[tool].format(url=url, out=outputs[tool]) for tool in PLAYERS)) as started:
        await app.wait_until(lambda: len(server.sessions) == len(PLAYERS), timeout_s=20)
        players = [session for session in server.sessions.values() if isinstance(session, Playing)]
        async with programs(f"ffmpeg -v error -re -i {clip} -c copy -f flv {url}") as (publisher,):
            assert await asyncio.wait_for(publisher.wait(), 20) == 0
        had = (await app.event("rtmp.unpublish", timeout_s=10))["totals"]

        await becomes(lambda: not any(player.subscriber.pending_messages for player in players))
        windows = [player.connection.outlet.window for player in players]
        assert [(window.given_up, window.limit) for window in windows] == [(False, 2 * WINDOW)] * len(PLAYERS)
        assert all(window.closes_at > 10 * WINDOW for window in windows)
        assert not any(player.subscriber.dropped_frames for player in players)
        for player in players:
            await app.node.send({"type": "node.drop", "session_id": player.session_id, "reason": "lease_lost"})
        async with asyncio.timeout(20):
            await asyncio.gather(*(process.wait() for process in started))
    sent = read_packets(str(clip))
    for tool, output in outputs.items():
        seen = read_packets(str(output))
        for kind in ("audio", "video"):
            found, wanted = of_kind(seen, kind), of_kind(sent, kind)
            assert found == wanted[: len(found)], (tool, kind)
            assert had[f"{kind}_frames"] > len(wanted) // 2
            assert len(found) >= had[f"{kind}_frames"] - 2, (tool, kind)  # Some players leave out what comes last.
