"""Who may publish. Each function returns what was granted or raises `Refused` with the reason. `authorization` has the
same of connecting, `playback` of playing.

`check_publish` only reads, so that no flood of bad keys reaches the one thread that writes; `admit_publish` checks
again and writes, in one transaction: the session, its lease, and the key's last use.

Publishers that wait together are admitted in one transaction (`admit_group`), a statement for all in place of one for
each. Only what is ordinary is decided so: a key, or an open application's stream that is there, whose lease is free.
All else (takeovers, tests, log-ins, a service that is to be asked, a stream that is to be made) is `DecideAlone`, and
so is each of a group of which one can't be written."""

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from django.db import DatabaseError, DataError, IntegrityError, transaction
from django.db.models import QuerySet

from ingest import clean
from ingest.contracts import Labels, PublishLimits
from ingest.contracts.connection import RecordOrder
from ingest.models import Application, EncoderLogin, Lease, Session, Stream, StreamKey, names
from ingest.services import authorization, health_rules, leases, nodes, pulls, recordings, sessions
from ingest.services.authorization import Access, Peer, PublishRequest, Target, refuse
from ingest.services.callback import Question
from ingest.services.refusals import Refused
from ingest.services.sql import insert_each

logger = logging.getLogger(__name__)


class NotYet(Exception):  # noqa: N818 - an answer, not an error.
    """The stream's publisher may be gone: ask again at `at`."""

    def __init__(self, at: datetime) -> None:
        super().__init__()
        self.at = at


@dataclass(frozen=True, slots=True)
class Grant:
    session: uuid.UUID
    app: str
    name: str
    labels: Labels
    limits: PublishLimits
    record: RecordOrder | None
    fencing: int
    lost: Session | None = None
    """The session that was ended for it, since its node had stopped renewing its lease."""
    replaced: leases.Former | None = None
    """The session that it took the stream over from. Its node reads so in the database, and ends it."""
    pull: int | None = None
    """The PullSource that it is fetched of,"""
    encoder: str = ""
    """and what stands in its encoder's place then."""
    test_key: int | None = None
    """Of a test-only key: its number. Then the stream itself is as it was."""

    @property
    def path(self) -> str:
        """Where the server keeps what is published."""
        return f"{self.app}/{self.name if self.test_key is None else names.test_live_name(self.name, self.test_key)}"


@dataclass(frozen=True, slots=True)
class Ask:
    """A publisher that asks to be let in. `session`: the id that its session is to have."""

    session: uuid.UUID
    request: PublishRequest
    peer: Peer


def check_publish(
    ask: Ask, *, now: datetime, asked_at: datetime, knowledge: leases.Knowledge | None = None
) -> Question:
    """All that can be refused without writing; what another service is still to be asked, if the application wants it.
    `asked_at`: when it asked for the first time.

    Raises NotYet for a stream that its publisher may have left. `asked_at` and NotYet's time are by the clock that
    nodes share, which `knowledge` goes by; None: nothing is known, and that shows `now` as the node's own.
    """
    address = ask.peer.address
    target = authorization.find_target(ask.request, address, now)
    if target.stream is not None and not target.is_test:
        with _unless_busy(target.stream, target.key):
            claim = _claim(target, target.stream, address, asked_at)
            leases.check(stream=target.stream.pk, claim=claim, knowledge=knowledge or leases.Knowledge(now))
    return Question("publish", target.application, target.name, target.stream, target.key, target.login)


def _claim(target: Target, stream: Stream, address: str, asked_at: datetime) -> leases.Claim:
    key = target.key.pk if target.key else None
    login = target.login.pk if target.login else None
    policy = stream.takeover if target.pull is None else Stream.Takeover.REJECT  # What is pulled displaces nobody.
    return leases.Claim(key, login, clean.text(address, 64), policy, asked_at)


@contextmanager
def _unless_busy(stream: Stream, key: StreamKey | None) -> Iterator[None]:
    try:
        yield
    except leases.Busy as busy:
        if busy.again is not None:
            raise NotYet(busy.again) from None
        refuse("publish", "busy", stream=stream, key=key)


