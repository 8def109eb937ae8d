"""Users and passwords of encoders that know no stream keys: made, checked, revoked; and the rounds of challenge and
answer, `authmod=adobe` and `authmod=llnw`.

A password is shown once, when it is made up here. What is kept of it can't be read back, but is as good as it for a
log-in: that is how both methods are made, which need it to check an answer.

Three connections, each closed by the server but the last one:

    app                                    answer
    live                                   [ AccessManager.Reject ] : [ code=403 need auth; authmod=adobe ] :
    live?authmod=adobe&user=U              [ AccessManager.Reject ] : [ authmod=adobe ] : ?reason=needauth&user=U&...
    live?authmod=adobe&user=U&response=R   accepted, or ?reason=authfailed

No state is kept between them, so that any node answers any round: a challenge is a token that is signed for a user, an
application and an address, for a short time. An answer that was overheard is good for as long, from the same address,
on nodes that haven't seen it."""

import base64
import hashlib
import hmac
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import quote

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Expression, Q
from django.utils import timezone

from ingest.addresses import unit_or_itself
from ingest.contracts import LoginAnswer
from ingest.models import Application, EncoderLogin, Stream
from ingest.models.names import is_encoder_user, name_within, validate_encoder_user
from ingest.services import media_urls
from ingest.services.keys import KeyState, keyed_hash, random_secret
from ingest.services.refusals import Refused

LIFE = timedelta(seconds=30)
"""Of a challenge: encoders answer at once."""

SKEW = timedelta(seconds=10)
"""By which another node's clock may be ahead."""

MOST_SPENT = 10_000
"""Challenges that were answered well, and are remembered for their life."""

NONCE_BYTES = 8
SIGNATURE_DIGITS = 32

TOKEN = re.compile(r"([0-9a-f]{8})\.([0-9a-f]{16})\.([0-9a-f]{32})")

REALM = "live"
"""Of llnw, whatever the application."""


def keep_password(login: EncoderLogin, password: str, salt: str) -> EncoderLogin:
    """What the row, which is not written here, keeps of it: enough to check answers, and to make them."""
    login.salt = salt
    login.adobe = _base64_md5(login.user + salt + password)
    login.llnw = _hex_md5(f"{login.user}:{REALM}:{password}")
    return login


def placeholder(app: str, user: str) -> EncoderLogin:
    """For a user that there is not: its salt is always the same, as that of one that there is, and no answer fits."""
    salt = keyed_hash("encoder-salt", f"{app}\0{user}")[: 2 * NONCE_BYTES]
    return keep_password(EncoderLogin(user=user), secrets.token_hex(), salt)


# --- Descriptions, as clients look for them ---


def invitation(authmod: str = "adobe") -> str:
    """The first round: `authmod=adobe` is what all know."""
    return f"[ AccessManager.Reject ] : [ code=403 need auth; authmod={authmod} ] : "


def need_auth(authmod: str, *, app: str, user: str, salt: str, address: str, now: datetime) -> str:
    """The second round. `user` is quoted: one that can be a user's name."""
    token = issue_challenge(app=app, user=user, address=address, now=now)
    fields = AUTHMODS[authmod].fields.format(salt=salt, token=token)
    return f"[ AccessManager.Reject ] : [ authmod={authmod} ] : ?reason=needauth&user={user}{fields}"


# --- Tokens ---


def issue_challenge(*, app: str, user: str, address: str, now: datetime) -> str:
    issued, nonce = f"{int(now.timestamp()):08x}", secrets.token_hex(NONCE_BYTES)
    return f"{issued}.{nonce}.{_signature(issued, nonce, app, user, address)}"


ChallengeVerdict = Literal["valid", "expired", "foreign"]


def evaluate_token(token: str, *, app: str, user: str, address: str, now: datetime) -> ChallengeVerdict:
    """ "foreign": it was made up, or given to another user or address, or for another application."""
    found = TOKEN.fullmatch(token)
    if found is None:
        return "foreign"
    issued, nonce, signature = found.groups()
    if not hmac.compare_digest(signature, _signature(issued, nonce, app, user, address)):
        return "foreign"
    age = now.timestamp() - int(issued, 16)
    return "valid" if -SKEW.total_seconds() <= age <= LIFE.total_seconds() else "expired"


def _signature(issued: str, nonce: str, app: str, user: str, address: str) -> str:
    signed = "\0".join((issued, nonce, app, user, unit_or_itself(address)))
    return keyed_hash("encoder-challenge", signed)[:SIGNATURE_DIGITS]


