"""Who may publish. Each function returns what was granted or raises `Refused` with the reason. `credentials` has the
same of connecting, `playable` of playing.

`check_publish` only reads, so that no flood of bad keys reaches the one thread that writes; `admit_publish` checks
again and writes, in one transaction: the session, its lease, and the key's last use.
"""

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from django.db import DatabaseError, transaction

from ingest import clean, trials
from ingest.contracts import Labels, PublishLimits
from ingest.contracts.recording import RecordOrder
from ingest.models import Application, EncoderLogin, Session, Stream, StreamKey
from ingest.services import judging, leases, nodes, publishtarget, recordings, sessions
from ingest.services.callback import Question, question
from ingest.services.credentials import refuse
from ingest.services.publishrequest import Peer, PublishRequest
from ingest.services.publishtarget import Target

logger = logging.getLogger(__name__)


class NotYet(Exception):  # noqa: N818 - an answer, not an error.
    """The stream's publisher may be gone: ask again at `at`."""

    def __init__(self, at: datetime) -> None:
        super().__init__()
        self.at = at


@dataclass(frozen=True, slots=True)
class Replaced:
    """A session whose stream another took over. Its node reads so in the database, and ends it."""

    session: uuid.UUID
    address: str
    channel: str
    why: leases.Why
    silent_s: float | None
    """How long no media had come from it; None: it was live."""
    silent_since: datetime | None


@dataclass(frozen=True, slots=True)
class Grant:
    """An accepted publish."""

    session: uuid.UUID
    app: str
    name: str
    labels: Labels
    limits: PublishLimits
    record: RecordOrder | None
    fencing: int
    lost: Session | None = None
    """The session that was ended for it, since its node had stopped renewing its lease."""
    replaced: Replaced | None = None
    """The session that it took the stream over from."""
    trial: int | None = None
    """Of a test-only key: its number. Then the stream itself is as it was."""

    @property
    def path(self) -> str:
        """Where the server keeps what is published."""
        return f"{self.app}/{self.name if self.trial is None else trials.live_name(self.name, self.trial)}"


def check_publish(
    *,
    request: PublishRequest,
    address: str,
    now: datetime,
    asked_at: datetime,
    standing: Callable[[uuid.UUID], leases.Standing] = leases.unknown,
    reached_since: datetime | None = None,
    shared_now: datetime | None = None,
) -> Question | None:
    """All that can be refused without writing; what another service is still to be asked. `asked_at`: when it was asked
    for the first time.

    Raises NotYet for a stream that its publisher may have left. `standing`, `reached_since`: as in `leases.take`. These
    times and NotYet's are by the clock that nodes share, which shows `shared_now`; None: as `now`, the node's own.
    """
    target = publishtarget.find(request, address, now)
    if target.stream is not None and not target.is_trial:
        with _unless_busy(target.stream, target.key):
            claim = _claim(target, target.stream, address, asked_at)
            known: dict[str, Any] = {"standing": standing, "reached_since": reached_since}
            leases.check(stream=target.stream.pk, claim=claim, now=shared_now or now, **known)
    about: dict[str, Any] = {"stream": target.stream, "key": target.key, "login": target.login}
    return question("publish", target.application, name=target.name, **about)


def _claim(target: Target, stream: Stream, address: str, asked_at: datetime) -> leases.Claim:
    key = target.key.pk if target.key else None
    login = target.login.pk if target.login else None
    return leases.Claim(key, login, clean.text(address, 64), stream.takeover, asked_at)


@contextmanager
def _unless_busy(stream: Stream, key: StreamKey | None) -> Iterator[None]:
    """Says Busy in words of admission."""
    try:
        yield
    except leases.Busy as busy:
        if busy.again is not None:
            raise NotYet(busy.again) from None
        refuse("publish", "busy", stream=stream, key=key)


