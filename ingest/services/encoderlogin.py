"""Users and passwords of encoders that know no stream keys: made, checked, revoked. `challenges` has the rounds.

A password is shown once, when it is made up here. What is kept of it can't be read back, but is as good as it for a
log-in: that is how both methods are made, which need it to check an answer.
"""

import secrets
import string
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from urllib.parse import quote

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Expression, Q
from django.utils import timezone

from ingest.contracts import LoginAnswer
from ingest.models import Application, EncoderLogin, Stream
from ingest.services import challenges, paste
from ingest.services.challenges import Verifiers
from ingest.services.refusals import Refused
from ingest.validators import is_encoder_user, name_within, validate_encoder_user

GENERATED_CHARACTERS = 20
"""Of 62 each: 119 random bits, which no one finds from an overheard answer."""

SHORTEST_PASSWORD, LONGEST_PASSWORD = 8, 128
"""Of those that are chosen. Whoever overhears an answer can try passwords on it as fast as MD5 is."""

PASSWORD_UNFIT = f"Use {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} printable characters without blanks."
TAKEN = "There is an encoder's log-in with this user already. Revoke it first, or take another name."

State = Literal["active", "disabled", "revoked", "expired"]


class UserTaken(ValueError):  # noqa: N818 - it reads as what it says.
    """A user that another log-in has, which isn't revoked."""


class Challenged(Exception):  # noqa: N818 - an answer, not an error.
    """The client has to log in, or to go on with it: `description` tells it how."""

    def __init__(self, description: str) -> None:
        super().__init__()
        self.description = description


class LoginRefused(Refused):
    """The answer is no: `description` is for operators, `answer` is what encoders look for."""

    def __init__(self, reason: str, authmod: str, stream: int | None) -> None:
        super().__init__("connect", reason, stream=stream, key=None)
        self.answer = challenges.failed(authmod)


@dataclass(frozen=True, slots=True)
class NewPassword:
    """A log-in and its password, at the only time that the password is known. Its repr doesn't show it."""

    login: EncoderLogin
    password: str = field(repr=False)

    @property
    def server(self) -> str:
        return paste.server_of(stream=self.login.stream)

    @property
    def name(self) -> str:
        """Of the stream, as the encoder sends it."""
        return name_within(self.login.stream.name)

    @property
    def publish_url(self) -> str:
        """As FFmpeg takes it."""
        return f"{self.server.replace('://', f'://{self.login.user}:{self.password}@', 1)}/{quote(self.name)}"

    def as_dict(self) -> dict[str, str]:
        return {
            "stream": self.login.stream.path,
            "user": self.login.user,
            "password": self.password,
            "server": self.server,
            "name": self.name,
            "publish_url": self.publish_url,
            "play_url": paste.play_url(stream=self.login.stream),
        }


# --- Setting up ---


def create(
    *,
    stream: Stream,
    user: str,
    password: str = "",
    label: str = "",
    expires_at: datetime | None = None,
    enabled: bool = True,
) -> NewPassword:
    """A log-in for the stream; without a `password` one is made up. Raises ValidationError, UserTaken."""
    validate_encoder_user(user)
    login = EncoderLogin(stream=stream, user=user, label=label, expires_at=expires_at, enabled=enabled)
    made = _with_password(login, password)
    try:
        with transaction.atomic():
            login.save(force_insert=True)
    except IntegrityError:
        raise UserTaken(TAKEN) from None
    return made


def set_password(*, login: EncoderLogin, password: str = "") -> NewPassword:
    """A new password in place of the old one. What is live goes on. Raises ValidationError."""
    made = _with_password(login, password)
    login.save(update_fields=["salt", "adobe", "llnw"])
    return made


def _with_password(login: EncoderLogin, password: str) -> NewPassword:
    if password:
        validate_password(password)
    else:
        alphabet = string.ascii_letters + string.digits
        password = "".join(secrets.choice(alphabet) for _ in range(GENERATED_CHARACTERS))
    known = challenges.verifiers(login.user, password, challenges.new_salt())
    login.salt, login.adobe, login.llnw = known.salt, known.adobe, known.llnw
    return NewPassword(login, password)


