"""Stream keys: made or imported, found, rotated and revoked; and what is kept in place of a secret: its hash under the
installation's pepper, one kind for each purpose.

A secret exists in three places only: in the answer to its making, with its user, and, as an HMAC, in its row."""

import hashlib
import hmac
import ipaddress
import secrets
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from ingest.credentials import KEY_PREFIX, looks_like_key, mask
from ingest.models import Session, Stream, StreamKey, names
from ingest.models.names import is_plain_name, validate_networks

ALPHABET = string.ascii_letters + string.digits
RANDOM_CHARACTERS = 32
"""Of 62 each: 190.5 random bits."""


def random_secret(prefix: str = "", characters: int = RANDOM_CHARACTERS) -> str:
    """A new secret: the prefix, by which it is recognised, and random characters of base 62."""
    return prefix + "".join(secrets.choice(ALPHABET) for _ in range(characters))


def keyed_hash(purpose: str, text: str) -> str:
    """HMAC-SHA-256 under the installation's pepper, in hexadecimal digits. Purposes can't be taken for one another."""
    message = f"{purpose}\0{text}".encode("utf-8", "surrogatepass")
    return hmac.new(settings.KEY_PEPPER.encode(), message, hashlib.sha256).hexdigest()


MAX_SECRET = 255
NOT_SENDABLE = (
    f"An encoder can't send this key as a name: use 1 to {MAX_SECRET} characters without blanks, / ? # & % and the "
    "backslash."
)
PUBLIC_NAME = "This is a stream's public name, which every player knows: it can't be a key."
TAKEN = "Another key has this secret already."

MAPPED_BITS = 96

MAX_GRACE = timedelta(days=90)

COOL_DOWN = timedelta(seconds=30)
"""After a session that ended over its key's limit the key can't publish for so long; twice as long after each more."""
COOL_DOWN_MOST = timedelta(minutes=15)
COOL_DOWN_MEMORY = timedelta(hours=1)

RIGHTS = ("label", "expires_at", "max_kbps", "over_limit", "allowed_networks", "enabled", "test_only")
"""Which a key's successor has as well."""

KeyState = Literal["active", "disabled", "revoked", "expired"]


class KeyTaken(ValueError):  # noqa: N818 - it reads as what it says.
    """An imported secret that another key has already."""


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key and its secret, at the only time that the secret is known. Its repr doesn't show it."""

    key: StreamKey
    secret: str = field(repr=False)


def generate() -> str:
    """A new secret: `rk_` and 32 random characters of base 62."""
    return random_secret(KEY_PREFIX)


def digest(secret: str) -> str:
    """What a row keeps of a secret: HMAC-SHA-256 under the installation's pepper, in hexadecimal digits."""
    return keyed_hash("stream-key", secret)


def create(
    *,
    stream: Stream,
    label: str = "",
    expires_at: datetime | None = None,
    max_kbps: int | None = None,
    over_limit: str = StreamKey.OverLimit.WARN,
    allowed_networks: Sequence[str] = (),
    enabled: bool = True,
    test_only: bool = False,
    link_of: StreamKey | None = None,
    secret: str | None = None,
) -> NewKey:
    """Makes a key for the stream. `secret` brings one over from another server; nothing of it is kept for recognition.

    Raises ValidationError for networks or a secret that can't be used, KeyTaken when a key has the secret already.
    """
    validate_networks(list(allowed_networks))
    imported = secret is not None
    if secret is None:
        secret = generate()
    else:
        validate_secret(secret=secret, stream=stream)
    key = StreamKey(
        stream=stream,
        label=label,
        enabled=enabled,
        digest=digest(secret),
        prefix="" if imported else mask(secret).removesuffix("…"),
        expires_at=expires_at,
        max_kbps=max_kbps,
        over_limit=over_limit,
        allowed_networks=list(allowed_networks),
        test_only=test_only,
        link_of=link_of,
    )
    try:
        with transaction.atomic():
            key.save(force_insert=True)
    except IntegrityError:
        raise KeyTaken(TAKEN) from None
    return NewKey(key, secret)


def validate_secret(*, secret: str, stream: Stream) -> None:
    """Raises ValidationError for a secret that can't be brought over."""
    if not is_sendable(secret):
        raise ValidationError(NOT_SENDABLE)
    others = Stream.objects.filter(application_id=stream.application_id)
    if others.filter(Q(name=secret) | Q(name__endswith=f"/{secret}")).exists():
        raise ValidationError(PUBLIC_NAME)


def is_sendable(secret: str) -> bool:
    return len(secret) <= MAX_SECRET and is_plain_name(secret)


def find(*, secret: str) -> StreamKey | None:
    """The key that has the secret, whatever its state, with its stream and application."""
    if not secret:
        return None
    return StreamKey.objects.select_related("stream__application").filter(digest=digest(secret)).first()