def admit_publish(
    ask: Ask,
    *,
    now: datetime,
    asked_at: datetime,
    knowledge: leases.Knowledge | None = None,
    in_time: Callable[[], None] = lambda: None,
) -> Grant:
    """Makes the session and takes the stream's lease, both or neither. Takes times and raises NotYet as
    `check_publish`. `in_time` is called before the commit: if it raises, nothing is written."""
    session, peer, knowledge = ask.session, ask.peer, knowledge or leases.Knowledge(now)
    with transaction.atomic():
        target = authorization.find_target(ask.request, peer.address, now)
        stream, key = target.stream, target.key
        if stream is None:
            stream, _ = Stream.objects.get_or_create(application=target.application, name=target.name)
        if target.application.publish_policy == Application.PublishPolicy.OPEN and not target.is_test:
            sessions.join_streams([stream])
        node = nodes.row(name=peer.node)
        _session(ask, target, stream, node.pk, now).save(force_insert=True)
        if key is not None and target.is_test:
            grant = _admit_key_test(session, target, stream, key, now)
            in_time()
            return grant
        with _unless_busy(stream, key):
            claim = _claim(target, stream, peer.address, asked_at)
            fencing, former = leases.take(
                stream=stream.pk, session=session, node=node.pk, claim=claim, knowledge=knowledge
            )
        lost = former.session if former is not None and former.why == "expired" else None
        replaced = former if lost is None else None
        if replaced is not None:
            after = f" after {replaced.silent_s:.1f} s of silence" if replaced.silent_s is not None else ""
            note = f"Taken over from {peer.address}{after}."
            sessions.mark_replaced(session=replaced.session.pk, note=note)
        if key is not None:
            StreamKey.objects.filter(pk=key.pk).update(last_used_at=now)
        if target.login is not None:
            EncoderLogin.objects.filter(pk=target.login.pk).update(last_used_at=now)
        record = recordings.order(application=target.application, stream=stream, publish_type=ask.request.publish_type)
        in_time()
    grant = _granted(session, target, stream, fencing, HealthBasis.of({stream.pk: session}, now), record)
    ended = _end_lost(lost, knowledge.now) if lost is not None else None
    return replace(grant, lost=ended, replaced=replaced)


def _session(ask: Ask, target: Target, stream: Stream, node: int, now: datetime) -> Session:
    """Its row, which is still to be written."""
    return Session(
        pk=ask.session,
        kind=Session.Kind.PUBLISH,
        app=target.application.name,
        name=stream.name,
        stream=stream,
        key=target.key,
        login=target.login,
        node_id=node,
        protocol=ask.peer.protocol,
        channel=ask.peer.channel,
        address=clean.text(ask.peer.address, 64),
        encoder=clean.text(_encoder(target) or ask.peer.encoder, 255),
        started_at=now,
        is_test=target.is_test,
        is_pull=target.pull is not None,
    )


def _encoder(target: Target) -> str:
    return pulls.encoder_of(target.pull) if target.pull is not None else ""


def _admit_key_test(session: uuid.UUID, target: Target, stream: Stream, key: StreamKey, now: datetime) -> Grant:
    """A key test takes no lease and is never recorded; a newer one of its key takes the place of an older one."""
    others = Session.objects.filter(key=key, is_test=True, ended_at__isnull=True).exclude(pk=session)
    for former in others.values_list("pk", flat=True):
        sessions.mark_replaced(session=former, note="Another test with this key began.")
    StreamKey.objects.filter(pk=key.pk).update(last_used_at=now)
    return replace(_granted(session, target, stream, 0, HealthBasis.of({stream.pk: session}, now)), test_key=key.pk)


def _end_lost(former: Session, at: datetime) -> Session | None:
    """Once the admission is written: this waits for whoever writes what others are told of the stream, while the lease
    is not to be held. What fails here is left to the sweep of lost nodes.
    """
    try:
        ended = sessions.end(session=former.pk, reason="node_lost", description="Its node stopped renewing it.", at=at)
    except DatabaseError as error:
        logger.warning("The end of the lost session %s was not written: %s", former.pk, type(error).__name__)
        return None
    return Session.objects.select_related("node").get(pk=former.pk) if ended else None


@dataclass(frozen=True, slots=True)
class HealthBasis:
    """What the health of streams is evaluated by, besides what their publishers send: by the streams' ids."""

    rules: Mapping[int, health_rules.Rules]
    publishes: Mapping[int, list[float]]

    @classmethod
    def of(cls, sessions: Mapping[int, uuid.UUID], now: datetime) -> Self:
        """`sessions`: those that begin, by stream."""
        return cls(
            health_rules.rules(streams=sessions),
            health_rules.recent_publishes(streams=sessions, besides=sessions.values(), now=now),
        )


def _granted(
    session: uuid.UUID,
    target: Target,
    stream: Stream,
    fencing: int,
    basis: HealthBasis,
    record: RecordOrder | None = None,
) -> Grant:
    key = target.key
    return Grant(
        session=session,
        app=target.application.name,
        name=stream.name,
        labels={"stream": stream.pk, "key": key.pk if key else None},
        limits={
            "max_kbps": key.max_kbps if key else None,
            "over_limit": "close" if key and key.over_limit == StreamKey.OverLimit.CLOSE else "warn",
            "idle_timeout_s": float(stream.idle_timeout_s),
            "first_media_timeout_s": float(stream.first_media_timeout_s),
            "target_kbps": stream.target_kbps,
            "expect_audio": stream.expect_audio,
            "expect_video": stream.expect_video,
            "health": basis.rules.get(stream.pk, {}),
            "publishes": basis.publishes.get(stream.pk, []),
        },
        record=record,
        fencing=fencing,
        pull=target.pull.pk if target.pull is not None else None,
        encoder=_encoder(target),
    )