class Spent:
    """The challenges that this process has taken an answer to. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: OrderedDict[str, datetime] = OrderedDict()

    def spend(self, token: str, now: datetime) -> bool:
        """False: it is spent already."""
        with self._lock:
            while self._until and (len(self._until) >= MOST_SPENT or next(iter(self._until.values())) < now):
                self._until.popitem(last=False)
            if token in self._until:
                return False
            self._until[token] = now + LIFE + SKEW
            return True


SPENT = Spent()


# --- Answers ---


def is_right_answer(answer: LoginAnswer, known: EncoderLogin) -> bool:
    """Whether the answer is what this password makes of its challenge; in a time that tells nothing."""
    right = AUTHMODS[answer["authmod"]].answer(answer, known)
    return hmac.compare_digest(answer["response"].encode(errors="replace"), right.encode())


def _adobe(answer: LoginAnswer, known: EncoderLogin) -> str:
    return _base64_md5(known.adobe + answer["opaque"] + answer["challenge"])


def _llnw(answer: LoginAnswer, known: EncoderLogin) -> str:
    app = answer["app"] if "/" in answer["app"] else f"{answer['app']}/_definst_"
    request = _hex_md5(f"publish:/{app}")
    return _hex_md5(":".join((known.llnw, answer["nonce"], answer["nc"], answer["cnonce"], "auth", request)))


@dataclass(frozen=True, slots=True)
class Authmod:
    fields: str
    """What follows the user in the second round."""
    echo: Literal["opaque", "nonce"]
    """In which field the client sends the token back."""
    answer: Callable[[LoginAnswer, EncoderLogin], str]


AUTHMODS = {
    "adobe": Authmod("&salt={salt}&challenge={token}&opaque={token}", "opaque", _adobe),
    "llnw": Authmod("&nonce={token}", "nonce", _llnw),
}


def _md5(text: str) -> "hashlib._Hash":
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False)


def _base64_md5(text: str) -> str:
    return base64.b64encode(_md5(text).digest()).decode()


def _hex_md5(text: str) -> str:
    return _md5(text).hexdigest()


GENERATED_CHARACTERS = 20
"""Of 62 each: 119 random bits, which no one finds from an overheard answer."""

SHORTEST_PASSWORD, LONGEST_PASSWORD = 8, 128
"""Of those that are chosen. Whoever overhears an answer can try passwords on it as fast as MD5 is."""

PASSWORD_UNFIT = f"Use {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} printable characters without blanks."
TAKEN = "There is an encoder's log-in with this user already. Revoke it first, or take another name."


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
        self.answer = f"[ AccessManager.Reject ] : [ authmod={authmod} ] : ?reason=authfailed"


@dataclass(frozen=True, slots=True)
class NewPassword:
    """A log-in and its password, at the only time that the password is known. Its repr doesn't show it."""

    login: EncoderLogin
    password: str = field(repr=False)

    @property
    def server(self) -> str:
        return media_urls.server_of(stream=self.login.stream)

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
            "play_url": media_urls.play_url(stream=self.login.stream),
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
        password = random_secret(characters=GENERATED_CHARACTERS)
    return NewPassword(keep_password(login, password, secrets.token_hex(NONCE_BYTES)), password)


def validate_password(password: str) -> None:
    fits = SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD
    if not fits or " " in password or not password.isprintable():
        raise ValidationError(PASSWORD_UNFIT)


def revoke(*, login: EncoderLogin) -> None:
    """For good. Its sessions end within 2 s, on whichever node they are: nodes read it each second."""
    if login.revoked_at is None:
        login.revoked_at = timezone.now()
        login.save(update_fields=["revoked_at"])


def state(*, login: EncoderLogin, now: datetime | None = None) -> KeyState:
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
    application: Application, answer: LoginAnswer | None, *, is_asked: bool, address: str, now: datetime
) -> EncoderLogin | None:
    """Who logs in with this `connect`; None: nobody, and nobody has to. Raises Challenged, or Refused.

    `is_asked`: it is an encoder, and has no key or token in the application's query, with which it needs no log-in.
    """
    if answer is None:
        if application.encoder_login and is_asked:
            raise Challenged(invitation())
        return None
    method = answer["authmod"]
    if method not in AUTHMODS:
        raise Refused("connect", "login_method", stream=None, key=None)
    if not answer["user"]:
        raise Challenged(invitation(method))
    if not is_encoder_user(answer["user"]):
        raise LoginRefused("login_wrong", method, None)
    return _check_answer(application, answer, address, now)


def _check_answer(application: Application, answer: LoginAnswer, address: str, now: datetime) -> EncoderLogin:
    """Users that there are and users that there are not take the same way, and as long."""
    method, user = answer["authmod"], answer["user"]
    rows = EncoderLogin.objects.select_related("stream__application").filter(revoked_at__isnull=True)
    login = rows.filter(user=user, stream__application=application).first()
    unknown = placeholder(application.name, user)
    known = unknown if login is None else login
    about = {"app": application.name, "user": user, "address": address}

    def ask() -> Challenged:
        return Challenged(need_auth(method, salt=known.salt, now=now, **about))

    if not answer["response"]:
        raise ask()
    token = answer[AUTHMODS[method].echo]
    verdict = evaluate_token(token, now=now, **about)
    if verdict == "expired":
        raise ask()
    stream = login.stream_id if login is not None else None
    if verdict == "foreign":
        raise LoginRefused("login_challenge", method, stream)
    if not is_right_answer(answer, known) or login is None:
        raise LoginRefused("login_wrong", method, stream)
    if not SPENT.spend(token, now):
        raise ask()
    check(login, now)
    return login


def check(login: EncoderLogin, now: datetime, action: Literal["connect", "publish"] = "connect") -> None:
    """Raises Refused for one that lets nobody publish now."""
    current = state(login=login, now=now)
    if current != "active":
        when = login.expires_at or now
        raise Refused(action, f"login_{current}", stream=login.stream_id, key=None, when=when)
    if not login.stream.enabled:
        raise Refused(action, "stream_disabled", stream=login.stream_id, key=None)


def find(*, pk: int) -> EncoderLogin | None:
    return EncoderLogin.objects.select_related("stream__application").filter(pk=pk).first()
