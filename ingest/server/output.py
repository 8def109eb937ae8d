"""What is written to peers: when what came is given to players (one write for each player and flush), and whether a
peer takes it: the transport's buffer and the window of RTMP.

Media wait in the players' queues while either is full, where they can still be dropped. Answers go out all the same, as
they have nowhere else to wait; but not a byte over a window that is strict (Set Peer Bandwidth, hard). What that has no
room for is kept here, in order: of media a message at most and some headers, as what was cut has to go on.

A flush follows the read that brought a frame of video, after everything else that the event loop had ready; sound and
data ride along with it, or wait for AUDIO_S at most. With `flush_ms` a timer gathers all for so long instead. A player
whose write buffer is full is passed over; its messages wait in its own queue, where its policy can drop them, until
`resume_writing`."""

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from ingest.live import LiveStream, Subscriber
from ingest.rtmp import SendingWindow
from ingest.server.sockets import tcp_info, undelivered_bytes


@dataclass(eq=False, repr=False, slots=True)
class Outlet:
    """The shell of a connection tells it of `pause_writing`, `resume_writing`, and when something was received."""

    transport: asyncio.Transport
    window: SendingWindow
    _time: Callable[[], float]
    joins: bool
    """One write for all that is given at once, which makes fewer and fuller TLS records."""
    is_open: bool = True
    is_full: bool = False
    is_window_closed: bool = False
    blocked_since: float | None = None
    """Since when either is so, and the peer has taken nothing."""
    blocked_bytes: int = 0
    delivered_since: float | None = None
    """As far as it was looked at: since when the window is closed though TCP has delivered everything."""
    control_waiting: int = 0
    """Bytes of answers that were written since the buffer is full, or a strict window."""
    _kept: bytearray = field(default_factory=bytearray)
    """What waits for room in a strict window, which does not count it as sent yet."""

    def write_control(self, data: bytes) -> None:
        """What the protocol gave, which counts it itself."""
        window = self.window
        if self._kept or (window.sent > window.closes_at and window.is_strict):
            window.sent -= len(data)
            self._keep(data)
        else:
            self.transport.write(data)
        if self.is_full or self._kept:
            self.control_waiting += len(data)

    def write_media(self, parts: list[bytes], size: int) -> None:
        """`size`: all parts together."""
        if not parts or self.transport.is_closing():
            return
        window = self.window
        sent = window.sent + size
        is_over = sent > window.closes_at
        if (is_over and window.is_strict) or self._kept:
            self._keep(b"".join(parts))
            return
        window.sent = sent
        if self.joins:
            self.transport.write(b"".join(parts))
        else:
            self.transport.writelines(parts)
        if is_over:
            self.is_window_closed = True
            self.delivered_since = None
            self._follow()

    def write_shared(self, data: bytes) -> bool:
        """Media that other peers are sent too. False: there is no room for all of it now, and nothing was written."""
        window = self.window
        sent = window.sent + len(data)
        if not self.is_open or sent > window.closes_at or self.transport.is_closing():
            return False
        window.sent = sent
        self.transport.write(data)
        return True

    def _keep(self, data: bytes) -> None:
        """It goes out as far as there is room now."""
        self._kept += data
        if not self.is_window_closed:
            self.is_window_closed, self.delivered_since = True, None
        self._release()
        self._follow()

    def _release(self) -> None:
        window = self.window
        room = window.room if window.is_strict else len(self._kept)
        if self._kept and room > 0 and not self.transport.is_closing():
            data = bytes(self._kept[:room])
            del self._kept[: len(data)]
            window.sent += len(data)
            self.delivered_since = None
            self.transport.write(data)

    def fill(self) -> None:
        self.is_full = True
        self._follow()

    def drain(self) -> None:
        self.is_full = False
        if not self._kept:  # It waits for the window.
            self.control_waiting = 0
        self._follow()

    def follow_window(self) -> None:
        """What was received may have opened the window."""
        self._release()
        if self.is_window_closed and not self._kept and self.window.may_send():
            self.is_window_closed = False
            if not self.is_full:
                self.control_waiting = 0
            self._follow()

    def check_window(self, now: float, patience_s: float, ping: Callable[[float], int]) -> bool:
        """A window that stays closed: does the peer read all the same? Pings find out (see `SendingWindow`), or that
        all was delivered for so long. True: it is given up; `follow_window`. `ping` gives the timestamp that it sent.
        """
        if not self.is_window_closed:
            return False
        window = self.window
        if window.wants_probe:
            window.probe(ping(now))
        if not self.is_delivered:
            self.delivered_since = None
        elif self.delivered_since is None:
            self.delivered_since = now
        if window.is_read or (self.delivered_since is not None and now - self.delivered_since >= patience_s):
            window.give_up()
            return True
        return False

    def _follow(self) -> None:
        self.is_open = not (self.is_full or self.is_window_closed)
        if self.is_open:
            self.blocked_since = None
        elif self.blocked_since is None:
            self.blocked_since = self._time()
            self.blocked_bytes = self.unsent_bytes()

    def held_bytes(self, closely: bool = False) -> int:
        """What was written and the peer has not taken, about. The kernel, which holds some for every peer, is asked
        `closely`, or once the transport has more than it takes; and with TLS, which hides that.
        """
        waiting = self.transport.get_write_buffer_size()
        return waiting + undelivered_bytes(self._socket) if closely or waiting or self.joins else 0

    def unsent_bytes(self) -> int:
        """A number that falls while the peer takes what is written to it.

        TLS hides what its TCP transport holds, and the kernel may hold more than a window; it knows what has arrived.
        """
        return self.transport.get_write_buffer_size() - tcp_info(self._socket).acknowledged_bytes

    @property
    def is_delivered(self) -> bool:
        """Whether the peer's TCP has everything that was written; as far as the kernel tells."""
        return not self.transport.get_write_buffer_size() and not undelivered_bytes(self._socket)

    @property
    def _socket(self) -> socket.socket | None:
        found: socket.socket | None = self.transport.get_extra_info("socket")
        return found


