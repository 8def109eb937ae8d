"""What a connection asks for, and what the key, token or log-in that it shows is good for: whether it may connect, and
where it may publish. Each function raises `Refused` with the reason, and only reads.

`Access` has what several connections name, read at once. An instance of an application is a namespace of its streams,
whose names begin with its name (RTMP 1.0, 7.2.1.1: appName/appInstance). None has a row of its own: one is there as
long as a stream or a recording of it is. How many an application may have is said by the application; in one that is
open they come with whoever publishes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, NoReturn, Self

from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from ingest import clean, command_line
from ingest.contracts import LoginAnswer
from ingest.credentials import is_masked, looks_like_key
from ingest.models import Application, EncoderLogin, PullSource, Recording, Stream, StreamKey, names
from ingest.models.names import instance_of, is_instance, is_stream_name
from ingest.services import encoder_login, keys, play_tokens, pulls
from ingest.services.refusals import Action, Refused


def split_instance(app: str) -> tuple[str, str]:
    """What a client connects to: the application, and its instance or ""."""
    application, _, instance = app.partition("/")
    return application, instance


def full_name(instance: str, name: str) -> str:
    """A stream's name, by what a client of the instance calls it. Who gives none has none."""
    return f"{instance}/{name}" if instance and name else name


def instance_names(*, application: Application) -> set[str]:
    """Of those that its streams and recordings have."""
    streams, recordings = (each.filter(instance__gt="").values_list("instance") for each in _within(application))
    return {name for (name,) in streams.union(recordings)}


def _within(application: Application) -> tuple[QuerySet[Stream], QuerySet[Recording]]:
    of = {"application": application}
    return Stream.objects.filter(**of).order_by(), Recording.objects.filter(**of).order_by()


def instance_refusal(
    *, application: Application, instance: str
) -> Literal["", "instance_unknown", "too_many_instances"]:
    """Whether a client may connect to it, or publish a stream that is the first of it; "": it may.

    A key that stands in its place is never taken for one, whether it is known here or only looks like one.
    """
    if not is_instance(instance) or is_masked(instance):
        return "instance_unknown"
    if any(each.filter(instance=instance).exists() for each in _within(application)):
        return ""
    if application.publish_policy != Application.PublishPolicy.OPEN:
        return "instance_unknown"
    if looks_like_key(instance) or keys.find(secret=instance) is not None:
        return "instance_unknown"
    return "" if len(instance_names(application=application)) < application.max_instances else "too_many_instances"


def check_instance_room(*, application: Application, made: Iterable[str]) -> None:
    """Raises ValidationError if streams of these names, which are to be made, would be of an instance too many."""
    wanted = {instance_of(name) for name in made} - {""}
    if not wanted:
        return
    there = instance_names(application=application)
    if wanted - there and len(wanted | there) > application.max_instances:
        command = f"application set {application.name} --max-instances N"
        command = f"application set {application.name} --max-instances N"
        raise ValidationError(
            f"The application {application.name} may have {application.max_instances} instances, and has {len(there)}. "
            f"Take one of those, or let it have more: {command_line.short(command)}"
        )


@dataclass(frozen=True, slots=True)
class Peer:
    address: str
    encoder: str
    node: str
    channel: str
    protocol: str = ""
    """As Session.protocol."""


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
    def may_be_a_name(self) -> bool:
        return self.credential_is_name and not looks_like_key(self.credential)

    @property
    def asked(self) -> str:
        """The whole public name that is asked for; "": the credential may be one, or says which it is."""
        return "" if self.credential_is_name else full_name(self.instance, self.name)

    @property
    def as_name(self) -> str:
        return full_name(self.instance, self.credential)


@dataclass(frozen=True, slots=True)
class Access:
    """Applications by name, keys by digest, streams by application and name: one statement for each kind."""

    applications: Mapping[str, Application]
    keys: Mapping[str, StreamKey]
    streams: Mapping[tuple[int, str], Stream]

    @classmethod
    def read(cls, *, applications: Iterable[str], secrets: Iterable[str] = (), names: Iterable[str] = ()) -> Self:
        """`secrets` and `names`: what may be a key, and what a stream's whole public name."""
        digests = {keys.digest(secret) for secret in secrets if secret}
        found = StreamKey.objects.select_related("stream__application").filter(digest__in=digests) if digests else ()
        by_digest = {key.digest: key for key in found}
        by_name = {key.stream.application.name: key.stream.application for key in by_digest.values()}
        if wanted := {name for name in applications if clean.fits(name)} - by_name.keys():
            by_name |= {row.name: row for row in Application.objects.filter(name__in=wanted).order_by()}
        public = {name for name in names if clean.fits(name)}
        streams = Stream.objects.filter(name__in=public).order_by() if public else ()
        return cls(by_name, by_digest, {(row.application_id, row.name): row for row in streams})

    def key(self, secret: str) -> StreamKey | None:
        """The key that has the secret, whatever its state, with its stream and application."""
        return self.keys.get(keys.digest(secret)) if secret else None

    def stream(self, application: Application, name: str) -> Stream | None:
        return self.streams.get((application.pk, name))


