"""The publisher's lease: at most one live publisher per stream over all nodes, and none for ever after a crash.

A lease that is held may be taken over: by the same key once its holder has been silent for SILENCE, and from a holder
that is live where the stream's policy says so. An encoder that lost its connection comes back before that, and takes a
refusal as final: so whoever shows the holder's key is told when to ask again, until the holder has proved to be live.

While the database is away no lease is renewed, and all of them expire. So one that has expired says that its node is
gone only to a process that could write for long enough since: until then, whoever asks is told to ask again.

All times are by the clock that nodes share (ingest.services.database).
"""

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.db import IntegrityError, connection, transaction
from django.db.models import Case, DateTimeField, Expression, F, Q, Value, When
from django.db.models.functions import Cast

from ingest.models import Lease, Session, Stream
from ingest.services.sql import insert_each, update_each

TTL = timedelta(seconds=10)
"""How long a lease lives without renewal."""

RENEW_S = 3.0
"""How often a node renews all of its leases, in one statement."""

SILENCE = timedelta(seconds=3)
"""Of a publisher: then the same key takes its stream over."""

REPORTED = timedelta(seconds=3.5)
"""Within it a node that lives has renewed its leases, and has told which of its publishers are silent."""

SLACK = timedelta(seconds=1.5)
"""Added to a lease's life where somebody waits for a process to know whether it expired for want of the database."""

ATTEMPTS = 3


Standing = datetime | Literal["alive", "ended", "unknown"]
"""What a process knows of a session: that it is live here, or silent since then; that it ended here; or nothing."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the process that wants a lease knows."""

    now: datetime
    standing: Callable[[uuid.UUID], Standing] = lambda session: "unknown"
    """Tells of a session that ended, but whose end is still being written, that it holds nothing any more; of one that
    lives, that it was the database's absence that let its lease expire; and of one that is silent, since when, however
    long a busy database takes to be told. Without it a lease is what its row says."""
    reached_since: datetime | None = None
    """Since when the process could write to the database without a break."""


@dataclass(frozen=True, slots=True)
class Claim:
    key: int | None
    """None: by a log-in, or the application is open."""
    login: int | None
    address: str
    policy: str
    """One of Stream.Takeover."""
    asked_at: datetime
    """When it asked first."""


Why = Literal["free", "expired", "silent", "replace", "same_address"]


@dataclass(frozen=True, slots=True)
class Former:
    """Whose a lease was until now, and why it was taken."""

    session: Session
    why: Why
    silent_since: datetime | None
    silent_s: float | None
    """How long no media had come from it; None: it was live."""


class Busy(Exception):  # noqa: N818 - it reads as what it says.
    """Another session holds the lease. `again`: when that may have changed, for one who shows the same key."""

    def __init__(self, again: datetime | None = None) -> None:
        super().__init__()
        self.again = again


def take(
    *, stream: int, session: uuid.UUID, node: int, claim: Claim, knowledge: Knowledge
) -> tuple[int, Former | None]:
    """Takes a lease that is free, has expired or may be taken over. Returns its fencing number, and whose it was.

    Raises Busy. The session's row must exist already, in the same transaction.
    """
    expires_at = knowledge.now + TTL
    for _ in range(ATTEMPTS):
        held = _held(stream)
        if held is None:
            try:
                with transaction.atomic():
                    Lease.objects.create(stream_id=stream, session_id=session, node_id=node, expires_at=expires_at)
            except IntegrityError:
                continue  # Another one made the row in between: look at it.
            return 1, None
        known = _known(held, knowledge.standing)
        why = _evaluate(held, known, claim, knowledge)
        unchanged = Q(
            fencing=held.fencing, session=held.session_id, expires_at=held.expires_at, silent_since=held.silent_since
        )
        taken = Lease.objects.filter(unchanged, stream_id=stream).update(
            session_id=session, node_id=node, fencing=held.fencing + 1, expires_at=expires_at, silent_since=None
        )
        if taken:
            if held.session is None or why == "free":
                return held.fencing + 1, None
            since = _silent_since(held, known)
            silent_s = (knowledge.now - since).total_seconds() if since is not None else None
            return held.fencing + 1, Former(held.session, why, since, silent_s)
    raise Busy


def take_free(wanted: Mapping[int, Lease], standing: Callable[[uuid.UUID], Standing]) -> dict[int, int]:
    """Takes those of the leases that are free, by streams, each for its session; within a transaction. Returns their
    fencing numbers. What somebody holds, or is just taking or freeing, is left to `take`.
    """
    held = Lease.objects.select_related("session").filter(stream_id__in=wanted).order_by("pk")
    rows = {row.stream_id: row for row in held.select_for_update(of=("self",), skip_locked=True)}
    free = [row for row in rows.values() if row.session is None or standing(row.session.pk) == "ended"]
    for row in free:
        lease = wanted[row.stream_id]
        row.session_id, row.node_id, row.expires_at = lease.session_id, lease.node_id, lease.expires_at
        row.fencing, row.silent_since = row.fencing + 1, None
    update_each(free, ["session", "node", "expires_at", "fencing", "silent_since"])
    taken = {row.stream_id: row.fencing for row in free}
    others = wanted.keys() - rows.keys()
    there = set(Lease.objects.filter(stream_id__in=others).values_list("stream_id", flat=True)) if others else set()
    first = [wanted[stream] for stream in others - there]
    if first:  # Another may make one before us.
        insert_each(sorted(first, key=lambda lease: lease.pk), but_those_there=True)
        ours = Lease.objects.filter(session_id__in=[lease.session_id for lease in first])
        taken |= dict(ours.values_list("stream_id", "fencing"))
    return taken


