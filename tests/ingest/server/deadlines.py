"""Deadlines that change while a server runs: long while a test prepares, short when it waits for what they end."""

from dataclasses import replace

from ingest.server import RtmpServer


def set_deadlines(server: RtmpServer, **deadlines: float) -> None:
    """From its next sweep on."""
    server.config = replace(server.config, deadlines=replace(server.config.deadlines, **deadlines))