def admit_publish(
    *,
    session: uuid.UUID,
    request: PublishRequest,
    peer: Peer,
    now: datetime,
    asked_at: datetime,
    standing: Callable[[uuid.UUID], leases.Standing] = leases.unknown,
    reached_since: datetime | None = None,
    shared_now: datetime | None = None,
    in_time: Callable[[], None] = lambda: None,
) -> Grant:
    """Makes the session and takes the stream's lease, both or neither. Takes times and raises NotYet as
    `check_publish`. `in_time` is called before the commit: if it raises, nothing is written."""
    with transaction.atomic():
        target = publishtarget.find(request, peer.address, now)
        stream, key = target.stream, target.key
        if stream is None:
            stream, _ = Stream.objects.get_or_create(application=target.application, name=target.name)
        if target.application.publish_policy == Application.PublishPolicy.OPEN and not target.is_trial:
            sessions.join_streams([stream])
        node = nodes.row(name=peer.node)
        Session.objects.create(
            pk=session,
            kind=Session.Kind.PUBLISH,
            app=target.application.name,
            name=stream.name,
            stream=stream,
            key=key,
            login=target.login,
            node=node,
            channel=peer.channel,
            address=clean.text(peer.address, 64),
            encoder=clean.text(peer.encoder, 255),
            started_at=now,
            is_test=target.is_trial,
        )
        if key is not None and target.is_trial:
            grant = _try_out(session, target.application, stream, key, now)
            in_time()
            return grant
        with _unless_busy(stream, key):
            claim = _claim(target, stream, peer.address, asked_at)
            taken = leases.take(
                stream=stream.pk,
                session=session,
                node=node.pk,
                claim=claim,
                now=shared_now or now,
                standing=standing,
                reached_since=reached_since,
            )
        lost, replaced = _former(taken, peer, shared_now or now)
        if key is not None:
            StreamKey.objects.filter(pk=key.pk).update(last_used_at=now)
        if target.login is not None:
            EncoderLogin.objects.filter(pk=target.login.pk).update(last_used_at=now)
        record = recordings.order(application=target.application, stream=stream, publish_type=request.publish_type)
        in_time()
    grant = granted(session, target.application, stream, key, taken.fencing, Judged.of({stream.pk: session}, now))
    ended = _end_lost(lost, shared_now or now) if lost is not None else None
    return replace(grant, lost=ended, replaced=replaced, record=record)


def _try_out(session: uuid.UUID, application: Application, stream: Stream, key: StreamKey, now: datetime) -> Grant:
    """A trial takes no lease and is never recorded; a newer one of its key takes the place of an older one."""
    others = Session.objects.filter(key=key, is_test=True, ended_at__isnull=True).exclude(pk=session)
    for former in others.values_list("pk", flat=True):
        sessions.mark_replaced(session=former, note="Another test with this key began.")
    StreamKey.objects.filter(pk=key.pk).update(last_used_at=now)
    judged = Judged.of({stream.pk: session}, now)
    return replace(granted(session, application, stream, key, 0, judged), trial=key.pk)


def _former(taken: leases.Taken, peer: Peer, now: datetime) -> tuple[Session | None, Replaced | None]:
    """Whom the lease was taken from: who is to be ended here, as its node is gone; and who ends by its node."""
    former = taken.former
    if former is None:
        return None, None
    if taken.why == "expired":
        return former, None
    silent_s = (now - taken.silent_since).total_seconds() if taken.silent_since is not None else None
    after = f" after {silent_s:.1f} s of silence" if silent_s is not None else ""
    sessions.mark_replaced(session=former.pk, note=f"Taken over from {peer.address}{after}.")
    return None, Replaced(former.pk, former.address, former.channel, taken.why, silent_s, taken.silent_since)


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
class Judged:
    """What the health of streams is judged by, besides what their publishers send: by the streams' ids."""

    rules: Mapping[int, judging.Rules]
    publishes: Mapping[int, list[float]]

    @classmethod
    def of(cls, sessions: Mapping[int, uuid.UUID], now: datetime) -> Self:
        """`sessions`: those that begin, by stream."""
        return cls(
            judging.rules(streams=sessions), judging.publishes(streams=sessions, besides=sessions.values(), now=now)
        )


def granted(
    session: uuid.UUID, application: Application, stream: Stream, key: StreamKey | None, fencing: int, judged: Judged
) -> Grant:
    return Grant(
        session=session,
        app=application.name,
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
            "health": judged.rules.get(stream.pk, {}),
            "publishes": judged.publishes.get(stream.pk, []),
        },
        record=None,
        fencing=fencing,
    )