def validate_password(password: str) -> None:
    fits = SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD
    if not fits or " " in password or not password.isprintable():
        raise ValidationError(PASSWORD_UNFIT)


def revoke(*, login: EncoderLogin) -> None:
    """For good. Its sessions end within 2 s, on whichever node they are: nodes read it each second."""
    if login.revoked_at is None:
        login.revoked_at = timezone.now()
        login.save(update_fields=["revoked_at"])


def state(*, login: EncoderLogin, now: datetime | None = None) -> State:
    """Whether it lets anyone publish now."""
    if login.revoked_at is not None:
        return "revoked"
    if not login.enabled:
        return "disabled"
    if login.expires_at is not None and login.expires_at <= (now or timezone.now()):
        return "expired"
    return "active"


def gone(now: datetime | Expression) -> Q:
    """Of sessions: those whose log-in lets nobody publish any more."""
    return Q(login__revoked_at__isnull=False) | Q(login__enabled=False) | Q(login__expires_at__lte=now)


# --- Logging in ---


def publishes(connect: dict[str, Any], flash_ver: str) -> bool:
    """Whether the client that sent this `connect` is an encoder; players are not asked to log in."""
    command = connect.get("object") or {}
    return command.get("type") == "nonprivate" or "FMLE" in flash_ver


def enter(
    *,
    application: Application,
    said: LoginAnswer | None,
    publisher: bool,
    has_credential: bool,
    address: str,
    now: datetime,
) -> EncoderLogin | None:
    """Who logs in with this `connect`; None: nobody, and nobody has to. Raises Challenged, or Refused.

    `has_credential`: a key or token is in the application's query, so that the client needs no log-in.
    """
    if said is None:
        if application.encoder_login and publisher and not has_credential:
            raise Challenged(challenges.invitation())
        return None
    method = said["authmod"]
    if method not in challenges.AUTHMODS:
        raise Refused("connect", "login_method", stream=None, key=None)
    if not said["user"]:
        raise Challenged(challenges.invitation(method))
    if not is_encoder_user(said["user"]):
        raise LoginRefused("login_wrong", method, None)
    return _answered(application, said, address, now)


def _answered(application: Application, said: LoginAnswer, address: str, now: datetime) -> EncoderLogin:
    """Users that there are and users that there are not take the same way, and as long."""
    method, user = said["authmod"], said["user"]
    rows = EncoderLogin.objects.select_related("stream__application").filter(revoked_at__isnull=True)
    login = rows.filter(user=user, stream__application=application).first()
    unknown = challenges.made_up(application.name, user)
    known = Verifiers(login.salt, login.adobe, login.llnw) if login is not None else unknown

    def ask() -> Challenged:
        salt = known.salt
        return Challenged(
            challenges.needed(method, app=application.name, user=user, salt=salt, address=address, now=now)
        )

    if not said["response"]:
        raise ask()
    token = said[challenges.AUTHMODS[method].echo]
    verdict = challenges.judge(token, app=application.name, user=user, address=address, now=now)
    if verdict == "expired":
        raise ask()
    stream = login.stream_id if login is not None else None
    if verdict == "foreign":
        raise LoginRefused("login_challenge", method, stream)
    if not challenges.is_right(said, known) or login is None:
        raise LoginRefused("login_wrong", method, stream)
    if not challenges.SPENT.spend(token, now):
        raise ask()
    check(login, now)
    return login


def check(login: EncoderLogin, now: datetime, action: Literal["connect", "publish"] = "connect") -> None:
    """Raises Refused for one that lets nobody publish now."""
    found = state(login=login, now=now)
    if found != "active":
        when = login.expires_at or now
        raise Refused(action, f"login_{found}", stream=login.stream_id, key=None, when=when)
    if not login.stream.enabled:
        raise Refused(action, "stream_disabled", stream=login.stream_id, key=None)


def find(*, pk: int) -> EncoderLogin | None:
    return EncoderLogin.objects.select_related("stream__application").filter(pk=pk).first()
