"""Admissions by the database's rows alone. Times are in seconds after NOW."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from ingest.models import Lease, Node, Session, Stream
from ingest.services import admission, leases
from ingest.services.admission import Grant
from ingest.services.authorization import Peer, PublishRequest

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


def publish(
    secret: str,
    now: float = 0.0,
    *,
    asked: float | None = None,
    address: str = "192.0.2.8",
    node: str = "node-b",
    **knows: Any,
) -> Grant:
    """Admit a publisher to live/ by its key, which asked first at `asked`. `knows` are fields of the Knowledge."""
    peer = Peer(address=address, encoder="OBS", node=node, channel="")
    return admission.admit_publish(
        admission.Ask(uuid.uuid4(), PublishRequest("live", secret, secret, True), peer),
        now=at(now),
        asked_at=at(now if asked is None else asked),
        knowledge=leases.Knowledge(at(now), **knows),
    )
