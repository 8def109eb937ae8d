"""Who may connect, and what a key or token is good for: each raises `Refused` with the reason, and only reads."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NoReturn

from django.db.models import QuerySet

from ingest import trials
from ingest.models import Application, Recording, Stream, StreamKey
from ingest.server.credentials import looks_like_key
from ingest.services import instances, keys, playtokens
from ingest.services.access import Access
from ingest.services.refusals import Action, Refused
from ingest.validators import instance_of


def refuse(
    action: Action, reason: str, *, stream: Stream | None = None, key: StreamKey | None = None, **values: object
) -> NoReturn:
    raise Refused(action, reason, stream=stream.pk if stream else None, key=key.pk if key else None, **values)


def application_of(action: Action, name: str, access: Access, *, or_disabled: bool = False) -> Application:
    application = access.application(name)
    if application is None:
        refuse(action, "unknown_app")
    if not application.enabled and not or_disabled:
        refuse(action, "app_disabled")
    return application


def named_by(connections: Iterable[tuple[str, str]]) -> Access:
    """What connections name: the application, or an instance of it, and the credential of each ("": none)."""
    several = list(connections)
    return Access.read(
        applications={instances.split(app)[0] for app, _ in several}, secrets={credential for _, credential in several}
    )


def connect(
    *,
    app: str,
    credential: str,
    address: str,
    now: datetime,
    is_token: bool = False,
    only_plays: bool = False,
    access: Access | None = None,
) -> Application:
    """An enabled application. A credential on it is checked here, as far as it can be: which stream a key is to publish
    or a token to play comes later. `is_token`: it came as one, not as a key. `access`: `named_by` this and others.

    `only_plays`: it may be disabled, as that is checked at play too; recordings are downloaded all the same.
    """
    name, instance = instances.split(app)
    access = access or named_by([(app, credential)])
    application = application_of("connect", name, access, or_disabled=only_plays)
    if "/" in app and (why_not := instances.why_not(application=application, instance=instance)):
        refuse("connect", why_not)
    if credential:
        _check_presented(application, instance, credential, access, is_token=is_token, address=address, now=now)
    return application


def _check_presented(
    application: Application,
    instance: str,
    credential: str,
    access: Access,
    *,
    is_token: bool,
    address: str,
    now: datetime,
) -> None:
    """A key of the application, or a token of one of its streams or recordings. Where what is live takes none, anything
    else may be called a token, such as a CDN's: nobody asks for it.
    """
    takes_tokens = application.play_policy == Application.PlayPolicy.TOKEN
    is_token = is_token and not looks_like_key(credential)
    found = _token_of(credential, now)
    if found is not None:
        if not found[0].filter(application=application).exists():
            refuse("connect", "token_invalid")
        if takes_tokens and found[1] == "expired":
            refuse("connect", "token_expired")
    elif is_token and not takes_tokens:
        return
    elif is_token and access.key(credential) is None:
        refuse("connect", "token_invalid")
    else:
        check_key("connect", application, credential, access, instance=instance, address=address, now=now)


def _token_of(
    credential: str, now: datetime
) -> tuple[QuerySet[Stream] | QuerySet[Recording], playtokens.Verdict] | None:
    """What the token is for, whether it is there or not; None: it is none of ours."""
    stream, verdict = playtokens.stream_of(token=credential, now=now)
    if stream:
        return Stream.objects.filter(pk=stream), verdict
    recording, verdict = playtokens.recording_of(token=credential, now=now)
    return (Recording.objects.filter(pk=recording), verdict) if recording else None


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
        refuse(action, "test_over", stream=stream, key=key, minutes=trials.MOST // timedelta(minutes=1))
    if not stream.enabled:
        refuse(action, "stream_disabled", stream=stream, key=key)
    return key


def is_in(stream: Stream, instance: str) -> bool:
    """Whether it is one of the instance's; "": of any or none."""
    return not instance or instance_of(stream.name) == instance
