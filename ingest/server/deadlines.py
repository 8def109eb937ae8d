"""One look at every connection each `sweep_s`, instead of a timer for each message.

The rows of CHECKS are asked in order; the first that finds a deadline passed ends the connection (or its session).
"""

from collections.abc import Callable

from ingest.server.config import Deadlines
from ingest.server.connection import Connection
from ingest.server.publishing import Publishing


def sweep(connection: Connection, deadlines: Deadlines, now: float) -> None:
    """Enforce the deadlines of one connection."""
    request = connection.control.request
    if request and now >= request.deadline:
        connection.control.decision_overdue()
    if connection.lost:
        return
    for check in CLOSING_CHECKS if connection.ending else CHECKS:
        if check(connection, deadlines, now):
            return


def _closing(connection: Connection, deadlines: Deadlines, now: float) -> bool:
    """The client had its time to close first. A transport that can't get rid of its last bytes is cut off."""
    if connection.close_at is None or now < connection.close_at:
        return False
    if not connection.transport.is_closing():
        connection.transport.close()
    if now >= connection.close_at + deadlines.write_s:
        connection.transport.abort()
    return True


def _write_stuck(connection: Connection, deadlines: Deadlines, now: float) -> bool:
    if connection.write_blocked_since is None:
        return False
    waiting = connection.unsent_bytes()
    if waiting < connection.write_blocked_bytes:
        connection.write_blocked_bytes, connection.write_blocked_since = waiting, now
        return False
    if now - connection.write_blocked_since < deadlines.write_s:
        return False
    connection.end("idle_timeout", f"The peer took nothing for {deadlines.write_s:g} s.", tell=False, linger_s=0)
    connection.transport.abort()
    return True


def _handshake(connection: Connection, deadlines: Deadlines, now: float) -> bool:
    if connection.ready_since is not None or now - connection.opened < deadlines.handshake_s:
        return False
    connection.end("idle_timeout", f"No whole handshake within {deadlines.handshake_s:g} s.", linger_s=0)
    return True


def _nothing_asked(connection: Connection, deadlines: Deadlines, now: float) -> bool:
    since = connection.ready_since
    if connection.asked or since is None or connection.control.request or now - since < deadlines.publish_or_play_s:
        return False
    connection.end("idle_timeout", f"No publish or play within {deadlines.publish_or_play_s:g} s.")
    return True


def _silent_publisher(connection: Connection, deadlines: Deadlines, now: float) -> bool:
    for session in list(connection.sessions.values()):
        if not isinstance(session, Publishing):
            continue
        limit = session.idle_timeout_s if session.has_media else deadlines.first_media_s
        if now - session.last_media >= limit:
            what = "media" if session.has_media else "first media"
            connection.stop_session(session, "idle_timeout", f"No {what} for {limit:g} s.")
    return connection.ending is not None


def _ping(connection: Connection, deadlines: Deadlines, now: float) -> bool:
    """Any received byte counts as life. It may carry the ping's own time: uvloop's clock goes by milliseconds."""
    if connection.ping_sent is None or connection.last_received >= connection.ping_sent:
        connection.ping_sent = None
        if now - connection.last_received >= deadlines.ping_after_s and connection.ready_since is not None:
            connection.ping_sent = now
            connection.rtmp.send_ping(int((now - connection.opened) * 1000) & 0xFFFFFFFF)
            connection.write_control()
        return False
    if now - connection.ping_sent < deadlines.ping_answer_s:
        return False
    connection.end("idle_timeout", f"No byte within {deadlines.ping_answer_s:g} s of a ping.")
    return True


Check = Callable[[Connection, Deadlines, float], bool]

CHECKS: tuple[Check, ...] = (_write_stuck, _handshake, _nothing_asked, _silent_publisher, _ping)
CLOSING_CHECKS: tuple[Check, ...] = (_closing,)
