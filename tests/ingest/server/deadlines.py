"""Deadlines that change while a server runs: long while a test prepares, short when it waits for what they end."""

from dataclasses import replace

from ingest.server import RtmpServer
from ingest.server.publishing import Publishing


def set_deadlines(server: RtmpServer, **deadlines: float) -> None:
    """From its next sweep on."""
    server.config = replace(server.config, deadlines=replace(server.config.deadlines, **deadlines))


def may_be_silent(server: RtmpServer, limit_s: float) -> None:
    """The one publisher, from now on."""
    (session,) = (found for found in server.sessions.values() if isinstance(found, Publishing))
    session.idle_timeout_s = limit_s
