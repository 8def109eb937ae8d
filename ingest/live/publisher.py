"""Who publishes, as the shell tells the stream."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ingest.contracts import Labels, MediaInfo, PublishLimits


class SocketFigures(NamedTuple):
    """Of the publisher's connection, counted since it was made."""

    bytes_received: int
    rtt_ms: float | None = None
    retrans: int | None = None


@dataclass(slots=True)
class Publisher:
    """One publishing session."""

    session_id: str
    address: str
    encoder: str
    """As the client names itself: flashVer."""
    labels: Labels
    limits: PublishLimits
    started: float
    """Seconds since the Unix epoch."""
    socket: Callable[[], SocketFigures] | None = None
    """Asked once a second."""
    recording: Callable[[], str] | None = None
    """Why what is to be recorded of it is not, just now, as a sentence; "": it is. Asked once a second."""
    watched: Callable[[], None] | None = None
    """Called when its first player joins, and when its last one leaves."""
    described: Callable[[dict[str, Any], MediaInfo], None] | None = None
    """Called when the metadata or what the sequence headers say has changed."""
