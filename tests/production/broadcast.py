"""A publisher with players that check every message, in a thread of its own while a test stops parts of the form.

    with on_air(node.url, key, players=2) as show:
        ...
    show.check(late_s=0.05)

Each video message carries its number and the time at which it was sent.
"""

import asyncio
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from ingest.rtmp import events
from tests.loops import LoopThread
from tests.programs import ADMITTED_S, admitted
from tests.rtmp_client import RtmpClient
from tests.rtmpweb.processes import thread_waited_s
from tests.server_process import wait_for

STAMP = struct.Struct(">QQ")
"""A message's number and its time of sending (monotonic, ns), after the 5 bytes of FLV's header and the NAL's 5."""
STAMP_AT = 10

HEADER = bytes.fromhex(
    "17000000000142c014ffe100216742c014da05067e7c0440000003004000000f392000c3500186b924801e28554001000468ce3c80"
)
"""AVCDecoderConfigurationRecord of 320 x 180 by x264, so that it also goes into MP4."""

FPS = 25
MESSAGE_BYTES = 2000  # 400 kbit/s

ARRIVED_S = 10.0
"""Time for the messages that are on their way when the publisher has sent its last."""
CLOSED = "the server closed the connection"


def frame(number: int) -> bytes:
    """Return a video message, a keyframe each second, with the time of now."""
    is_key = number % FPS == 0
    nal = (b"\x65" if is_key else b"\x41") + STAMP.pack(number, time.monotonic_ns())
    nal += b"\x55" * (MESSAGE_BYTES - STAMP_AT - STAMP.size)
    return bytes.fromhex("1701000000" if is_key else "2701000000") + len(nal).to_bytes(4, "big") + nal


@dataclass
class Reception:
    """The messages that one player received, and their delays from the publisher's write to the player's reader."""

    numbers: list[int] = field(default_factory=list)
    delays_s: list[float] = field(default_factory=list)
    ended: str = ""
    """Why it ended before it was asked to."""

    def take(self, event: events.Event) -> None:
        if isinstance(event, events.VideoReceived) and len(event.payload) == MESSAGE_BYTES:
            number, sent_ns = STAMP.unpack_from(event.payload, STAMP_AT)
            self.numbers.append(number)
            self.delays_s.append((time.monotonic_ns() - sent_ns) / 1e9)


class Show:
    """One publisher by its key, and its players."""

    def __init__(self, url: str, key: Mapping[str, Any], players: int, play_at: str) -> None:
        self.port, self.play_port = urlsplit(url).port or 0, urlsplit(play_at).port or 0
        self.app, _, self.name = str(key["stream"]).partition("/")
        self.secret = str(key["key"])
        self.receptions = [Reception() for _ in range(players)]
        self.over = asyncio.Event()
        self.sent = 0
        self.ended = ""
        """Why the publisher ended before it was asked to."""
        self.waited_s = 0.0
        """Time for which its thread waited for a processor, set at the end."""

    @property
    def playing(self) -> bool:
        return all(reception.numbers for reception in self.receptions)

    @property
    def played(self) -> int:
        """Number of messages of the player that has the fewest."""
        return min(len(reception.numbers) for reception in self.receptions)

    def check(self, *, late_s: float) -> None:
        """Nothing was lost, and nothing was later than `late_s`, except the first second, which is from the cache."""
        assert not self.ended, f"{self.name}: its publisher ended: {self.ended}"
        for number, reception in enumerate(self.receptions):
            who = f"player {number} of {self.name}"
            assert not reception.ended, f"{who} ended: {reception.ended}"
            wanted = list(range(reception.numbers[0], self.sent))
            missing = sorted(set(wanted) - set(reception.numbers))
            assert reception.numbers == wanted, f"{who} missed {len(missing)}: {missing[:10]} ..."
            worst = max(reception.delays_s[FPS:])
            assert worst <= late_s, f"{who}: a message was {worst * 1000:.0f} ms late"

    async def run(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                come = partial(admitted, app=self.app)
                publishing = come(self.port, lambda client: client.publish(self.secret))
                publisher, stream_id = await stack.enter_async_context(publishing)
                await publisher.send_video(stream_id, 0, HEADER)
                sending = asyncio.create_task(self._send(publisher, stream_id))
                players = []
                for reception in self.receptions:
                    playing = come(self.play_port, lambda client: client.play(self.name), listener=reception.take)
                    players.append((reception, (await stack.enter_async_context(playing))[0]))
                await sending
                for reception, player in players if not self.ended else ():
                    with suppress(TimeoutError, ConnectionError):
                        has_all = partial(lambda numbers: numbers[-1:] == [self.sent - 1], reception.numbers)
                        await player.wait_until(has_all, ARRIVED_S)
                for reception, player in players:
                    reception.ended = CLOSED if player.closed else ""
        except Exception as error:
            self.ended = self.ended or f"{type(error).__name__}: {error}"
        finally:
            self.waited_s = thread_waited_s()

    async def _send(self, publisher: RtmpClient, stream_id: int) -> None:
        began = time.monotonic()
        while not self.over.is_set():
            if publisher.closed:
                self.ended = CLOSED
                return
            await publisher.send_video(stream_id, self.sent * 1000 // FPS, frame(self.sent))
            self.sent += 1
            await asyncio.sleep(max(0.0, began + self.sent / FPS - time.monotonic()))


@contextmanager
def on_air(url: str, key: Mapping[str, Any], *, players: int = 1, play_at: str = "") -> Iterator[Show]:
    """Publish to the node at `url` and play there, or on the node at `play_at`. Play must need no token."""
    show = Show(url, key, players, play_at or url)
    with LoopThread("broadcast") as loop:
        running = loop.start(show.run())
        try:
            wait_for(lambda: show.playing or show.ended, timeout_s=ADMITTED_S, what="every player has media")
            assert not show.ended, show.ended
            yield show
        finally:
            loop.call(show.over.set)
            running.result(30)
