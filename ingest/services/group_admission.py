"""Admissions of publishers that wait together, in one transaction: a statement for all in place of one for each.

Only what is ordinary is decided so: a key, or an open application's stream that is there, whose lease is free. All else
(takeovers, tests, log-ins, a service that is to be asked, a stream that is to be made) is `Apart`: `admission` decides
it by itself. So is each of a group of which one can't be written.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import DataError, IntegrityError, transaction
from django.db.models import QuerySet

from ingest import clean
from ingest.models import Application, Lease, Session, Stream, StreamKey
from ingest.services import leases, nodes, publishtarget, recordings, sessions
from ingest.services.access import Access
from ingest.services.admission import Grant, Judged, granted
from ingest.services.publishrequest import Peer, PublishRequest
from ingest.services.publishtarget import Target
from ingest.services.refusals import Refused
from ingest.services.rows import insert_each


class Apart(Exception):  # noqa: N818 - an answer, not an error.
    """It is to be decided by itself."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A publisher that asks to be let in. `session`: the id that its session is to have."""

    session: uuid.UUID
    request: PublishRequest
    peer: Peer


@dataclass(frozen=True, slots=True)
class _Ordinary:
    """One that may be admitted with others."""

    ask: Ask
    target: Target
    stream: Stream
    key: StreamKey | None


def check(asks: Sequence[Ask], *, now: datetime) -> list[Exception | None]:
    """Only reads, so that no flood of bad keys reaches the thread that writes: Refused with the reason, or Apart, or
    None for one that `admit` is to be asked about."""
    access = publishtarget.named_by(ask.request for ask in asks)
    found = (_look(ask, access, now) for ask in asks)
    return [one if isinstance(one, Exception) else None for one in found]


def _look(ask: Ask, access: Access, now: datetime) -> _Ordinary | Exception:
    try:
        target = publishtarget.find(ask.request, ask.peer.address, now, access)
    except Refused as refused:
        return refused
    if target.stream is None or target.login is not None or target.is_trial or target.application.asks("publish"):
        return Apart()
    return _Ordinary(ask, target, target.stream, target.key)


def admit(
    asks: Sequence[Ask],
    *,
    now: datetime,
    shared_now: datetime,
    standing: Callable[[uuid.UUID], leases.Standing],
    in_time: Callable[[], None],
) -> list[Grant | Exception]:
    """Checks again, and makes the sessions and takes the leases, all in one transaction: of each the grant, or Refused
    or Apart. `now`, `shared_now`, `standing`: as `admission.check_publish` has them.

    `in_time` is called before the commit: if it raises, nothing is written.
    """
    answers: dict[uuid.UUID, Grant | Exception] = {}
    try:
        with transaction.atomic():
            access = publishtarget.named_by(ask.request for ask in asks)
            ordinary: dict[int, _Ordinary] = {}
            for ask in asks:
                found = _look(ask, access, now)
                if isinstance(found, Exception) or found.stream.pk in ordinary:
                    answers[ask.session] = found if isinstance(found, Exception) else Apart()
                else:
                    ordinary[found.stream.pk] = found
            there = {name: nodes.row(name=name).pk for name in {one.ask.peer.node for one in ordinary.values()}}
            fencing = _take(ordinary, there, shared_now, standing)
            admitted = {stream: one for stream, one in ordinary.items() if stream in fencing}
            _begin(list(admitted.values()), there, now)
            judged = Judged.of({stream: one.ask.session for stream, one in admitted.items()}, now)
            for stream, one in admitted.items():
                answers[one.ask.session] = _granted(one, fencing[stream], judged)
            in_time()
    except (IntegrityError, DataError):
        return [answer if isinstance(answer := answers.get(ask.session), Refused) else Apart() for ask in asks]
    return [answers.get(ask.session, Apart()) for ask in asks]


def _take(
    ordinary: Mapping[int, _Ordinary],
    nodes_there: Mapping[str, int],
    shared_now: datetime,
    standing: Callable[[uuid.UUID], leases.Standing],
) -> dict[int, int]:
    """The fencing number of each stream's lease that was free, and is taken."""
    if not ordinary:
        return {}
    expires_at = shared_now + leases.TTL
    wanted = {
        stream: Lease(
            stream_id=stream,
            session_id=one.ask.session,
            node_id=nodes_there[one.ask.peer.node],
            expires_at=expires_at,
        )
        for stream, one in ordinary.items()
    }
    return leases.take_free(wanted, standing)


def _begin(admitted: Sequence[_Ordinary], nodes_there: Mapping[str, int], now: datetime) -> None:
    """Their sessions, and when their keys were used last."""
    insert_each(
        [
            Session(
                pk=one.ask.session,
                kind=Session.Kind.PUBLISH,
                app=one.target.application.name,
                name=one.stream.name,
                stream=one.stream,
                key=one.key,
                node_id=nodes_there[one.ask.peer.node],
                channel=one.ask.peer.channel,
                address=clean.text(one.ask.peer.address, 64),
                encoder=clean.text(one.ask.peer.encoder, 255),
                started_at=now,
            )
            for one in admitted
        ]
    )
    keys = {one.key.pk for one in admitted if one.key is not None}
    if keys:
        StreamKey.objects.filter(pk__in=_in_order(StreamKey.objects.filter(pk__in=keys))).update(last_used_at=now)
    opened = [one.stream for one in admitted if one.target.application.publish_policy == Application.PublishPolicy.OPEN]
    sessions.join_streams(opened)


def _in_order(rows: "QuerySet[StreamKey]") -> "QuerySet[StreamKey, Any]":
    """Held one after the other: of two that write the same keys, none waits for the other and is waited for."""
    return rows.order_by("pk").select_for_update(no_key=True).values("pk")


def _granted(one: _Ordinary, fencing: int, judged: Judged) -> Grant:
    application = one.target.application
    grant = granted(one.ask.session, application, one.stream, one.key, fencing, judged)
    kind = one.ask.request.publish_type
    return replace(grant, record=recordings.order(application=application, stream=one.stream, publish_type=kind))
