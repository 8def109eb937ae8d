"""The publisher's lease: at most one live publisher per stream over all nodes, and none for ever after a crash."""

import uuid
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Literal

from django.db import IntegrityError, transaction
from django.db.models import Q

from ingest.models import Lease

TTL = timedelta(seconds=10)
"""How long a lease lives without renewal."""

RENEW_S = 3.0
"""How often a node renews all of its leases, in one statement."""

ATTEMPTS = 3


Standing = Literal["alive", "ended", "unknown"]
"""What a process knows of a session: that it is live here, that it ended here, or nothing."""


def unknown(session: uuid.UUID) -> Standing:
    """Knows nothing of any session: then a lease is what its row says."""
    return "unknown"


class Busy(Exception):  # noqa: N818 - it reads as what it says.
    """Another session holds the lease."""


def take(
    *,
    stream: int,
    session: uuid.UUID,
    node: int,
    now: datetime,
    standing: Callable[[uuid.UUID], Standing] = unknown,
) -> tuple[int, uuid.UUID | None]:
    """Takes a free or expired lease; returns its fencing number and the session that lost it by expiry, if any.

    `standing` tells of a session that ended, but whose end is still being written, that it holds nothing any more; and
    of one that lives, that it was the database's absence that let its lease expire.
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
        known = _standing(held, standing)
        if _holds(held, known, now):
            raise Busy
        unchanged = Q(fencing=held.fencing, session=held.session_id, expires_at=held.expires_at)
        taken = Lease.objects.filter(unchanged, stream_id=stream).update(
            session_id=session, node_id=node, fencing=held.fencing + 1, expires_at=now + TTL
        )
        if taken:
            return held.fencing + 1, None if known == "ended" else held.session_id
    raise Busy


def is_held(*, stream: int, now: datetime, standing: Callable[[uuid.UUID], Standing] = unknown) -> bool:
    held = Lease.objects.filter(stream_id=stream).first()
    return held is not None and _holds(held, _standing(held, standing), now)


def _standing(lease: Lease, standing: Callable[[uuid.UUID], Standing]) -> Standing:
    return "ended" if lease.session_id is None else standing(lease.session_id)


def _holds(lease: Lease, known: Standing, now: datetime) -> bool:
    return known == "alive" or (known == "unknown" and lease.expires_at > now)


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
