"""Samples and events on their way to the lake.

A process that runs a media node makes one `TelemetryWriter`, starts it and makes it known by `set_writer`; whoever has
something to record asks `get_writer()`, which is None where nothing is recorded (other processes, most tests).
"""

from ingest.telemetry.spool import request_flush
from ingest.telemetry.writer import Rotation, TelemetryWriter

__all__ = ["Rotation", "TelemetryWriter", "get_writer", "request_flush", "set_writer"]

_writer: TelemetryWriter | None = None


def get_writer() -> TelemetryWriter | None:
    return _writer


def set_writer(writer: TelemetryWriter | None) -> None:
    """Makes the writer known; None: nothing is recorded from now on."""
    global _writer
    _writer = writer