def refuse(
    action: Action, reason: str, *, stream: Stream | None = None, key: StreamKey | None = None, **values: object
) -> NoReturn:
    raise Refused(action, reason, stream=stream.pk if stream else None, key=key.pk if key else None, **values)


def application_of(action: Action, name: str, access: Access, *, or_disabled: bool = False) -> Application:
    application = access.applications.get(name)
    if application is None:
        refuse(action, "unknown_app")
    if not application.enabled and not or_disabled:
        refuse(action, "app_disabled")
    return application


@dataclass(frozen=True, slots=True)
class ConnectRequest:
    app: str
    """The application, or an instance of it."""
    address: str
    credential: str = field(default="", repr=False)
    """The key or token of the application's query; "": none."""
    is_token: bool = False
    """The credential came as a token, not as a key."""
    only_plays: bool = False
    """The application may be disabled, as that is checked at play too; recordings are downloaded all the same."""
    login: LoginAnswer | None = field(default=None, repr=False)
    is_encoder: bool = False


def read_connections(requests: Iterable[ConnectRequest]) -> Access:
    several = list(requests)
    return Access.read(
        applications={split_instance(request.app)[0] for request in several},
        secrets={request.credential for request in several},
    )


def connect(
    request: ConnectRequest, now: datetime, access: Access | None = None
) -> tuple[Application, EncoderLogin | None]:
    """An enabled application, and who logs in. A credential is checked here, as far as it can be: which stream a key is
    to publish or a token to play comes later. `access`: what this and others name. Raises Challenged too.
    """
    name, instance = split_instance(request.app)
    access = access or read_connections([request])
    application = application_of("connect", name, access, or_disabled=request.only_plays)
    if "/" in request.app and (why_not := instance_refusal(application=application, instance=instance)):
        refuse("connect", why_not)
    if request.credential:
        _check_presented(application, request, access, now)
    is_asked = request.is_encoder and not request.credential
    login = encoder_login.enter(application, request.login, is_asked=is_asked, address=request.address, now=now)
    return application, login


def _check_presented(application: Application, request: ConnectRequest, access: Access, now: datetime) -> None:
    """A key of the application, or a token of one of its streams or recordings. Where what is live takes none, anything
    else may be called a token, such as a CDN's: nobody asks for it.
    """
    credential = request.credential
    is_token = request.is_token and not looks_like_key(credential)
    found = _token_of(credential, application, now)
    if found is not None:
        policy, verdict = found
        if not policy:
            refuse("connect", "token_invalid")
        if policy == Application.PlayPolicy.TOKEN and verdict != "valid":
            refuse("connect", f"token_{verdict}")
    elif is_token and application.play_policy != Application.PlayPolicy.TOKEN:
        return
    elif is_token and access.key(credential) is None:
        refuse("connect", "token_invalid")
    else:
        instance = split_instance(request.app)[1]
        check_key("connect", application, credential, access, instance=instance, address=request.address, now=now)


def _token_of(credential: str, application: Application, now: datetime) -> tuple[str, play_tokens.Verdict] | None:
    """Who may play what the token is for ("": the application has no such stream or recording), and what it is good
    for; None: it is none of ours."""
    pk, verdict = play_tokens.PLAY.read(credential, now=now)
    if pk:
        stream = _stream(application, pk)
        if stream is None:
            return "", verdict
        verdict = play_tokens.PLAY.verify(credential, pk, generation=stream.link_generation, now=now)
        return stream.effective_play_policy, verdict
    pk, verdict = play_tokens.PREVIEW.read(credential, now=now)
    if pk:
        stream = _stream(application, pk)
        return stream.effective_play_policy if stream is not None else "", verdict
    pk, verdict = play_tokens.RECORDING.read(credential, now=now)
    if not pk:
        return None
    there = Recording.objects.filter(pk=pk, application=application).select_related("stream__application").first()
    if there is None:
        return "", verdict
    return (there.stream.effective_play_policy if there.stream is not None else application.play_policy), verdict


def _stream(application: Application, pk: int) -> Stream | None:
    return Stream.objects.filter(pk=pk, application=application).select_related("application").first()


