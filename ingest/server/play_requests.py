"""Playing, as clients ask for it: what begins (play, play2, the next of a playlist), and what is asked of it then.

play2 from what plays to something else (section 7.2.2.2): that takes its place as soon as it can be played. Until then
both are sessions: the one that plays is its connection's, the other waits beside it. Flash Media Server's statuses:
Play.Transition once it is accepted, onPlayStatus with Play.TransitionComplete when it begins, and Play.Failed if it
doesn't come; what plays goes on then."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ingest.contracts import EndReason, PlayAccept
from ingest.rtmp import events, status
from ingest.rtmp.messages.control import UserControl
from ingest.rtmp.states import StreamState
from ingest.server.application import NO_TOTALS, Answer, ApplicationSide, Session
from ingest.server.asgi import DESCRIPTIONS, Ending, Kind, Message, Request, Status, play_event
from ingest.server.playing import Player, Playing
from ingest.server.publishing import Publishing
from ingest.server.vod.flv_source import UNIT_MS, asked_span
from ingest.server.vod.playback import Playback

if TYPE_CHECKING:
    from ingest.server.connection import Connection
    from ingest.server.control import Control


class Switch:
    """From its accept to the beginning of the new one, or to its failure."""

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
        connection.rtmp.send_play_status(new.stream_id, status.PLAY_TRANSITION_COMPLETE, details=self._name)
        new.take_over(old, now)
        connection.end_session(old, "completed", f"The client switched to {self._name}.", now, tell=False)
        connection.sessions[new.stream_id] = new
        connection.process((), now)

    def check_deadline(self, now: float) -> None:
        if now >= self._deadline:
            why = f"{self._name} has sent nothing to begin with. What plays goes on."
            self.give_up("idle_timeout", why, now, tell=True)

    def give_up(self, reason: EndReason, description: str, now: float, *, tell: bool = False) -> None:
        """The new one ends before it began. `tell`: the client, for whom what plays goes on."""
        old, new, connection = self.old, self.new, self.new.connection
        old.switch = new.switch = None
        connection.server.sessions.pop(new.session_id, None)
        totals = new.stop(now)
        if tell:
            connection.rtmp.send_status(new.stream_id, "error", status.PLAY_FAILED, description)
            connection.collect_statuses(now)
        connection.control.session_ended(new, reason, description, totals)
        if tell:
            connection.process((), now)


LIVE_ONLY: Final = -1.0
REFUSAL_S: Final = 0.1
"""From the refusal of what a connection asked to play, and plays nothing else, to its end."""
MOST_REFUSALS: Final = 16
"""One after the other, with nothing played between them."""
STOPPED: Final = Status("status", status.PLAY_STOP, "Playing is over.")

# --- What begins ---


def _requested(connection: "Connection", event: events.PlayRequested, now: float) -> None:
    if not connection.ending:
        control = connection.control
        control.ask("play", play_event(event, control.caller.credential), now, play=event)


def _accept(control: "Control", request: Request, message: Message) -> None:
    accept: PlayAccept = message  # type: ignore[assignment]
    connection, now = control.connection, control.connection.loop.time()
    former = connection.sessions.get(request.stream_id)
    player = _player(connection, request, accept, former)
    if request.forbidden:
        refuse_play(control, request, status.PLAY_FAILED, DESCRIPTIONS["kicked"])
        control.session_ended(player, "kicked", DESCRIPTIONS["kicked"], NO_TOTALS)
        return
    if isinstance(player, Playing) and (why := player.unsupported()):
        refuse_play(control, request, status.PLAY_NO_SUPPORTED_TRACK, why)
        control.session_ended(player, "unsupported_codec", why, NO_TOTALS)
        return
    name = control.public_name(accept["path"])
    if request.play and request.play.transition and isinstance(former, Player):
        connection.rtmp.accept_switch(request.request_id, f"Switching to {name}.")
        Switch(former, player, name, now + connection.server.config.deadlines.switch_s).begin(now)
        connection.after_decision(now)
        return
    recorded = isinstance(player, Playback)
    connection.rtmp.accept_play(request.request_id, f"Started playing {name}.", recorded=recorded)
    connection.write_control()  # Before any media: clients drop what comes before Play.Start.
    control.begin(player, now)
    connection.after_decision(now)


def _player(connection: "Connection", request: Request, accept: PlayAccept, former: Session | None) -> Player:
    """Section 7.2.2.1: a start of -1 is live alone, one of 0 and above the recording. Without a start, what is live
    here, if the player may have that; else the recording; and where there is none, it waits for the live stream.

    A play2 from one recording to another without a start goes on where the `former` is.
    """
    registry, recording, asked = connection.server.registry, accept["recording"], request.play
    live = registry.get(accept["path"])
    is_live = live is not None and live.publisher is not None and not (recording and recording.get("alone"))
    if recording and asked and (asked.start >= 0 or (asked.start != LIVE_ONLY and not is_live)):
        span = asked_span(asked.start, asked.duration, accept["start_unit"])
        if asked.transition == "switch" and asked.start < 0 and isinstance(former, Playback):
            span = replace(span, start_ms=former.queue.position_ms)
        return Playback(connection, request.stream_id, accept, recording, span, finished)
    live = registry.get_or_create(accept["path"], accept["labels"])
    length_ms = asked.duration * UNIT_MS[accept["start_unit"]] if asked and asked.duration >= 0 else None
    return Playing(connection, request.stream_id, accept, live, finished, length_ms=length_ms)


def finished(player: Player, now: float, *, failure: Status | None = None, detail: str = "") -> None:
    """All of it was sent, or no more can be: its session ends, and the playlist goes on.

    Flash Media Server's statuses: onPlayStatus with Play.Switch between two items; at the end StreamEOF, onPlayStatus
    with Play.Complete, Play.Stop. A client that can go back in it then keeps the session (see `Player.stay`).

    `failure`: what the client is told of it then; an error would end FFmpeg's playlist, so that is an onPlayStatus.
    `detail`: the same for the operator.
    """
    connection, stream_id, rtmp = player.connection, player.stream_id, player.connection.rtmp
    if player.switch:
        player.switch.complete(now)
        return
    if not rtmp.has_next_item(stream_id):
        if not player.is_complete:
            _send_end(player, failure)
        if not failure and player.stay(now):
            connection.collect_statuses(now)
            connection.process((), now)
            return
    elif failure:
        rtmp.send_play_status(stream_id, failure.code, description=failure.description)
    else:
        rtmp.send_play_status(stream_id, status.PLAY_SWITCH)
    connection.collect_statuses(now)
    reason: EndReason = "unreadable" if failure else "completed"
    connection.end_session(player, reason, detail or DESCRIPTIONS[reason], now, tell=False)
    rtmp.play_next_item(stream_id)
    connection.collect_statuses(now)
    connection.process((), now)


def _send_end(player: Player, failure: Status | None) -> None:
    rtmp, stream_id = player.connection.rtmp, player.stream_id
    rtmp.send_user_control(UserControl.STREAM_EOF, stream_id)
    if not failure:
        rtmp.send_play_status(stream_id, status.PLAY_COMPLETE, **player.completion())
    rtmp.send_status(stream_id, *(failure or STOPPED))


def refuse_play(control: "Control", request: Request, code: str, description: str) -> None:
    """An item of a playlist is passed over; what a play2 wanted leaves what plays.

    Else it was the only one, and the connection ends, as librtmp would wait for ever. But what the client has sent
    meanwhile is read before, as it may be the next item: some of these, not any number.
    """
    connection, stream_id, now = control.connection, request.stream_id, control.connection.loop.time()
    rtmp = connection.rtmp
    rtmp.reject_play(request.request_id, code, description)
    stream = rtmp.streams.get(stream_id)
    is_item = stream is not None and stream.state is StreamState.PLAYING
    if is_item and stream_id not in connection.sessions and not rtmp.play_next_item(stream_id):
        rtmp.send_user_control(UserControl.STREAM_EOF, stream_id)
        rtmp.send_status(stream_id, *STOPPED)
    if not (is_item or connection.sessions):
        control.refusals.append(Ending("rejected", f"{code}: {description}"))
        if len(control.refusals) == MOST_REFUSALS:
            connection.end(*control.refusals[-1])
            return
        connection.loop.call_later(REFUSAL_S, _end_refused, control, len(control.refusals))
    connection.after_decision(now)


def _end_refused(control: "Control", count: int) -> None:
    """Unless something was asked for since."""
    connection = control.connection
    if len(control.refusals) == count and not control.requests:
        connection.end(*control.refusals[-1])


PLAYS: Final[dict[str, tuple[Kind, Answer]]] = {
    "rtmp.play.accept": ("play", _accept),
    "rtmp.play.reject": ("play", ApplicationSide.reject),
}

# --- What is asked of it ---


def _pause(connection: "Connection", event: events.PauseRequested, now: float) -> None:
    session = connection.sessions.get(event.stream_id)
    if not isinstance(session, Player | Publishing) or not session.pause(event.paused, event.milliseconds, now):
        connection.rtmp.send_error(event.transaction, status.INVALID_ARG, "This can't be paused.")


def _seek(connection: "Connection", event: events.SeekRequested, now: float) -> None:
    session = connection.sessions.get(event.stream_id)
    if not isinstance(session, Player) or not session.seek(event.milliseconds, now):
        connection.rtmp.send_status(event.stream_id, "error", status.SEEK_FAILED, "There is nothing to seek in.")
        connection.collect_statuses(now)


def _receive(connection: "Connection", event: events.ReceiveRequested, now: float) -> None:
    session = connection.sessions.get(event.stream_id)
    if isinstance(session, Player):
        session.receive(event.kind, event.wanted, now)


def _buffer_length(connection: "Connection", event: events.BufferLengthSet, now: float) -> None:
    session = connection.sessions.get(event.stream_id)
    if isinstance(session, Player):
        session.set_buffer(event.length_ms)


PLAY_EVENTS: Final[dict[type, Callable[[Any, Any, float], None]]] = {
    events.PlayRequested: _requested,
    events.PauseRequested: _pause,
    events.SeekRequested: _seek,
    events.ReceiveRequested: _receive,
    events.BufferLengthSet: _buffer_length,
}
