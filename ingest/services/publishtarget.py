"""Where a publisher may publish, by its key, its log-in or a public name: `find` raises `Refused` with the reason."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingest.models import Application, EncoderLogin, Stream, StreamKey
from ingest.services import encoderlogin, instances
from ingest.services.access import Access
from ingest.services.credentials import application_of, check_key, is_in, refuse
from ingest.services.publishrequest import PublishRequest
from ingest.validators import instance_of, is_stream_name


@dataclass(frozen=True, slots=True)
class Target:
    """Where a publisher may publish. `stream` is None for an open application's stream that isn't there yet."""

    application: Application
    name: str
    stream: Stream | None
    key: StreamKey | None
    login: EncoderLogin | None = None

    @property
    def is_trial(self) -> bool:
        return self.key is not None and self.key.test_only


def named_by(requests: Iterable[PublishRequest]) -> Access:
    """What the requests name."""
    several = [request.in_its_instance for request in requests]
    return Access.read(
        applications={request.app for request in several},
        secrets={request.credential for request in several},
        names={request.as_name for request in several if request.may_be_a_name},
    )


def find(request: PublishRequest, address: str, now: datetime, access: Access | None = None) -> Target:
    """`access`: `named_by` this request and others."""
    access = access or named_by([request])
    application = application_of("publish", request.app, access)
    request = request.in_its_instance
    if request.login is not None and request.may_be_a_name:
        return _by_login(application, request.login, request, now)
    if not request.credential:
        refuse("publish", "key_missing")
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
    login = encoderlogin.find(pk=pk)
    if login is None:
        refuse("publish", "login_revoked")
    is_other = name not in ("", login.stream.name) or not is_in(login.stream, request.instance)
    if login.stream.application_id != application.pk or is_other:
        refuse("publish", "login_other_stream", stream=login.stream)
    encoderlogin.check(login, now, "publish")
    return Target(application, login.stream.name, login.stream, None, login)


def _by_name(application: Application, name: str, stream: Stream | None) -> Target:
    """A publisher that gave a public name and no key."""
    if application.publish_policy != Application.PublishPolicy.OPEN:
        refuse("publish", "key_missing", stream=stream)
    if stream is None and not is_stream_name(name):
        refuse("publish", "name_invalid")
    instance = instance_of(name)
    if stream is None and instance and (why_not := instances.why_not(application=application, instance=instance)):
        refuse("publish", why_not)
    if stream is not None and not stream.enabled:
        refuse("publish", "stream_disabled", stream=stream)
    return Target(application, name, stream, None)