def check(*, stream: int, claim: Claim, knowledge: Knowledge) -> None:
    """Raises Busy if `take` would."""
    held = _held(stream)
    if held is not None:
        _evaluate(held, _known(held, knowledge.standing), claim, knowledge)


def _held(stream: int) -> Lease | None:
    return Lease.objects.select_related("session").filter(stream_id=stream).first()


def _known(held: Lease, standing: Callable[[uuid.UUID], Standing]) -> Standing:
    """Of its holder; "ended" if there is none."""
    return "ended" if held.session is None else standing(held.session.pk)


def _silent_since(held: Lease, known: Standing) -> datetime | None:
    """Of its holder: by its own process, if that is this one, else as that has told."""
    if isinstance(known, datetime):
        return known
    return held.silent_since if known == "unknown" else None


def _evaluate(held: Lease, known: Standing, claim: Claim, knowledge: Knowledge) -> Why:
    """Why the lease may be taken; raises Busy if it may not."""
    holder, now, reached_since = held.session, knowledge.now, knowledge.reached_since
    if holder is None or known == "ended":
        return "free"
    doubtful_until = None
    if known == "unknown" and held.expires_at <= now:
        if reached_since is None or reached_since + TTL <= now:
            return "expired"
        doubtful_until = reached_since + TTL
    same_key = (holder.key_id, holder.login_id) == (claim.key, claim.login)
    silent_since = _silent_since(held, known)
    silent = silent_since is not None and silent_since <= now - SILENCE
    if same_key and silent and doubtful_until is None:  # What a node told before it lost the database may be over.
        return "silent"
    if claim.policy == Stream.Takeover.REPLACE:
        return "replace"
    if claim.policy == Stream.Takeover.SAME_ADDRESS and holder.address == claim.address:
        return "same_address"
    if doubtful_until is not None:
        raise Busy(doubtful_until if doubtful_until <= claim.asked_at + TTL + SLACK else None)
    raise Busy(_again(held, known, claim, now) if same_key else None)


def _again(held: Lease, known: Standing, claim: Claim, now: datetime) -> datetime | None:
    """When to look at the lease again. Nobody waits for longer than a lease lives."""
    silent_since = _silent_since(held, known)
    if silent_since is not None:
        at = silent_since + SILENCE
    elif now < claim.asked_at + REPORTED:
        at = claim.asked_at + REPORTED
    elif known == "unknown" and held.expires_at <= claim.asked_at + TTL:
        # Not renewed since: its node is gone, and it will expire.
        at = held.expires_at
    else:
        return None
    return at if now < at <= claim.asked_at + TTL else None


def hold(*, sessions: Collection[uuid.UUID]) -> None:
    """Nobody else takes the leases of these sessions, or renews them, before the transaction has ended."""
    if sessions:
        list(Lease.objects.select_for_update().filter(session_id__in=sessions).order_by("pk").values_list("pk"))


def release(*, sessions: Collection[uuid.UUID]) -> None:
    """Frees the leases that these sessions still hold. The rows stay, for their fencing numbers."""
    Lease.objects.filter(session_id__in=sessions).update(session_id=None, node_id=None, silent_since=None)


def give_back(*, session: uuid.UUID, former: Session, silent_since: datetime | None, now: datetime) -> bool:
    """Undoes that the session took the lease from its former holder, number and all; False: it doesn't hold it."""
    mine = Lease.objects.filter(session_id=session)
    changed = mine.update(
        session_id=former.pk,
        node_id=former.node_id,
        fencing=F("fencing") - 1,
        expires_at=now + TTL,
        silent_since=silent_since,
    )
    return bool(changed)


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


def mark_silent(*, since: Mapping[uuid.UUID, datetime]) -> None:
    """Writes since when each of these sessions has sent no media, in one statement."""
    if not since:
        return
    when = [When(session_id=session, then=Value(at)) for session, at in since.items()]
    value: Expression = Case(*when, output_field=DateTimeField())
    if connection.features.requires_casted_case_in_updates:
        value = Cast(value, DateTimeField())
    Lease.objects.filter(session_id__in=list(since)).update(silent_since=value)


def clear_silent(*, sessions: Collection[uuid.UUID]) -> None:
    if sessions:
        Lease.objects.filter(session_id__in=list(sessions)).update(silent_since=None)


def clear_silent_of(*, node: int) -> None:
    """A node that starts knows of no silence yet: it tells of each one within two seconds."""
    Lease.objects.filter(node_id=node, silent_since__isnull=False).update(silent_since=None)
