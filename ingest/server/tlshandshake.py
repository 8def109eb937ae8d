"""From an accepted socket to a connection's TLS transport. A handshake that fails ends as connections end: once."""

import asyncio
import socket
import ssl
from typing import Any

from ingest.server.connection import Connection
from ingest.server.endings import Ending

NOT_TLS = "The client spoke something else than TLS: RTMP without it goes to the other port."
NOT_TRUSTED = "The client doesn't trust the certificate."

HINTS = {
    "WRONG_VERSION_NUMBER": NOT_TLS,
    "HTTP_REQUEST": NOT_TLS,
    "HTTPS_PROXY_REQUEST": NOT_TLS,
    "UNSUPPORTED_PROTOCOL": "The client's TLS is older than 1.2.",
    "TLSV1_ALERT_UNKNOWN_CA": NOT_TRUSTED,
    "SSLV3_ALERT_BAD_CERTIFICATE": NOT_TRUSTED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": NOT_TRUSTED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": NOT_TRUSTED,
}
"""By OpenSSL's reason: what it means for an operator."""


class Handshaking(asyncio.Transport):
    """Stands in for a connection's transport until there is one: whoever closes it ends the handshake."""

    def __init__(self, connected: socket.socket, peer: tuple[str, int], task: "asyncio.Future[Any]") -> None:
        super().__init__({"peername": peer, "sockname": connected.getsockname(), "socket": connected})
        self._task = task
        self._closing = False

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._task.cancel()

    def abort(self) -> None:
        self.close()

    def can_write_eof(self) -> bool:
        return False


def shake_hands(
    connection: Connection, connected: socket.socket, peer: tuple[str, int], context: ssl.SSLContext
) -> None:
    """Count the connection in and begin; then it gets its transport, or ends."""
    deadlines = connection.server.config.deadlines
    task = asyncio.ensure_future(
        connection.loop.connect_accepted_socket(
            lambda: connection,
            connected,
            ssl=context,
            # The sweep's own deadline comes first: it counts from the accept to the end of RTMP's handshake.
            ssl_handshake_timeout=deadlines.handshake_s + deadlines.write_s,
            # Encoders that never read don't answer the close of TLS. They see TCP's, which follows.
            ssl_shutdown_timeout=deadlines.linger_s,
        )
    )

    def done(_task: object) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None and not task.cancelled():
            return
        if isinstance(error, OSError):
            connection.ending = connection.ending or _ending(error)
        connection.connection_lost(None)
        connected.close()

    task.add_done_callback(done)
    connection.accepted(Handshaking(connected, peer, task))


def _ending(error: OSError) -> Ending:
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "unknown").replace("_", " ").lower()
        return Ending("protocol_error", f"No TLS handshake ({reason}). {HINTS.get(error.reason, '')}".rstrip())
    return Ending("tcp_reset", "Closed during the TLS handshake.")