def state(*, key: StreamKey, now: datetime | None = None) -> KeyState:
    """Whether the key lets anyone publish now. A rotated key stays active until its grace ends."""
    now = now or timezone.now()
    if key.revoked_at is not None and (key.grace_until is None or key.grace_until <= now):
        return "revoked"
    if not key.enabled:
        return "disabled"
    if key.expires_at is not None and key.expires_at <= now:
        return "expired"
    return "active"


def allows(*, key: StreamKey, address: str) -> bool:
    """Whether the address is in one of the key's networks; a key without networks allows every address."""
    if not key.allowed_networks:
        return True
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return any(parsed in _network(network) for network in key.allowed_networks)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """A network of IPv4 addresses written as IPv6 (::ffff:192.0.2.0/120) is one of IPv4, as its addresses are."""
    network = ipaddress.ip_network(text)
    if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= MAPPED_BITS:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return ipaddress.IPv4Network((mapped, network.prefixlen - MAPPED_BITS))
    return network


def rotate(*, key: StreamKey, grace: timedelta = timedelta(0)) -> NewKey:
    """A successor with the same rights. The old key works for `grace` more, then it is revoked.

    Raises ValidationError for a key whose successor could not be used, or would bring a revoked one back.
    """
    now = timezone.now()
    if key.link_of_id is not None:
        raise ValidationError("This is a test link's key: make another link in its place.")
    if key.expires_at is not None and key.expires_at <= now:
        raise ValidationError("This key has expired, and so would its successor. Change when it expires first.")
    if not timedelta(0) <= grace <= MAX_GRACE:
        raise ValidationError(f"A rotated key may go on working for {MAX_GRACE.days} days at most.")
    key.revoked_at, key.grace_until = now, now + grace if grace else None
    with transaction.atomic():
        rows = StreamKey.objects.filter(pk=key.pk, revoked_at__isnull=True)
        if not rows.update(revoked_at=key.revoked_at, grace_until=key.grace_until):
            raise ValidationError("This key was revoked or rotated already. Rotate its successor, or make a new key.")
        made = create(stream=key.stream, **{name: getattr(key, name) for name in RIGHTS})
        StreamKey.objects.filter(link_of=key).update(link_of=made.key)
        return made


def revoke(*, key: StreamKey) -> None:
    """The key's sessions end within 2 s, on whichever node they are: nodes read it each second. So does a grace. Its
    test links are revoked as well."""
    if key.revoked_at is None:
        key.revoked_at = timezone.now()
    key.grace_until = None
    with transaction.atomic():
        key.save(update_fields=["revoked_at", "grace_until"])
        StreamKey.objects.filter(link_of=key, revoked_at__isnull=True).update(revoked_at=key.revoked_at)


def bind_links(*, key: StreamKey) -> None:
    """A key that was changed: its test links are disabled with it, and expire no later than it does."""
    links = StreamKey.objects.filter(link_of=key)
    if not key.enabled:
        links.update(enabled=False)
    if key.expires_at is not None:
        links.filter(expires_at__gt=key.expires_at).update(expires_at=key.expires_at)


def rests_until(*, key: StreamKey, now: datetime) -> datetime | None:
    """Until when the key can't publish, since its sessions stayed over its limit; None: it can.

    Encoders come back as soon as they are dropped, and read no reason. Each time within the hour doubles the wait.
    """
    if key.max_kbps is None or key.over_limit != StreamKey.OverLimit.CLOSE:
        return None
    ended = Session.objects.filter(key=key, end_reason="over_limit", ended_at__gt=now - COOL_DOWN_MEMORY)
    times = list(ended.order_by("-ended_at").values_list("ended_at", flat=True)[:8])
    if not times or times[0] is None:
        return None
    until: datetime = times[0] + min(COOL_DOWN * 2 ** (len(times) - 1), COOL_DOWN_MOST)
    return until if until > now else None


def test_rests_until(*, key: StreamKey, now: datetime) -> datetime | None:
    """Until when a test-only key can't publish, since its last test went on for as long as one may; None: it can."""
    ended = Session.objects.filter(key=key, is_test=True, end_reason="test_over", ended_at__gt=now - names.TEST_REST)
    latest = ended.order_by("-ended_at").values_list("ended_at", flat=True).first()
    return latest + names.TEST_REST if latest is not None else None


def hide_all(names: Iterable[str]) -> dict[str, str]:
    """The names as they may be written down: each of their parts masked that is a key or looks like one."""
    parts = {name: name.split("/") for name in names}
    digests = {part: digest(part) for several in parts.values() for part in several if part}
    keys = StreamKey.objects.filter(digest__in=digests.values()) if digests else StreamKey.objects.none()
    known = set(keys.values_list("digest", flat=True))
    hidden = {part: mask(part) for part, found in digests.items() if looks_like_key(part) or found in known}
    return {name: "/".join(hidden.get(part, part) for part in several) for name, several in parts.items()}
