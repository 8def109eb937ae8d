"""Where secrets are taken out: nothing past this file sees a stream key or a token but in a `credential` field.

A client presents its secret in one of three ways:

    rtmp://host/live        + publishing name KEY           the name itself
    rtmp://host/live        + name  cam1?key=KEY            the name's query (players: ?token=TOKEN)
    rtmp://host/live?key=KEY + name  cam1                   the app's query, which tcUrl, swfUrl and pageUrl may repeat

Encoders that log in answer a challenge in the app's query, `live?authmod=adobe&user=...&response=...`. Then the user
and all that was computed for the answer are taken out too.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, cast
from urllib.parse import unquote

from ingest.contracts import LoginAnswer
from ingest.rtmp.amf import Date, EcmaArray, Reference, Singleton, amf3

SECRET_FIELDS = ("key", "token")
"""Query fields that carry a credential, in the order of precedence, whatever their case."""

LOGIN = "authmod"
"""The query field that makes others those of an encoder's log-in."""

LOGIN_FIELDS = ("user", "salt", "opaque", "nonce", "challenge", "cnonce", "nc", "response")

KEY_PREFIX = "rk_"
KEY_MIN_LENGTH = 20
"""What generated keys look like: enough to recognise one where a public name is expected."""

SHORTEST_SOUGHT = 4
"""Characters of a credential that is looked for within other texts: a shorter one would be found everywhere."""

HOSTED_SUFFIX = "/_definst_"
"""The default instance, as some encoders write it after the app's name."""

LONGEST_QUERY = 4096
"""Characters of a query that is read. A longer one counts as none, so whoever has a key in it is refused for want of
one: each of its fields would cost some microseconds, and it comes before any decision. Real ones have under 1000."""

MASK = "…"
"""Stands for what was masked, or for the rest of it."""

MAX_DEPTH = 16

TEXTLESS = (NoneType, bool, int, float, Date, Singleton)

_SECRET_IN_TEXT = re.compile(r"(?i)([?&;](?:key|token)=)([^&#;\s]*)")
_LOGIN_IN_TEXT = re.compile(rf"(?i)([?&;](?:{'|'.join(LOGIN_FIELDS)})=)[^&#\s]*")
_USER_INFO = re.compile(r"(?<=://)[^/?#@\s]*@")
_KEY_IN_TEXT = re.compile(rf"{KEY_PREFIX}[\w-]{{{KEY_MIN_LENGTH - len(KEY_PREFIX)},}}")
_SECRET_IN_BYTES = re.compile(rb"(?i:[?&;](?:key|token|authmod)=)|://[^/?#@\s]*@|" + _KEY_IN_TEXT.pattern.encode())
_SECRET_MARKS = (b"key=", b"token=", b"authmod=", b"://", KEY_PREFIX.encode())
"""One of them is in whatever the pattern finds, and looking for them takes a tenth of the time."""


@dataclass(frozen=True, slots=True)
class Target:
    """An app or a stream name, its credential taken out of its query."""

    name: str
    """Without query, trailing '/' and default instance. A publishing name may be a key: see `split_publish`."""
    credential: str
    query: dict[str, str]
    """The whole query, decoded, credentials masked."""
    login: LoginAnswer | None


@dataclass(frozen=True, slots=True)
class Presented:
    """A publishing name as it may be shown, and the credential that came with it."""

    name: str
    credential: str
    credential_is_name: bool
    query: dict[str, str]


class Secrets:
    """What a connection has presented so far, whatever for: the latest of them, each once."""

    __slots__ = ("_found",)

    MOST = 16

    def __init__(self) -> None:
        self._found: dict[str, None] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def add(self, secret: str) -> None:
        if secret:
            self._found.pop(secret, None)
            self._found[secret] = None
        if len(self._found) > self.MOST:
            del self._found[next(iter(self._found))]

    def discard(self, text: str) -> None:
        """It was no secret."""
        self._found.pop(text, None)