class DecideAlone(Exception):  # noqa: N818 - an answer, not an error.
    """It is to be decided by itself."""


@dataclass(frozen=True, slots=True)
class _Ordinary:
    """One that may be admitted with others."""

    ask: Ask
    target: Target
    stream: Stream


def check_group(asks: Sequence[Ask], *, now: datetime) -> list[Exception | None]:
    """Only reads, so that no flood of bad keys reaches the thread that writes: Refused with the reason, DecideAlone,
    or None for one that `admit_group` is to be asked about."""
    access = authorization.read_requests(ask.request for ask in asks)
    found = (_check(ask, access, now) for ask in asks)
    return [one if isinstance(one, Exception) else None for one in found]


def _check(ask: Ask, access: Access, now: datetime) -> _Ordinary | Exception:
    try:
        target = authorization.find_target(ask.request, ask.peer.address, now, access)
    except Refused as refused:
        return refused
    if target.stream is None or target.login is not None or target.is_test or target.application.asks("publish"):
        return DecideAlone()
    return _Ordinary(ask, target, target.stream)


def admit_group(
    asks: Sequence[Ask],
    *,
    now: datetime,
    knowledge: leases.Knowledge,
    in_time: Callable[[], None],
) -> list[Grant | Exception]:
    """Checks again, and makes the sessions and takes the leases, all in one transaction: of each the grant, or Refused
    or DecideAlone. `now`, `knowledge`: as `check_publish` has them.

    `in_time` is called before the commit: if it raises, nothing is written.
    """
    answers: dict[uuid.UUID, Grant | Exception] = {}
    try:
        with transaction.atomic():
            access = authorization.read_requests(ask.request for ask in asks)
            ordinary: dict[int, _Ordinary] = {}
            for ask in asks:
                checked = _check(ask, access, now)
                if isinstance(checked, Exception) or checked.stream.pk in ordinary:
                    answers[ask.session] = checked if isinstance(checked, Exception) else DecideAlone()
                else:
                    ordinary[checked.stream.pk] = checked
            there = {name: nodes.row(name=name).pk for name in {one.ask.peer.node for one in ordinary.values()}}
            fencing = _take_leases(ordinary, there, knowledge)
            admitted = {stream: one for stream, one in ordinary.items() if stream in fencing}
            _begin_sessions(list(admitted.values()), there, now)
            basis = HealthBasis.of({stream: one.ask.session for stream, one in admitted.items()}, now)
            for stream, one in admitted.items():
                kind = one.ask.request.publish_type
                record = recordings.order(application=one.target.application, stream=one.stream, publish_type=kind)
                grant = _granted(one.ask.session, one.target, one.stream, fencing[stream], basis, record)
                answers[one.ask.session] = grant
            in_time()
    except (IntegrityError, DataError):
        return [answer if isinstance(answer := answers.get(ask.session), Refused) else DecideAlone() for ask in asks]
    return [answers.get(ask.session, DecideAlone()) for ask in asks]


def _take_leases(
    ordinary: Mapping[int, _Ordinary], nodes_there: Mapping[str, int], knowledge: leases.Knowledge
) -> dict[int, int]:
    """The fencing number of each stream's lease that was free, and is taken."""
    if not ordinary:
        return {}
    expires_at = knowledge.now + leases.TTL
    wanted = {
        stream: Lease(
            stream_id=stream,
            session_id=one.ask.session,
            node_id=nodes_there[one.ask.peer.node],
            expires_at=expires_at,
        )
        for stream, one in ordinary.items()
    }
    return leases.take_free(wanted, knowledge.standing)


def _begin_sessions(admitted: Sequence[_Ordinary], nodes_there: Mapping[str, int], now: datetime) -> None:
    insert_each([_session(one.ask, one.target, one.stream, nodes_there[one.ask.peer.node], now) for one in admitted])
    keys = {one.target.key.pk for one in admitted if one.target.key is not None}
    if keys:
        StreamKey.objects.filter(pk__in=_in_order(StreamKey.objects.filter(pk__in=keys))).update(last_used_at=now)
    opened = [one.stream for one in admitted if one.target.application.publish_policy == Application.PublishPolicy.OPEN]
    sessions.join_streams(opened)


def _in_order(rows: "QuerySet[StreamKey]") -> "QuerySet[StreamKey, Any]":
    """Held one after the other: of two that write the same keys, none waits for the other and is waited for."""
    return rows.order_by("pk").select_for_update(no_key=True).values("pk")
