"""One message stream that plays a live stream; and what every player of one has, its queue and its outlet."""

from collections.abc import Callable
from typing import Final, Literal, TypeVar

from ingest.contracts import EndReason, PlayAccept, Totals
from ingest.live import LiveStream, Subscriber, TimelineShift
from ingest.live.fanout import ALL_KINDS
from ingest.live.message import Kind, SharedMessage
from ingest.live.subscriber import Form, PassesOnTo
from ingest.live.timeline import MASK
from ingest.rtmp.messages.control import UserControl
from ingest.rtmp.status import (
    PAUSE_NOTIFY,
    PLAY_INSUFFICIENT_BW,
    PLAY_NO_SUPPORTED_TRACK,
    PLAY_PUBLISH_NOTIFY,
    PLAY_START,
    PLAY_UNPUBLISH_NOTIFY,
    SEEK_NOTIFY,
    UNPAUSE_NOTIFY,
)
from ingest.server.asgi import STREAM_ENDED, Status
from ingest.server.connection import Connection
from ingest.server.connection_base import BaseConnection
from ingest.server.context import Session
from ingest.server.output import flush_one, write_waiting
from ingest.server.player import Player

B = TypeVar("B", bound=BaseConnection)


class LiveOutput(Session[B]):
    """A player of a live stream: its queue on one side, the connection's outlet on the other."""

    def _follow(self, live: LiveStream, subscriber: Subscriber) -> None:
        self.live = live
        self.subscriber = subscriber
        self._outlet = self.connection.outlet
        self._batch_bytes = self.connection.server.config.write_high_bytes
        self._stopped = False
        """It writes nothing: it is over, or stands by."""

    def start(self, now: float) -> None:
        self.live.subscribe(self.subscriber, now)

    def stop(self, now: float) -> Totals:
        self._stopped = True
        totals = self.subscriber.totals(now)
        self.live.unsubscribe(self.subscriber)
        return totals

    def _wake(self, _subscriber: Subscriber) -> None:
        self.connection.server.flusher.mark(self)

    def flush(self) -> None:
        """Write what waits, unless the peer is behind: what stays in the queue can still be dropped."""
        raise NotImplementedError

    def broken(self, error: Exception) -> None:
        self.connection.broken(error)

    def resume(self) -> None:
        """Go on with what is left, if there is anything and the peer takes it."""
        if self.subscriber.pending_messages and self._outlet.is_open and not self._stopped:
            self.connection.loop.call_soon(flush_one, self)


MOST_AWAY_MS: Final = 60_000
"""By which the client's time goes on at most when it was sent nothing for long, and then something else."""


