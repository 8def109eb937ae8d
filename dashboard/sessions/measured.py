"""What the lake has of a session."""

from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from ingest.live.metadata import claimed
from ingest.live.publication import MOST_KBPS
from ingest.models import Session
from ingest.telemetry.series import Series

LAST_S = 60
AFTER = timedelta(seconds=3)
"""How long after a session's end its last sample may be taken."""

MOST_POINTS = 20_000
"""As many as are read at once; more are gathered."""

BUDGET_S = 6.0
LAST_BUDGET_S = 2.0


def ended(session: Session) -> datetime:
    """When it ended; now, while it is open."""
    return session.ended_at or timezone.now()


def target_kbps(session: Session) -> float | None:
    """What its video ought to have, as its node judges it: the stream's own target, else what the encoder claimed."""
    own = session.stream.target_kbps if session.stream else None
    metadata = session.summary.get("metadata")
    return own or (claimed(metadata, "videodatarate", most=MOST_KBPS) if isinstance(metadata, dict) else None)


def samples(session: Session, *, points: int, span_s: float | None = None) -> Series:
    """All of its samples. `span_s`: as if it had lasted so many seconds, for two with spans of one length."""
    until = ended(session) + AFTER if span_s is None else session.started_at + timedelta(seconds=span_s)
    return _read(session, session.started_at, until, points, BUDGET_S)


def last_minute(session: Session) -> Series:
    end = ended(session)
    return _read(session, end - timedelta(seconds=LAST_S), end + AFTER, 2 * LAST_S, LAST_BUDGET_S)


def _read(session: Session, since: datetime, until: datetime, points: int, budget_s: float) -> Series:
    from ingest.telemetry.reading import read_session  # Arrow is loaded where samples are read.

    return read_session(
        settings.LAKE_DIR,
        str(session.pk),
        _us(since),
        max(_us(since) + 1, _us(until)),
        node=session.node.name if session.node else "",
        points=points,
        budget_s=budget_s,
    )


def _us(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000)