def check_key(
    action: Action,
    application: Application,
    secret: str,
    access: Access,
    *,
    instance: str,
    address: str,
    now: datetime,
    wanted: str = "",
) -> StreamKey:
    """The secret's key, if it lets this address publish to `wanted` ("": to its own stream) in the application; in an
    instance of that, if there is one ("": in any or none).
    """
    key = access.key(secret)
    if key is None:
        refuse(action, "key_unknown")
    stream = key.stream
    if stream.application_id != application.pk:
        refuse(action, "key_other_app", key=key)
    if (wanted and wanted != stream.name) or not is_in(stream, instance):
        refuse(action, "key_other_stream", key=key)
    found = keys.state(key=key, now=now)
    if found != "active":
        refuse(action, f"key_{found}", stream=stream, key=key, when=key.expires_at or now)
    if not keys.allows(key=key, address=address):
        refuse(action, "network_not_allowed", stream=stream, key=key, address=address)
    rests_until = keys.rests_until(key=key, now=now)
    if rests_until is not None:
        refuse(action, "over_limit", stream=stream, key=key, kbps=key.max_kbps, when=rests_until)
    if key.test_only and keys.test_rests_until(key=key, now=now) is not None:
        refuse(action, "test_over", stream=stream, key=key, minutes=names.TEST_MOST // timedelta(minutes=1))
    if not stream.enabled:
        refuse(action, "stream_disabled", stream=stream, key=key)
    return key


def is_in(stream: Stream, instance: str) -> bool:
    """Whether it is one of the instance's; "": of any or none."""
    return not instance or instance_of(stream.name) == instance


@dataclass(frozen=True, slots=True)
class Target:
    """Where a publisher may publish. `stream` is None for an open application's stream that isn't there yet."""

    application: Application
    name: str
    stream: Stream | None
    key: StreamKey | None
    login: EncoderLogin | None = None
    pull: PullSource | None = None
    """What it publishes is fetched of."""

    @property
    def is_test(self) -> bool:
        return self.key is not None and self.key.test_only


def read_requests(requests: Iterable[PublishRequest]) -> Access:
    several = [request.in_its_instance for request in requests]
    return Access.read(
        applications={request.app for request in several},
        secrets={request.credential for request in several},
        names={request.as_name for request in several if request.may_be_a_name},
    )


def find_target(request: PublishRequest, address: str, now: datetime, access: Access | None = None) -> Target:
    """`access`: what this request and others name."""
    access = access or read_requests([request])
    application = application_of("publish", request.app, access)
    request = request.in_its_instance
    if request.login is not None and request.may_be_a_name:
        return _by_login(application, request.login, request, now)
    if not request.credential:
        refuse("publish", "key_missing")
    if ":" in request.credential and (pulled := _by_pull(application, request, now)):
        return pulled
    is_open = application.publish_policy == Application.PublishPolicy.OPEN
    if request.may_be_a_name:
        named = access.stream(application, request.as_name)
        if named is not None or (is_open and access.key(request.credential) is None):
            return _by_name(application, request.as_name, named)
    where: dict[str, Any] = {"instance": request.instance, "wanted": request.asked, "address": address}
    key = check_key("publish", application, request.credential, access, now=now, **where)
    return Target(application, key.stream.name, key.stream, key)


def _by_login(application: Application, pk: int, request: PublishRequest, now: datetime) -> Target:
    """A publisher that has logged in: its stream, by its public name or by none."""
    name = request.as_name
    login = encoder_login.find(pk=pk)
    if login is None:
        refuse("publish", "login_revoked")
    is_other = name not in ("", login.stream.name) or not is_in(login.stream, request.instance)
    if login.stream.application_id != application.pk or is_other:
        refuse("publish", "login_other_stream", stream=login.stream)
    encoder_login.check(login, now, "publish")
    return Target(application, login.stream.name, login.stream, None, login)


def _by_pull(application: Application, request: PublishRequest, now: datetime) -> Target | None:
    """One of our own pulls; None: it shows nothing that is made for them."""
    source, verdict = pulls.read_credential(request.credential, now=now)
    if verdict == "invalid":
        return None
    if source is None:
        refuse("publish", "pull_refused")
    stream = source.stream
    if verdict == "expired" or stream.application_id != application.pk or request.asked not in ("", stream.name):
        refuse("publish", "pull_refused", stream=stream)
    if not stream.enabled:
        refuse("publish", "stream_disabled", stream=stream)
    return Target(application, stream.name, stream, None, pull=source)


def _by_name(application: Application, name: str, stream: Stream | None) -> Target:
    if application.publish_policy != Application.PublishPolicy.OPEN:
        refuse("publish", "key_missing", stream=stream)
    if stream is None and not is_stream_name(name):
        refuse("publish", "name_invalid")
    instance = instance_of(name)
    if stream is None and instance and (why_not := instance_refusal(application=application, instance=instance)):
        refuse("publish", why_not)
    if stream is not None and not stream.enabled:
        refuse("publish", "stream_disabled", stream=stream)
    return Target(application, name, stream, None)
