"""Where secrets are taken out: nothing past this file sees a stream key or a token but in a `credential` field.

A client presents its secret in one of three ways:

    rtmp://host/live        + publishing name KEY           the name itself
    rtmp://host/live        + name  cam1?key=KEY            the name's query (players: ?token=TOKEN)
    rtmp://host/live?key=KEY + name  cam1                   the app's query, which tcUrl, swfUrl and pageUrl may repeat
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any
from urllib.parse import unquote

from ingest.rtmp import amf0, amf3

SECRET_FIELDS = ("key", "token")
"""Query fields that carry a credential, in the order of precedence, whatever their case."""

KEY_PREFIX = "rk_"
KEY_MIN_LENGTH = 20
"""What generated keys look like: enough to recognise one where a public name is expected."""

SHORTEST_SOUGHT = 4
"""Characters of a credential that is looked for within other texts: a shorter one would be found everywhere."""

HOSTED_SUFFIX = "/_definst_"
"""The default instance, as some encoders write it after the app's name."""

MAX_DEPTH = 16

TEXTLESS = (NoneType, bool, int, float, amf0.Date, amf0.Singleton)

_SECRET_IN_TEXT = re.compile(r"(?i)([?&;](?:key|token)=)([^&#;\s]*)")
_USER_INFO = re.compile(r"(?<=://)[^/?#@\s]*@")
_KEY_IN_TEXT = re.compile(rf"{KEY_PREFIX}[\w-]{{{KEY_MIN_LENGTH - len(KEY_PREFIX)},}}")
_SECRET_IN_BYTES = re.compile(rb"(?i:[?&;](?:key|token)=)|://[^/?#@\s]*@|" + _KEY_IN_TEXT.pattern.encode())
_SECRET_MARKS = (b"key=", b"token=", b"://", KEY_PREFIX.encode())
"""One of them is in whatever the pattern finds, and looking for them takes a tenth of the time."""


@dataclass(frozen=True, slots=True)
class Target:
    """An app or a stream name, its credential taken out of its query."""

    name: str
    """Without query, trailing '/' and default instance. A publishing name may be a key: see `split_publish`."""
    credential: str
    query: dict[str, str]
    """The whole query, decoded, credentials masked."""


@dataclass(frozen=True, slots=True)
class Presented:
    """A publishing name as it may be shown, and the credential that came with it."""

    name: str
    credential: str
    credential_is_name: bool
    query: dict[str, str]


def mask(secret: str) -> str:
    """Enough to recognise a secret by, too little to use it: 'rk_7Qd4…'; an unknown form shows at most 3 characters."""
    if not secret:
        return ""
    shown = len(KEY_PREFIX) + 4 if looks_like_key(secret) else min(3, len(secret) // 4)
    return f"{secret[:shown]}…"


def looks_like_key(text: str) -> bool:
    return text.startswith(KEY_PREFIX) and len(text) >= KEY_MIN_LENGTH


def split_app(app: str) -> Target:
    """'live/?key=K&x=1' -> live, K, {key: masked, x: 1}."""
    path, _, query = app.partition("?")
    fields = _fields(query)
    name = path.strip("/").removesuffix(HOSTED_SUFFIX).rstrip("/")
    return Target(scrub_text(name), _credential(fields), _masked(fields))


def split_publish(raw: str, app_credential: str) -> Presented:
    """The credential is the query's, else the app's, else the name itself (then shown masked)."""
    path, _, query = raw.partition("?")
    fields = _fields(query)
    name = path.strip("/")
    credential = _credential(fields) or app_credential
    if not credential or looks_like_key(name) or name == credential:
        return Presented(mask(name), name, True, _masked(fields))
    return Presented(_public(name, credential), credential, False, _masked(fields))


def split_play(raw: str, app_credential: str) -> Presented:
    """Players use the public name; one that was given a publisher's key by mistake has it masked."""
    path, _, query = raw.partition("?")
    fields = _fields(query)
    credential = _credential(fields) or app_credential
    return Presented(_public(path.strip("/"), credential), credential, False, _masked(fields))


def scrub_text(text: str, *secrets: str) -> str:
    """Masks `key=` and `token=` values, user information in URLs, words that look like keys, and the given secrets."""
    for secret in secrets:
        if len(secret) >= SHORTEST_SOUGHT and secret in text:
            text = text.replace(secret, mask(secret))
    text = _SECRET_IN_TEXT.sub(lambda found: found[1] + mask(unquote(found[2])), text)
    text = _USER_INFO.sub("…@", text)
    if KEY_PREFIX in text:
        text = _KEY_IN_TEXT.sub(lambda found: mask(found[0]), text)
    return text


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


def scrub(value: Any, *secrets: str, depth: int = 0) -> Any:
    """A value of AMF with every text in it masked; what is nested too deep, or within itself, or may hide a text in a
    form of its own, such as bytes, becomes None."""
    if isinstance(value, str):
        return scrub_text(value, *secrets)
    if depth >= MAX_DEPTH or isinstance(value, amf0.Reference):
        return None
    if isinstance(value, Mapping):
        found = {scrub_text(str(key), *secrets): scrub(item, *secrets, depth=depth + 1) for key, item in value.items()}
        return amf0.EcmaArray(found) if isinstance(value, amf0.EcmaArray) else found
    if isinstance(value, list | tuple):
        return [scrub(item, *secrets, depth=depth + 1) for item in value]
    if isinstance(value, amf3.Externalizable):
        return scrub(value.value, *secrets, depth=depth + 1)
    return value if isinstance(value, TEXTLESS) else None


def _public(name: str, credential: str) -> str:
    """A name as it may be shown: clients also write their key behind a prefix ('flv:KEY') or after a '/'."""
    segments = (mask(segment) if segment and segment == credential else segment for segment in name.split("/"))
    return scrub_text("/".join(segments))


def _fields(query: str) -> dict[str, str]:
    """Split on '&' and the first '=' only: values come unencoded (base64's '=') as well as encoded. The first wins."""
    fields: dict[str, str] = {}
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


def _masked(fields: Mapping[str, str]) -> dict[str, str]:
    """Values and names: a field without a value may be a key that stands alone, and is masked whatever its form."""
    shown = {}
    for name, value in fields.items():
        if name.lower() in SECRET_FIELDS:
            shown[name] = mask(value)
        else:
            shown[scrub_text(name) if value else mask(name)] = scrub_text(value)
    return shown
