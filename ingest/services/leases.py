"""The publisher's lease: at most one live publisher per stream over all nodes, and none for ever after a crash."""

import uuid
from collections.abc import Collection
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q

from ingest.models import Lease

TTL = timedelta(seconds=10)
"""How long a lease lives without renewal."""

RENEW_S = 3.0
"""How often a node renews all of its leases, in one statement."""

ATTEMPTS = 3


class Busy(Exception):  # noqa: N818 - it reads as what it says.
    """Another session holds the lease."""


def take(*, stream: int, session: uuid.UUID, node: int, now: datetime) -> tuple[int, uuid.UUID | None]:
    """Takes a free or expired lease; returns its fencing number and the session that lost it by expiry, if any.

    Raises Busy. The session's row must exist already, in the same transaction.
    """
    for _ in range(ATTEMPTS):
        held = Lease.objects.filter(stream_id=stream).first()
        if held is None:
            try:
                with transaction.atomic():
                    Lease.objects.create(stream_id=stream, session_id=session, node_id=node, expires_at=now + TTL)
            except IntegrityError:
                continue  # Another one made the row in between: look at it.
            return 1, None
        if held.session_id is not None and held.expires_at > now:
            raise Busy
        unchanged = Q(fencing=held.fencing, session=held.session_id, expires_at=held.expires_at)
        taken = Lease.objects.filter(unchanged, stream_id=stream).update(
            session_id=session, node_id=node, fencing=held.fencing + 1, expires_at=now + TTL
        )
        if taken:
            return held.fencing + 1, held.session_id
    raise Busy


def is_held(*, stream: int, now: datetime) -> bool:
    return Lease.objects.filter(stream_id=stream, session__isnull=False, expires_at__gt=now).exists()


def release(*, session: uuid.UUID) -> None:
    """Frees the lease if the session still holds it. The row stays, for its fencing number."""
    Lease.objects.filter(session_id=session).update(session_id=None, node_id=None)


def renew(*, node: int, held: Collection[tuple[uuid.UUID, int]], now: datetime) -> set[uuid.UUID]:
    """Renews the leases (session, fencing) of one node in one statement; returns the sessions that lost theirs.

    A lease that expired but that nobody took is renewed as well: then it was the database that was away.
    """
    if not held:
        return set()
    sessions = {session for session, _ in held}
    mine = Lease.objects.filter(node_id=node, session_id__in=sessions)
    if mine.update(expires_at=now + TTL) == len(sessions):
        return set()
    kept = set(mine.values_list("session_id", "fencing"))
    return {session for session, fencing in held if (session, fencing) not in kept}