logger = logging.getLogger(__name__)

AUDIO_S: Final = 0.035
"""A little more than between two frames of 30 a second."""


def write_waiting(outlet: Outlet, subscriber: Subscriber, take: Callable[[int], list[bytes]], most: int) -> bool:
    """What waits in a player's queue, about so many bytes, unless the peer is behind: what stays can still be dropped.
    `take` gives it, encoded. Whether that was all."""
    window = outlet.window
    if window.closes_at - window.sent < most:
        most = window.room
    before = subscriber.sent_bytes
    parts = take(most)
    outlet.write_media(parts, subscriber.sent_bytes - before)
    return not subscriber.pending_messages


class Flushable(Protocol):
    def flush(self) -> None: ...

    def broken(self, error: Exception) -> None:
        """`flush` raised this."""


def flush_one(player: Flushable) -> None:
    """A fault of our own ends this player only."""
    try:
        player.flush()
    except Exception as error:
        player.broken(error)


class Flusher:
    """The streams that have something to deliver, and the players that have something in their queues."""

    def __init__(self, loop: asyncio.AbstractEventLoop, flush_ms: int) -> None:
        self._loop = loop
        self._flush_s = flush_ms / 1000
        self._streams: dict[LiveStream, None] = {}
        self._later: dict[LiveStream, None] = {}
        self._players: list[Flushable] = []
        self._handle: asyncio.Handle | None = None
        self._timer: asyncio.Handle | None = None

    def wake(self, stream: LiveStream, is_urgent: bool) -> None:
        """The stream has something to deliver: see `live.stream.Wake`."""
        if is_urgent or self._flush_s:
            if self._later:
                self._no_later(stream)
            self._streams[stream] = None
            self._schedule()
        else:
            self._later[stream] = None
            if self._timer is None:
                self._timer = self._loop.call_later(AUDIO_S, self._deliver_later)

    def _no_later(self, stream: LiveStream) -> None:
        self._later.pop(stream, None)
        if not self._later and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def mark(self, player: Flushable) -> None:
        """The player's queue went from empty to not empty."""
        self._players.append(player)
        self._schedule()

    def _schedule(self) -> None:
        if self._handle is None:
            if self._flush_s:
                self._handle = self._loop.call_later(self._flush_s, self.flush)
            else:
                self._handle = self._loop.call_soon(self.flush)

    def _deliver_later(self) -> None:
        self._timer = None
        later, self._later = self._later, {}
        self._streams.update(later)
        if self._handle is not None:
            self._handle.cancel()
        self.flush()

    def flush(self) -> None:
        streams, self._streams = self._streams, {}
        for stream in streams:
            try:
                stream.deliver()
            except Exception:  # Our own fault: the others go on.
                logger.exception("What %s has sent could not be delivered", stream.path)
        players, self._players, self._handle = self._players, [], None
        for player in players:
            flush_one(player)

    def close(self) -> None:
        for handle in (self._handle, self._timer):
            if handle:
                handle.cancel()
        self._streams.clear()
        self._later.clear()
        self._players.clear()