def mask(secret: str) -> str:
    """Enough to recognise a secret by, too little to use it: 'rk_7Qd4…'; an unknown form shows at most 3 characters."""
    if not secret:
        return ""
    shown = len(KEY_PREFIX) + 4 if looks_like_key(secret) else min(3, len(secret) // 4)
    return f"{secret[:shown]}{MASK}"


def is_masked(text: str) -> bool:
    """Whether something was, in all likelihood: names hardly have the sign."""
    return MASK in text


def looks_like_key(text: str) -> bool:
    return text.startswith(KEY_PREFIX) and len(text) >= KEY_MIN_LENGTH


def split_app(app: str) -> Target:
    """'live/?key=K&x=1' -> live, K, {key: masked, x: 1}."""
    path, _, query = app.partition("?")
    fields = query_fields(query)
    name = path.strip("/").removesuffix(HOSTED_SUFFIX).rstrip("/")
    return Target(scrub_text(name), _credential(fields), _masked(fields), _login(path, fields))


def split_publish(raw: str, app_credential: str) -> Presented:
    """The credential is the query's, else the app's, else the name itself (then shown masked)."""
    path, _, query = raw.partition("?")
    fields = query_fields(query)
    name = path.strip("/")
    credential = _credential(fields) or app_credential
    if not credential or looks_like_key(name) or name == credential:
        return Presented(mask(name), name, True, _masked(fields))
    return Presented(_public(name, credential), credential, False, _masked(fields))


def split_play(raw: str, app_credential: str) -> Presented:
    """Players use the public name; one that was given a publisher's key by mistake has it masked."""
    path, _, query = raw.partition("?")
    fields = query_fields(query)
    credential = _credential(fields) or app_credential
    return Presented(_public(path.strip("/"), credential), credential, False, _masked(fields))


def scrub_text(text: str, *secrets: str) -> str:
    """Masks `key=` and `token=` values, what an encoder logs in with, user information in URLs, words that look like
    keys, and the given secrets."""
    for secret in secrets:
        if len(secret) >= SHORTEST_SOUGHT and secret in text:
            text = text.replace(secret, mask(secret))
    text = _SECRET_IN_TEXT.sub(_mask_found, text)
    if f"{LOGIN}=" in text.lower():
        text = _LOGIN_IN_TEXT.sub(r"\1…", text)
    text = _USER_INFO.sub("…@", text)
    if KEY_PREFIX in text:
        text = _KEY_IN_TEXT.sub(lambda found: mask(found[0]), text)
    return text


def _mask_found(found: re.Match[str]) -> str:
    name, secret = found.groups()
    # A short one hides behind a long form; and to decode it, for all that may be in a text, would take too long.
    return f"{name}…" if "%" in secret else name + mask(secret)


def may_hold_secret(payload: bytes, secret: str) -> bool:
    """Whether `scrub` would find anything in the texts of this AMF message: one look instead of one at each text."""
    quoted = len(secret) >= SHORTEST_SOUGHT and secret.encode() in payload
    if not quoted:
        folded = payload.lower()
        quoted = any(mark in folded for mark in _SECRET_MARKS) and _SECRET_IN_BYTES.search(payload) is not None
    return quoted


def scrub_url(url: str, app: str, *secrets: str) -> str:
    """tcUrl, swfUrl or pageUrl: masked, and what stands after the app in the path, which may be a key, taken off."""
    head, question, query = url.partition("?")
    scheme, separator, rest = head.partition("://")
    host, slash, path = rest.partition("/")
    if separator and slash and app and path.startswith(f"{app}/"):
        head = f"{scheme}://{host}/{app}"
    return scrub_text(head + question + query, *secrets)


def scrub(value: Any, *secrets: str) -> Any:
    """A value of AMF with every text in it masked; what is nested too deep, or within itself, or may hide a text in a
    form of its own, such as bytes, becomes None."""
    return _Scrubber(secrets).value(value, 0)


class _Scrubber:
    """Scans each text once: in AMF3 it may be a few bytes on the wire where it comes again."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._secrets = secrets
        self._texts: dict[str, str] = {}

    def value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if depth >= MAX_DEPTH or isinstance(value, Reference):
            return None
        if isinstance(value, Mapping):
            found = {self._text(str(key)): self.value(item, depth + 1) for key, item in value.items()}
            return EcmaArray(found) if isinstance(value, EcmaArray) else found
        if isinstance(value, list | tuple):
            return [self.value(item, depth + 1) for item in value]
        if isinstance(value, amf3.Externalizable):
            return self.value(value.value, depth + 1)
        return value if isinstance(value, TEXTLESS) else None

    def _text(self, text: str) -> str:
        found = self._texts.get(text)
        if found is None:
            found = self._texts[text] = scrub_text(text, *self._secrets)
        return found


def _public(name: str, credential: str) -> str:
    """A name as it may be shown: clients also write their key behind a prefix ('flv:KEY') or after a '/'."""
    segments = (mask(segment) if segment and segment == credential else segment for segment in name.split("/"))
    return scrub_text("/".join(segments))


def query_fields(query: str) -> dict[str, str]:
    """Split on '&' and the first '=' only: values come unencoded (base64's '=') as well as encoded. The first wins."""
    fields: dict[str, str] = {}
    if len(query) > LONGEST_QUERY:
        return fields
    for item in query.lstrip("?").split("&"):
        key, _, value = item.partition("=")
        if key:
            fields.setdefault(unquote(key), unquote(value))
    return fields


def _credential(fields: Mapping[str, str]) -> str:
    found: dict[str, str] = {}
    for name, value in fields.items():
        if value:
            found.setdefault(name.lower(), value)
    return next((found[field] for field in SECRET_FIELDS if field in found), "")


def is_token(query: Mapping[str, str]) -> bool:
    """Of a query, masked or not: whether its credential came as a token. One that came as a key as well was that."""
    given = {name.lower() for name, value in query.items() if value}
    return next((field for field in SECRET_FIELDS if field in given), "") == "token"


def _login(app: str, fields: Mapping[str, str]) -> LoginAnswer | None:
    if not fields.get(LOGIN):
        return None
    answer = {name: fields.get(name, "") for name in (LOGIN, *LOGIN_FIELDS)}
    return cast("LoginAnswer", answer | {"app": app})


def _masked(fields: Mapping[str, str]) -> dict[str, str]:
    """Values and names: a field without a value may be a key that stands alone, and is masked whatever its form."""
    shown = {}
    for name, value in fields.items():
        if name.lower() in SECRET_FIELDS:
            shown[name] = mask(value)
        elif name.lower() in LOGIN_FIELDS and LOGIN in map(str.lower, fields):
            shown[name] = "…"
        else:
            shown[scrub_text(name) if value else mask(name)] = scrub_text(value)
    return shown
