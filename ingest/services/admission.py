"""Who may connect and publish. Each function returns what was granted or raises `Refused` with the reason.
`playable` has the same of playing.

`connect` and `check_*` only read, so that neither a flood of bad keys nor a herd of players reaches the one thread that
writes; `admit_publish` checks again and writes, in one transaction: the session, its lease, and the key's last use.
"""

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NoReturn

from django.db import DatabaseError, transaction
from django.db.models import QuerySet

from ingest import clean, trials
from ingest.contracts import Labels, PublishLimits
from ingest.contracts.recording import RecordOrder
from ingest.models import Application, EncoderLogin, Recording, Session, Stream, StreamKey
from ingest.server.credentials import looks_like_key
from ingest.services import encoderlogin, instances, judging, keys, leases, nodes, playtokens, recordings, sessions
from ingest.services.callback import Question, question
from ingest.services.refusals import Action, Refused
from ingest.validators import instance_of, is_stream_name

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Peer:
    """The connection that asks."""

    address: str
    encoder: str
    node: str
    channel: str


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """As in contracts.PublishEvent: `name` is public or masked; the credential is a key, or a stream's name where the
    application is open or the connection has logged in."""

    app: str
    name: str
    credential: str
    credential_is_name: bool
    publish_type: str = "live"
    login: int | None = None
    """By which the connection has logged in."""
    instance: str = ""
    """Of the application; names are those within it, in which all streams are that can be published then."""

    @property
    def in_its_instance(self) -> "PublishRequest":
        """INSTANCE/NAME, asked for in the application, is NAME in the instance, so that a key in the name's place is
        seen."""
        instance, _, credential = self.credential.rpartition("/")
        if self.instance or not (self.credential_is_name and instance and credential):
            return self
        return replace(self, instance=instance, credential=credential)

    @property
    def asked(self) -> str:
        """The whole public name that is asked for; "": the credential may be one, or says which it is."""
        return "" if self.credential_is_name else instances.full_name(self.instance, self.name)

    @property
    def as_name(self) -> str:
        """The credential as a whole public name."""
        return instances.full_name(self.instance, self.credential)


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


def _refuse(
    action: Action, reason: str, *, stream: Stream | None = None, key: StreamKey | None = None, **values: object
) -> NoReturn:
    raise Refused(action, reason, stream=stream.pk if stream else None, key=key.pk if key else None, **values)


def _application(action: Action, name: str, *, or_disabled: bool = False) -> Application:
    application = Application.objects.filter(name=name).first() if clean.fits(name) else None
    if application is None:
        _refuse(action, "unknown_app")
    if not application.enabled and not or_disabled:
        _refuse(action, "app_disabled")
    return application


def _streams(name: str) -> QuerySet[Stream]:
    """Those of the name, whatever a peer sent as a name. (What it sent as the application was let in by `connect`.)"""
    return Stream.objects.filter(name=name) if clean.fits(name) else Stream.objects.none()


def connect(
    *, app: str, credential: str, address: str, now: datetime, is_token: bool = False, only_plays: bool = False
) -> Application:
    """An enabled application. A credential on it is checked here, as far as it can be: which stream a key is to publish
    or a token to play comes later. `is_token`: it came as one, not as a key.

    `only_plays`: it may be disabled, as that is checked at play too; recordings are downloaded all the same.
    """
    name, instance = instances.split(app)
    application = _application("connect", name, or_disabled=only_plays)
    if "/" in app and (why_not := instances.why_not(application=application, instance=instance)):
        _refuse("connect", why_not)
    if credential:
        _check_presented(application, instance, credential, is_token=is_token, address=address, now=now)
    return application


def _check_presented(
    application: Application, instance: str, credential: str, *, is_token: bool, address: str, now: datetime
) -> None:
    """A key of the application, or a token of one of its streams or recordings. Where what is live takes none, anything
    else may be called a token, such as a CDN's: nobody asks for it.
    """
    takes_tokens = application.play_policy == Application.PlayPolicy.TOKEN
    is_token = is_token and not looks_like_key(credential)
    found = _token_of(credential, now)
    if found is not None:
        if not found[0].filter(application=application).exists():
            _refuse("connect", "token_invalid")
        if takes_tokens and found[1] == "expired":
            _refuse("connect", "token_expired")
    elif is_token and not takes_tokens:
        return
    elif is_token and keys.find(secret=credential) is None:
        _refuse("connect", "token_invalid")
    else:
        _check_key("connect", application, credential, instance=instance, address=address, now=now)


def _token_of(
    credential: str, now: datetime
) -> tuple[QuerySet[Stream] | QuerySet[Recording], playtokens.Verdict] | None:
    """What the token is for, whether it is there or not; None: it is none of ours."""
    stream, verdict = playtokens.stream_of(token=credential, now=now)
    if stream:
        return Stream.objects.filter(pk=stream), verdict
    recording, verdict = playtokens.recording_of(token=credential, now=now)
    return (Recording.objects.filter(pk=recording), verdict) if recording else None


