"""One message stream that plays: what it can be asked for, how it goes over to something else, and how a live stream is
played."""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

from ingest.contracts import EndReason, PlayAccept, Totals
from ingest.live import LiveStream, Subscriber, TimelineShift
from ingest.live.fanout import ALL_KINDS
from ingest.live.message import Kind, SharedMessage
from ingest.live.timeline import MASK
from ingest.rtmp.messages.control import UserControl
from ingest.rtmp.status import (
    PAUSE_NOTIFY,
    PLAY_FAILED,
    PLAY_INSUFFICIENT_BW,
    PLAY_NO_SUPPORTED_TRACK,
    PLAY_PUBLISH_NOTIFY,
    PLAY_START,
    PLAY_TRANSITION_COMPLETE,
    PLAY_UNPUBLISH_NOTIFY,
    SEEK_NOTIFY,
    UNPAUSE_NOTIFY,
)
from ingest.server.asgi import ENDS, STREAM_ENDED, Status
from ingest.server.connection import Connection
from ingest.server.connection_base import BaseConnection
from ingest.server.context import Session
from ingest.server.output import flush_one
from ingest.server.sockets import relax_keepalive


class Player(Session[Connection]):
    """A play session, of a live stream or of a recording, from its accept to its end.

    What is asked for is answered by its statuses; False: it can't be done here, and the client is told so.
    """

    __slots__ = ("_finished", "paused_since", "switch")

    def __init__(
        self, connection: Connection, stream_id: int, accept: PlayAccept, finished: Callable[..., None]
    ) -> None:
        """`finished`: see `play_requests.finished`."""
        super().__init__(connection, stream_id, accept["session_id"], accept["path"])
        self._finished = finished
        self.switch: Switch | None = None
        """While the client goes over from it to another one, or from another one to it."""
        self.paused_since: float | None = None
        """When its client said that it pauses; None: it does not."""

    def before_stop(self, reason: EndReason, description: str, now: float) -> None:
        if self.switch:
            self.switch.give_up(reason, description, now)

    def gives_up(self, reason: EndReason, description: str, now: float) -> bool:
        if self.switch is None or self.switch.new is not self:
            return False
        self.switch.give_up(reason, description, now, notify=True)
        return True

    def check_deadlines(self, now: float) -> None:
        if self.switch:
            self.switch.check_deadline(now)

    def stay(self, now: float) -> bool:
        """All of it was sent. Whether the session stays, for a client that goes back in it."""
        return False

    def completion(self) -> dict[str, Any]:
        return {}

    def reached(self, now: float) -> int | None:
        """The client's time up to which it was sent media, 32 bits, ms; None: it was sent none."""
        return None

    def stand_by(self, now: float) -> None:
        """It is to take another's place, at once or as soon as it can; then `switch.complete`."""
        if self.switch:
            self.switch.complete(now)

    def take_over(self, former: "Player", now: float) -> None:
        """Begin in the place of another, and go on with the client's time."""
        self.start(now)

    def status_of(self, reason: EndReason) -> Status | None:
        return ENDS[reason].player

    def _send(self, now: float, *statuses: Status) -> None:
        for each in statuses:
            self.connection.rtmp.send_status(self.stream_id, *each)
        self.connection.collect_statuses(now)

    def _note_pause(self, paused: bool, now: float) -> None:
        """The client has said so. It may cease to read meanwhile, and to answer (see `deadlines`)."""
        if not paused:
            self.paused_since = None
        elif self.paused_since is None:
            self.paused_since = now
            relax_keepalive(self.connection.transport.get_extra_info("socket"))

    def pause(self, paused: bool, at_ms: float, now: float) -> bool:
        """`at_ms`: of the client's time, where it pauses or wants to go on."""
        return False

    def seek(self, at_ms: float, now: float) -> bool:
        return False

    def receive(self, kind: Literal["audio", "video"], wanted: bool, now: float) -> bool:
        return False

    def set_buffer(self, length_ms: int) -> None:
        """How much the client wants to have ahead; only recordings can be sent ahead."""


class Switch:
    """play2 from what plays to something else (section 7.2.2.2), from its accept to the beginning of the new one, or to
    its failure.

    That takes its place as soon as it can be played. Until then both are sessions: the one that plays is its
    connection's, the other waits beside it. Flash Media Server's statuses: Play.Transition once it is accepted,
    onPlayStatus with Play.TransitionComplete when it begins, and Play.Failed if it doesn't come; what plays goes on.
    """

    def __init__(self, old: Player, new: Player, name: str, deadline: float) -> None:
        """`name`: as the client is told it; `deadline`: when the new one has to be there."""
        self.old = old
        self.new = new
        self._name = name
        self._deadline = deadline

    def begin(self, now: float) -> None:
        old, new = self.old, self.new
        if old.switch:
            old.switch.give_up("client_unpublish", "The client switched to something else.", now)
        old.switch = new.switch = self
        new.connection.server.sessions[new.session_id] = new
        new.stand_by(now)

    def complete(self, now: float) -> None:
        old, new, connection = self.old, self.new, self.new.connection
        old.switch = new.switch = None
        connection.rtmp.send_play_status(new.stream_id, PLAY_TRANSITION_COMPLETE, details=self._name)
        new.take_over(old, now)
        connection.end_session(old, "completed", f"The client switched to {self._name}.", now, notify=False)
        connection.sessions[new.stream_id] = new
        connection.process((), now)

    def check_deadline(self, now: float) -> None:
        if now >= self._deadline:
            why = f"{self._name} has sent nothing to begin with. What plays goes on."
            self.give_up("idle_timeout", why, now, notify=True)

    def give_up(self, reason: EndReason, description: str, now: float, *, notify: bool = False) -> None:
        """The new one ends before it began. `notify`: the client, for whom what plays goes on."""
        old, new, connection = self.old, self.new, self.new.connection
        old.switch = new.switch = None
        connection.server.sessions.pop(new.session_id, None)
        totals = new.stop(now)
        if notify:
            connection.send_status(new.stream_id, Status("error", PLAY_FAILED, description), now)
        connection.control.session_ended(new, reason, description, totals)
        if notify:
            connection.process((), now)


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
    ) -> None:
        """`length_ms`: how much of it is asked for, in the media's time; 0: one frame, None: all."""
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
            held=connection.outlet.held_bytes,
            session_id=self.session_id,
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
            subscriber, window, most = self.subscriber, outlet.window, self._batch_bytes
            if window.closes_at - window.sent < most:
                most = window.room
            before = subscriber.sent_bytes
            parts = subscriber.take(most) if self._shift is None else self._shifted(self._shift, most)
            outlet.write_media(parts, subscriber.sent_bytes - before)
            if subscriber.pending_messages:
                self.resume()
            elif outlet.is_open and self._shift is None:
                self.live.catch_up(subscriber)
        elif self.switch and self.switch.new is self:
            self._find_beginning(self.connection.loop.time())

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
