"""Sessions and leases in the database. Times are in seconds after NOW."""

from datetime import UTC, datetime, timedelta
from typing import Any

from ingest.models import Lease, Node, Session, Stream

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def hold(stream: Stream, node: str = "node-a", *, expires_at: datetime | None = None, **fields: Any) -> Session:
    """Make a session of a node without an admission, and the stream's lease for it."""
    row, _ = Node.objects.get_or_create(name=node)
    given = {"kind": "publish", "address": "192.0.2.7", "started_at": NOW} | fields
    made = Session.objects.create(app="live", name=stream.name, stream=stream, node=row, **given)
    lease = {"session": made, "node": row, "expires_at": expires_at or at(10)}
    Lease.objects.update_or_create(stream=stream, defaults=lease)
    return made
