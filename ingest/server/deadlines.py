"""One sweep over all connections each `sweep_s`, instead of a timer for each message.

The rows of CHECKS are asked in order; the first that finds a deadline passed ends the connection (or its session). They
are asked of a connection when its next deadline is due, and with each fourth sweep, as it may have come nearer since;
with each one only while something is asked of it, waits for its peer, or is about to end.
"""

from collections.abc import Callable
from math import inf
from typing import Final

from ingest.contracts import EndReason
from ingest.rtmp import Phase
from ingest.server.config import Deadlines
from ingest.server.connection import Connection
from ingest.server.connection_base import BaseConnection
from ingest.server.connection_limits import RATES
from ingest.server.player import Player
from ingest.server.publishing import Publishing
from ingest.server.sockets import HAS_ROUND_TRIPS

CHECK_EVERY: Final = 4
"""Sweeps after which a connection is asked though nothing is due."""


def sweep(connection: Connection, deadlines: Deadlines, now: float) -> None:
    outlet = connection.outlet
    if connection.control.requests:
        connection.control.refuse_overdue(now)
    elif (
        now < connection.next_check_at
        and connection.ending is None
        and outlet.blocked_since is None
        and not outlet.is_window_closed
    ):
        _players(connection, deadlines, now)
        return
    if connection.lost:
        return
    if connection.ending:
        closing(connection, deadlines, now)
        return
    for check in CHECKS:
        check(connection, deadlines, now)
        if connection.ending:
            return
    connection.next_check_at = min(now + CHECK_EVERY * deadlines.sweep_s, _next_deadline(connection, deadlines))


def _next_deadline(connection: Connection, deadlines: Deadlines) -> float:
    """When the first of CHECKS may find one passed, if nothing happens until then."""
    if connection.ping_sent is not None:
        due = connection.ping_sent + deadlines.ping_answer_s
    else:
        due = connection.last_received + deadlines.ping_after_s
    if connection.ready_since is None:
        due = min(due, connection.opened + deadlines.handshake_s)
    if connection.refusals:
        due = min(due, connection.refused_at + deadlines.next_item_s)
    if connection.idle_since is not None and not connection.sessions and not connection.has_activity:
        due = min(due, connection.idle_since + _idle_limit(connection, deadlines))
    for session in connection.sessions.values():
        if isinstance(session, Publishing) and session.paused_since == inf:
            due = min(due, session.last_media + _silence_limit(session))
    return due


def closing(connection: BaseConnection, deadlines: Deadlines, now: float) -> None:
    """The client had its time to close first. A transport that can't get rid of its last bytes is cut off."""
    if connection.close_at is None or now < connection.close_at:
        return
    if not connection.transport.is_closing():
        connection.transport.close()
    if now >= connection.close_at + deadlines.write_s:
        connection.transport.abort()


def write_stuck(connection: BaseConnection, deadlines: Deadlines, now: float, within_s: float | None = None) -> None:
    """`within_s`: for another time than `write_s`."""
    outlet = connection.outlet
    if outlet.blocked_since is None:
        return
    if _may_rest(connection, deadlines, now):
        outlet.blocked_since = now  # It has its time again once it goes on.
        return
    waiting = outlet.unsent_bytes()
    if waiting < outlet.blocked_bytes:
        outlet.blocked_bytes, outlet.blocked_since = waiting, now
        return
    limit_s = deadlines.write_s if within_s is None else within_s
    if now - outlet.blocked_since < limit_s or outlet.is_delivered:
        return
    connection.end(_unread(connection), f"The peer took nothing for {limit_s:g} s.", notify=False, linger_s=0)
    connection.transport.abort()


def _unread(connection: BaseConnection) -> EndReason:
    """What the end of a peer is called that leaves unread what it was sent."""
    plays = any(session.event == "rtmp.stop" for session in connection.sessions.values())
    return "too_slow" if plays else "idle_timeout"


def _may_rest(connection: BaseConnection, deadlines: Deadlines, now: float) -> bool:
    """Whether all that it does is to play, and its client has paused all of it: many of them read nothing then, so they
    take nothing of what was sent before, and answer no ping. For so long, and then as any other."""
    sessions = connection.sessions.values()
    return bool(sessions) and all(
        isinstance(session, Player)
        and session.paused_since is not None
        and now - session.paused_since < deadlines.pause_s
        for session in sessions
    )