def _check_key(
    action: Action,
    application: Application,
    secret: str,
    *,
    instance: str,
    address: str,
    now: datetime,
    wanted: str = "",
) -> StreamKey:
    """The secret's key, if it lets this address publish to `wanted` ("": to its own stream) in the application; in an
    instance of that, if there is one ("": in any or none).
    """
    key = keys.find(secret=secret)
    if key is None:
        _refuse(action, "key_unknown")
    stream = key.stream
    if stream.application_id != application.pk:
        _refuse(action, "key_other_app", key=key)
    if (wanted and wanted != stream.name) or not _is_in(stream, instance):
        _refuse(action, "key_other_stream", key=key)
    found = keys.state(key=key, now=now)
    if found != "active":
        _refuse(action, f"key_{found}", stream=stream, key=key, when=key.expires_at or now)
    if not keys.allows(key=key, address=address):
        _refuse(action, "network_not_allowed", stream=stream, key=key, address=address)
    rests_until = keys.rests_until(key=key, now=now)
    if rests_until is not None:
        _refuse(action, "over_limit", stream=stream, key=key, kbps=key.max_kbps, when=rests_until)
    if key.test_only and keys.test_rests_until(key=key, now=now) is not None:
        _refuse(action, "test_over", stream=stream, key=key, minutes=trials.MOST // timedelta(minutes=1))
    if not stream.enabled:
        _refuse(action, "stream_disabled", stream=stream, key=key)
    return key


def _is_in(stream: Stream, instance: str) -> bool:
    """Whether it is one of the instance's; "": of any or none."""
    return not instance or instance_of(stream.name) == instance


# --- Publish ---


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a publisher may publish. `stream` is None for an open application's stream that isn't there yet."""

    application: Application
    name: str
    stream: Stream | None
    key: StreamKey | None
    login: EncoderLogin | None = None

    @property
    def is_trial(self) -> bool:
        return self.key is not None and self.key.test_only


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
    target = _publish_target(request, address, now)
    if target.stream is not None and not target.is_trial:
        with _unless_busy(target.stream, target.key):
            claim = _claim(target, target.stream, address, asked_at)
            known: dict[str, Any] = {"standing": standing, "reached_since": reached_since}
            leases.check(stream=target.stream.pk, claim=claim, now=shared_now or now, **known)
    about: dict[str, Any] = {"stream": target.stream, "key": target.key, "login": target.login}
    return question("publish", target.application, name=target.name, **about)


def _claim(target: _Target, stream: Stream, address: str, asked_at: datetime) -> leases.Claim:
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
        _refuse("publish", "busy", stream=stream, key=key)


def _publish_target(request: PublishRequest, address: str, now: datetime) -> _Target:
    application = _application("publish", request.app)
    request = request.in_its_instance
    if request.login is not None and request.credential_is_name and not looks_like_key(request.credential):
        return _by_login(application, request.login, request, now)
    if not request.credential:
        _refuse("publish", "key_missing")
    is_open = application.publish_policy == Application.PublishPolicy.OPEN
    if request.credential_is_name and not looks_like_key(request.credential):
        named = _streams(request.as_name).filter(application=application).first()
        if named is not None or (is_open and keys.find(secret=request.credential) is None):
            return _by_name(application, request.as_name, named)
    where: dict[str, Any] = {"instance": request.instance, "wanted": request.asked, "address": address}
    key = _check_key("publish", application, request.credential, now=now, **where)
    return _Target(application, key.stream.name, key.stream, key)


def _by_login(application: Application, pk: int, request: PublishRequest, now: datetime) -> _Target:
    """A publisher that has logged in: its stream, by its public name or by none."""
    name = request.as_name
    login = encoderlogin.find(pk=pk)
    if login is None:
        _refuse("publish", "login_revoked")
    is_other = name not in ("", login.stream.name) or not _is_in(login.stream, request.instance)
    if login.stream.application_id != application.pk or is_other:
        _refuse("publish", "login_other_stream", stream=login.stream)
    encoderlogin.check(login, now, "publish")
    return _Target(application, login.stream.name, login.stream, None, login)


def _by_name(application: Application, name: str, stream: Stream | None) -> _Target:
    """A publisher that gave a public name and no key."""
    if application.publish_policy != Application.PublishPolicy.OPEN:
        _refuse("publish", "key_missing", stream=stream)
    if stream is None and not is_stream_name(name):
        _refuse("publish", "name_invalid")
    instance = instance_of(name)
    if stream is None and instance and (why_not := instances.why_not(application=application, instance=instance)):
        _refuse("publish", why_not)
    if stream is not None and not stream.enabled:
        _refuse("publish", "stream_disabled", stream=stream)
    return _Target(application, name, stream, None)


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
) -> Grant:
    """Makes the session and takes the stream's lease, both or neither. Takes times and raises NotYet as
    `check_publish`."""
    with transaction.atomic():
        target = _publish_target(request, peer.address, now)
        stream, key = target.stream, target.key
        if stream is None:
            stream, _ = Stream.objects.get_or_create(application=target.application, name=target.name)
        if target.application.publish_policy == Application.PublishPolicy.OPEN and not target.is_trial:
            sessions.join_stream(stream=stream)
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
            return _try_out(session, target.application, stream, key, now)
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
    grant = _grant(session, target.application, stream, key, taken.fencing, now)
    ended = _end_lost(lost, shared_now or now) if lost is not None else None
    return replace(grant, lost=ended, replaced=replaced, record=record)


def _try_out(session: uuid.UUID, application: Application, stream: Stream, key: StreamKey, now: datetime) -> Grant:
    """A trial takes no lease and is never recorded; a newer one of its key takes the place of an older one."""
    others = Session.objects.filter(key=key, is_test=True, ended_at__isnull=True).exclude(pk=session)
    for former in others.values_list("pk", flat=True):
        sessions.mark_replaced(session=former, note="Another test with this key began.")
    StreamKey.objects.filter(pk=key.pk).update(last_used_at=now)
    return replace(_grant(session, application, stream, key, 0, now), trial=key.pk)


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


def _grant(
    session: uuid.UUID, application: Application, stream: Stream, key: StreamKey | None, fencing: int, now: datetime
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
            "health": judging.rules(streams=[stream.pk]).get(stream.pk, {}),
            "publishes": judging.publishes(stream=stream.pk, besides=session, now=now),
        },
        record=None,
        fencing=fencing,
    )
