"""Playing, as clients ask for it: what begins (play, play2, the next of a playlist), and what is asked of it then."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from ingest.contracts import EndReason, PlayAccept
from ingest.rtmp import events, status
from ingest.rtmp.messages.control import UserControl
from ingest.server.asgi import DESCRIPTIONS, Request, Status, play_event
from ingest.server.connection import Connection
from ingest.server.context import AnySession
from ingest.server.player import Player
from ingest.server.playing import Playing
from ingest.server.publishing import Publishing
from ingest.server.relay_playing import RelayPlaying
from ingest.server.vod.flv_source import UNIT_MS, asked_span
from ingest.server.vod.playback import Playback

LIVE_ONLY: Final = -1.0
STOPPED: Final = Status("status", status.PLAY_STOP, "Playing is over.")

# --- What begins ---


def _requested(connection: Connection, event: events.PlayRequested, now: float) -> None:
    if not connection.ending:
        control = connection.control
        control.ask("play", play_event(event, control.caller.credential), now, play=event)


def player_for(connection: Connection, request: Request, accept: PlayAccept, former: AnySession | None) -> Player:
    """Section 7.2.2.1: a start of -1 is live alone, one of 0 and above the recording. Without a start, what is live
    here, if the player may have that; else the recording; and where there is none, it waits for the live stream.

    A play2 from one recording to another without a start goes on where the `former` is.
    """
    registry, recording, play = connection.server.registry, accept["recording"], request.play
    live = registry.get(accept["path"])
    source = accept.get("source")
    if source is not None:
        connection.server.relays.want(accept["path"], source)
    is_published = source is not None or (live is not None and live.publisher is not None)
    is_live = is_published and not (recording and recording.get("alone"))
    if recording and play and (play.start >= 0 or (play.start != LIVE_ONLY and not is_live)):
        span = asked_span(play.start, play.duration, accept["start_unit"])
        if play.transition == "switch" and play.start < 0 and isinstance(former, Playback):
            span = replace(span, start_ms=former.queue.position_ms)
        return Playback(connection, request.stream_id, accept, recording, span, finished)
    live = registry.get_or_create(accept["path"], accept["labels"])
    if "relay" in accept:
        return RelayPlaying(connection, request.stream_id, accept, live, finished)
    length_ms = play.duration * UNIT_MS[accept["start_unit"]] if play and play.duration >= 0 else None
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
            connection.after_status(now)
            return
    elif failure:
        rtmp.send_play_status(stream_id, failure.code, description=failure.description)
    else:
        rtmp.send_play_status(stream_id, status.PLAY_SWITCH)
    connection.collect_statuses(now)
    reason: EndReason = "unreadable" if failure else "completed"
    connection.end_session(player, reason, detail or DESCRIPTIONS[reason], now, notify=False)
    rtmp.play_next_item(stream_id)
    connection.after_status(now)


def _send_end(player: Player, failure: Status | None) -> None:
    rtmp, stream_id = player.connection.rtmp, player.stream_id
    rtmp.send_user_control(UserControl.STREAM_EOF, stream_id)
    if not failure:
        rtmp.send_play_status(stream_id, status.PLAY_COMPLETE, **player.completion())
    rtmp.send_status(stream_id, *(failure or STOPPED))


# --- What is asked of it ---


def _pause(connection: Connection, event: events.PauseRequested, now: float) -> None:
    session = connection.sessions.get(event.stream_id)
    if not isinstance(session, Player | Publishing) or not session.pause(event.paused, event.milliseconds, now):
        connection.rtmp.send_error(event.transaction, status.INVALID_ARG, "This can't be paused.")


def _seek(connection: Connection, event: events.SeekRequested, now: float) -> None:
    session = connection.sessions.get(event.stream_id)
    if not isinstance(session, Player) or not session.seek(event.milliseconds, now):
        failure = Status("error", status.SEEK_FAILED, "There is nothing to seek in.")
        connection.send_status(event.stream_id, failure, now)


def _receive(connection: Connection, event: events.ReceiveRequested, now: float) -> None:
    session = connection.sessions.get(event.stream_id)
    if isinstance(session, Player):
        session.receive(event.kind, event.wanted, now)


def _buffer_length(connection: Connection, event: events.BufferLengthSet, now: float) -> None:
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