class Playing(LiveOutput[Connection], Player):
    """Of a live stream. Without a publisher it waits in silence."""

    def __init__(
        self,
        connection: Connection,
        stream_id: int,
        accept: PlayAccept,
        live: LiveStream,
        finished: Callable[..., None],
        *,
        length_ms: float | None = None,
        form: Form | None = None,
        passes_on_to: PassesOnTo = "",
    ) -> None:
        """`length_ms`: how much of it is asked for, in the media's time; 0: one frame, None: all. `form`,
        `passes_on_to`: as `Subscriber` has them."""
        super().__init__(connection, stream_id, accept, finished)
        self.unwanted: frozenset[Kind] = frozenset()
        """What the client wants to be sent none of, paused or not."""
        self._length_ms = length_ms
        self._shift = TimelineShift(length_ms=length_ms) if length_ms is not None else None
        """None: it is sent the shared bytes."""
        self._began = 0.0
        self._warned_at: float | None = None
        self._queued: list[SharedMessage] = []
        subscriber = Subscriber(
            stream_id,
            connection.server.config.queue,
            self._wake,
            write=connection.outlet.write_shared,
            form=form,
            held=connection.outlet.held_bytes,
            session_id=self.session_id,
            is_counted=not passes_on_to,
            passes_on_to=passes_on_to,
            takes=connection.rtmp.capabilities.caps_ex or 0,
        )
        self._follow(live, subscriber)

    def start(self, now: float) -> None:
        self._began = now
        super().start(now)

    # --- What it is asked ---

    def pause(self, paused: bool, at_ms: float, now: float) -> bool:
        """What comes meanwhile is not kept: it goes on with what is live then, at a keyframe."""
        self._note_pause(paused, now)
        code, text = (PAUSE_NOTIFY, "Paused.") if paused else (UNPAUSE_NOTIFY, "Playing goes on.")
        self._send(now, Status("status", code, text))
        self._mute(now)
        return True

    def receive(self, kind: Literal["audio", "video"], wanted: bool, now: float) -> bool:
        if wanted:
            text = f"Sending {kind}."
            self._send(now, Status("status", SEEK_NOTIFY, text), Status("status", PLAY_START, text))
        self.unwanted = self.unwanted - {kind} if wanted else self.unwanted | {kind}
        self._mute(now)
        return True

    def _mute(self, now: float) -> None:
        self.live.mute(self.subscriber, ALL_KINDS if self.paused_since is not None else self.unwanted, now)

    # --- What time brings about ---

    def check_deadlines(self, now: float) -> None:
        subscriber, connection = self.subscriber, self.connection
        if self.switch is None and subscriber.last_drop is None and self.live.publisher is not None:
            return  # Nearly all, always.
        super().check_deadlines(now)
        if subscriber.is_too_slow(now):
            connection.stop_session(self, "too_slow")
        elif self._is_to_be_warned(now):
            self._warned_at = now
            self._send(now, Status("warning", PLAY_INSUFFICIENT_BW, "The player is too slow: frames are dropped."))
            connection.process((), now)
        elif self._has_nothing_more(now):
            self._finished(self, now)
        elif self._has_ended(now):
            self._send_end(now)

    def _is_to_be_warned(self, now: float) -> bool:
        """Once for each time that it is too slow for a while."""
        last, patience = self.subscriber.last_drop, self.subscriber.limits.patience_s
        return last is not None and (self._warned_at is None or last > self._warned_at + patience)

    def _has_nothing_more(self, now: float) -> bool:
        """Its publisher has left, and something else waits; or none came for as long as it was to play."""
        if self.paused_since is not None or self.live.publisher is not None:
            return False
        if self.subscriber.has_media:
            return self.connection.rtmp.has_next_item(self.stream_id)
        return bool(self._length_ms) and (now - self._began) * 1000 >= (self._length_ms or 0)

    def _has_ended(self, now: float) -> bool:
        """Its stream has, and the client was not told so yet."""
        if self.is_complete or self.switch:
            return False
        return self.live.has_ended(self.subscriber, now, self.connection.server.config.deadlines.end_players_s)

    def _send_end(self, now: float) -> None:
        """FFmpeg, librtmp and others end at it. Whoever doesn't waits for the next publisher."""
        self.is_complete = True
        self.connection.rtmp.send_user_control(UserControl.STREAM_EOF, self.stream_id)
        self._send(now, Status("status", PLAY_UNPUBLISH_NOTIFY, STREAM_ENDED))
        self.connection.process((), now)

    def published_again(self, now: float) -> None:
        """Who was told of no end is told nothing."""
        if not self.is_complete or self._stopped or self.live.publisher is None:
            return
        self.is_complete = False
        self.connection.rtmp.send_user_control(UserControl.STREAM_BEGIN, self.stream_id)
        self._send(now, Status("status", PLAY_PUBLISH_NOTIFY, "The stream is published again."))
        self.connection.process((), now)

    def unpublished(self, now: float) -> None:
        """The publisher has left: it may come back, so that nothing is said yet."""

    def cleared(self, payload: bytes) -> None:
        """Later players are not given any more what this message says (`@clearDataFrame`)."""

    # --- In the place of another (play2) ---

    def reached(self, now: float) -> int | None:
        """What still waits for the client is not sent any more then."""
        self.live.deliver()
        subscriber, time = self.subscriber, self.live.time
        arrived = time.latest_arrival
        if not subscriber.has_media or arrived is None:
            return None
        waiting = subscriber.first_waiting
        if waiting is not None:
            reached = waiting.timestamp
        else:
            reached = time.latest + min(max(round((now - arrived) * 1000), 1), MOST_AWAY_MS)
        return (self._shift.at(reached) if self._shift else reached) & MASK

    def stand_by(self, now: float) -> None:
        """Until there is a keyframe; of a stream of sound alone, a frame."""
        self._stopped = True
        self._began = now
        self.live.subscribe(self.subscriber, now, cached=False)

    def _find_beginning(self, now: float) -> None:
        queued = self.subscriber.withdraw()
        if self._beginning(queued) is not None and self.switch:
            self._queued = queued
            self.switch.complete(now)

    def _beginning(self, queued: list[SharedMessage]) -> int | None:
        """Where it can begin. With the newest picture that does, as the headers are the newest, too."""
        places = (at for at, each in enumerate(queued) if self._is_beginning(each))
        return max(places, default=None) if self._has_video else next(places, None)

    @property
    def _has_video(self) -> bool:
        return "video_codec" in self.live.media

    def _is_beginning(self, message: SharedMessage) -> bool:
        """Whether it can begin with it: a keyframe, any picture where none are to be waited for, any frame of sound
        alone.
        """
        if not self._has_video:
            return message.is_frame
        return message.is_keyframe or (message.is_video and message.is_frame and self.live.lacks_keyframes)

    def take_over(self, former: Player, now: float) -> None:
        queued, self._queued = self._queued, []
        begins_at = self._beginning(queued)
        reached = former.reached(now)
        if isinstance(former, Playing):
            self.paused_since, self.unwanted = former.paused_since, former.unwanted
        if reached is not None:
            self._shift = TimelineShift(reached=reached, length_ms=self._length_ms)
        queued = queued[begins_at:] if begins_at is not None else []
        begins = queued[0].timestamp if queued else self.live.time.latest
        headers = self.live.cache.headers_for(self.subscriber, begins)
        self._stopped = False
        at_keyframe = self.live.lacks_keyframes or any(message.is_keyframe for message in queued)
        self.subscriber.begin([*headers, *queued], now, at_keyframe=at_keyframe)
        self._mute(now)
        self.connection.loop.call_soon(self.check_codec)

    # --- The codecs that it takes ---

    def unsupported(self) -> str:
        """Why its client can't play what is published, as a sentence; "" if it can, as far as is known."""
        capabilities, live = self.connection.rtmp.capabilities, self.live
        for kind, fourcc in live.fourccs.items():
            if not capabilities.takes(kind, fourcc):
                codec = live.media.get("video_codec" if kind == "video" else "audio_codec", fourcc)
                return f"The stream's {kind} is {codec} ({fourcc}), and the player doesn't list that."
        return ""

    def check_codec(self) -> None:
        why = self.unsupported()
        if why and not self._stopped:
            self.connection.stop_session(self, "unsupported_codec", why)

    def status_of(self, reason: EndReason) -> Status | None:
        if reason == "unsupported_codec":
            return Status("error", PLAY_NO_SUPPORTED_TRACK, self.unsupported())
        return super().status_of(reason)

    def flush(self) -> None:
        outlet = self._outlet
        if outlet.is_open and not self._stopped:
            if not write_waiting(outlet, self.subscriber, self._taken, self._batch_bytes):
                self.resume()
            elif outlet.is_open and self._shift is None:
                self.live.catch_up(self.subscriber)
        elif self.switch and self.switch.new is self:
            self._find_beginning(self.connection.loop.time())

    def _taken(self, most: int) -> list[bytes]:
        """Of what is queued, about so many bytes."""
        return self.subscriber.take(most) if self._shift is None else self._shifted(self._shift, most)

    def _shifted(self, shift: TimelineShift, most: int) -> list[bytes]:
        """What is taken for a player with a time or an end of its own."""
        subscriber = self.subscriber
        before = subscriber.sent_bytes
        messages = subscriber.take_messages(most)
        parts = [shift.encoded(message, self.stream_id) for message in shift.take(messages, self._is_beginning)]
        subscriber.count_sent(before + sum(map(len, parts)) - subscriber.sent_bytes)
        if shift.is_over and not self._stopped:
            self._stopped = True
            self.connection.loop.call_soon(self._end)
        return parts

    def _end(self) -> None:
        if self.connection.sessions.get(self.stream_id) is self:
            self._finished(self, self.connection.loop.time())