def _window(connection: Connection, deadlines: Deadlines, now: float) -> None:
    if connection.outlet.check_window(now, deadlines.window_s, connection.ping):
        connection.follow_window()


def _rates(connection: Connection, deadlines: Deadlines, now: float) -> None:
    for (counted, name), limit in zip(RATES, connection.limits, strict=True):
        if limit.is_passed(getattr(connection.rtmp, counted), now):
            connection.end("protocol_error", f"More than {limit.per_second} {name} a second.")
            return


def _handshake(connection: Connection, deadlines: Deadlines, now: float) -> None:
    if connection.ready_since is not None or now - connection.opened < deadlines.handshake_s:
        return
    connection.end("idle_timeout", f"No whole handshake within {deadlines.handshake_s:g} s.", linger_s=0)


def _no_next_item(connection: Connection, deadlines: Deadlines, now: float) -> None:
    if not connection.refusals or connection.control.requests:
        return
    if now - connection.refused_at >= deadlines.next_item_s:
        connection.end(*connection.refusals[-1])


def _nothing_asked(connection: Connection, deadlines: Deadlines, now: float) -> None:
    """An encoder may connect long before somebody presses Start, and stay when he has pressed Stop: `_ping` ends those
    that are gone. Who was not let in by `connect` has no such time."""
    since = connection.idle_since
    if connection.sessions or connection.has_activity or since is None or connection.control.requests:
        return
    limit = _idle_limit(connection, deadlines)
    if now - since < limit:
        return
    connection.end("idle_timeout", f"No publish or play within {limit:g} s.")


def _idle_limit(connection: Connection, deadlines: Deadlines) -> float:
    if connection.rtmp.phase is Phase.CONNECTED:
        return max(deadlines.publish_or_play_s, deadlines.waiting_s)
    return deadlines.publish_or_play_s


def _silence_limit(session: Publishing) -> float:
    return session.idle_timeout_s if session.has_media else session.first_media_timeout_s


def silent_publisher(connection: BaseConnection, deadlines: Deadlines, now: float) -> None:
    for session in list(connection.sessions.values()):
        if not isinstance(session, Publishing):
            continue
        if session.is_paused(now):
            if session.paused_s(now) >= deadlines.pause_s:
                connection.stop_session(session, "idle_timeout", f"Paused for {deadlines.pause_s:g} s.")
            continue
        limit = _silence_limit(session)
        if now - session.last_media >= limit:
            awaited = "media" if session.has_media else "first media"
            connection.stop_session(session, "idle_timeout", f"No {awaited} for {limit:g} s.")


def _players(connection: Connection, deadlines: Deadlines, now: float) -> None:
    for session in list(connection.sessions.values()):
        session.check_deadlines(now)


def _ping(connection: Connection, deadlines: Deadlines, now: float) -> None:
    """Any received byte counts as life. It may carry the ping's own time: uvloop's clock goes by milliseconds."""
    if connection.ping_sent is None or connection.last_received >= connection.ping_sent:
        connection.ping_sent = None
        if now - connection.last_received >= deadlines.ping_after_s and connection.ready_since is not None:
            connection.ping_sent = now
            connection.ping(now)
        return
    if now - connection.ping_sent < deadlines.ping_answer_s or _may_rest(connection, deadlines, now):
        return
    waited = f"within {deadlines.ping_answer_s:g} s of a ping."
    if connection.outlet.held_bytes():  # The ping waits behind media that the peer is slow to take.
        connection.end(_unread(connection), f"It has not read all that it was sent {waited}")
    else:
        connection.end("idle_timeout", f"No byte {waited}")


def _round_trip(connection: Connection, deadlines: Deadlines, now: float) -> None:
    """Pings measure it where the kernel does not tell it."""
    if not HAS_ROUND_TRIPS and connection.sessions and now - connection.pinged_at >= deadlines.ping_after_s:
        connection.ping(now)


CHECKS: tuple[Callable[[Connection, Deadlines, float], None], ...] = (
    write_stuck,
    _window,
    _rates,
    _handshake,
    _no_next_item,
    _nothing_asked,
    silent_publisher,
    _players,
    _ping,
    _round_trip,
)
