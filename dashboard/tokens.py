"""API tokens: made, found by their secret, and revoked.

A secret exists only in the answer to its making and, as an HMAC, in its row.
"""

import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from dashboard.models import ApiToken
from ingest.pepper import keyed_hash, random_secret
from ingest.roles import ROLES

logger = logging.getLogger(__name__)

PREFIX = "rt_"

SHOWN_CHARACTERS = 7
"""Of a secret, its prefix included, kept for recognition."""

USED_STEP = timedelta(minutes=1)
"""`last_used_at` is written at most this often, so that a busy script does not make every read a write."""


class NameTaken(ValueError):  # noqa: N818  # An answer, not a fault.
    """A token of this name exists and is not revoked."""


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token and its secret, at the only time that the secret is known. Its repr doesn't show it."""

    token: ApiToken
    secret: str = field(repr=False)


def digest(secret: str) -> str:
    """What a row keeps of a secret: HMAC-SHA-256 under the installation's pepper, in hexadecimal digits."""
    return keyed_hash("api-token", secret)


def create(*, name: str, role: str, created_by: User | None = None, expires_at: datetime | None = None) -> NewToken:
    """Make a token. Raises NameTaken, or ValueError for what is no role."""
    if role not in ROLES:
        raise ValueError(f"{role!r} is no role: expected one of {', '.join(ROLES)}.")
    secret = random_secret(PREFIX)
    token = ApiToken(
        name=name,
        role=role,
        digest=digest(secret),
        prefix=secret[:SHOWN_CHARACTERS],
        created_by=created_by,
        expires_at=expires_at,
    )
    try:
        with transaction.atomic():
            token.save(force_insert=True)
    except IntegrityError:
        raise NameTaken(f"A token named {name!r} exists: revoke it first, or take another name.") from None
    return NewToken(token, secret)


def find(*, secret: str, now: datetime | None = None) -> ApiToken | None:
    """The token that the secret opens, unless it is revoked or expired; notes that it was used."""
    now = now or timezone.now()
    valid = Q(expires_at__isnull=True) | Q(expires_at__gt=now)
    token = ApiToken.objects.filter(valid, digest=digest(secret), revoked_at__isnull=True).first()
    if token is not None and (token.last_used_at is None or token.last_used_at <= now - USED_STEP):
        try:
            with transaction.atomic():
                ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
        except DatabaseError as error:  # A busy database must not refuse who may only read.
            logger.warning("The use of token %s was not noted: %s", token.name, type(error).__name__)
    return token


def revoke(*, token: ApiToken) -> None:
    """The token opens nothing from now on. Revoking again changes nothing."""
    if token.revoked_at is None:
        token.revoked_at = timezone.now()
        token.save(update_fields=["revoked_at"])
