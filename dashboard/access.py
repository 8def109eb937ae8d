"""Who asks, and may they: API tokens, the gate before every page, and who goes into the audit log.

A token's secret exists only in the answer to its making and, as an HMAC, in its row. Who is not logged in goes to the
log-in page, who may not is told so. What each role may do is in `ingest.roles`."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, TypeVar, cast

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import Q
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboard.models import ApiToken
from ingest.services import audit
from ingest.services.audit import Actor
from ingest.services.keys import keyed_hash, random_secret
from ingest.services.roles import NONE, ROLES, Ability, role_abilities, user_abilities

logger = logging.getLogger(__name__)

TOKEN_PREFIX = "rt_"  # noqa: S105 - what every token begins with.

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


def token_digest(secret: str) -> str:
    """What a row keeps of a secret: HMAC-SHA-256 under the installation's pepper, in hexadecimal digits."""
    return keyed_hash("api-token", secret)


def create_token(
    *, name: str, role: str, created_by: User | None = None, expires_at: datetime | None = None
) -> NewToken:
    """Make a token. Raises NameTaken, or ValueError for what is no role."""
    if role not in ROLES:
        raise ValueError(f"{role!r} is no role: expected one of {', '.join(ROLES)}.")
    secret = random_secret(TOKEN_PREFIX)
    try:
        with transaction.atomic():
            token = ApiToken.objects.create(
                name=name,
                role=role,
                digest=token_digest(secret),
                prefix=secret[:SHOWN_CHARACTERS],
                created_by=created_by,
                expires_at=expires_at,
            )
    except IntegrityError:
        raise NameTaken(f"A token named {name!r} exists: revoke it first, or take another name.") from None
    return NewToken(token, secret)


def find_token(*, secret: str, now: datetime | None = None) -> ApiToken | None:
    """The token that the secret opens, unless it is revoked or expired; notes that it was used."""
    now = now or timezone.now()
    valid = Q(expires_at__isnull=True) | Q(expires_at__gt=now)
    token = ApiToken.objects.filter(valid, digest=token_digest(secret), revoked_at__isnull=True).first()
    if token is not None and (token.last_used_at is None or token.last_used_at <= now - USED_STEP):
        try:
            with transaction.atomic():
                ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
        except DatabaseError as error:  # A busy database must not refuse who may only read.
            logger.warning("The use of token %s was not noted: %s", token.name, type(error).__name__)
    return token


def revoke_token(*, token: ApiToken) -> None:
    """The token opens nothing from now on. Revoking again changes nothing."""
    if token.revoked_at is None:
        token.revoked_at = timezone.now()
        token.save(update_fields=["revoked_at"])


@dataclass(frozen=True, slots=True)
class ApiCaller:
    """Who asks the API, as `dashboard.api_base` finds it. A token has no user."""

    name: str
    abilities: frozenset[Ability]
    user: User | None


def actor_of(request: HttpRequest) -> Actor:
    """The user that is logged in; in an operation of the API its caller, which may be a token ("token NAME")."""
    caller = getattr(request, "auth", None)
    if isinstance(caller, ApiCaller):
        return Actor(caller.name, caller.user, audit.client_address(request))
    return audit.actor_of(request)


View = TypeVar("View", bound=Callable[..., HttpResponseBase])

NO_ROLE = "Your account has no role yet: ask an administrator to give you one (Settings, Users and roles)."
LACKING = "Your role does not allow this: ask an administrator for another (Settings, Users and roles)."


def request_abilities(request: HttpRequest) -> frozenset[Ability]:
    """What the request's user may do; asked of the database once a request."""
    abilities = getattr(request, "_abilities", None)
    if abilities is None:
        abilities = user_abilities(request.user)
        request._abilities = abilities  # type: ignore[attr-defined]
    return cast(frozenset[Ability], abilities)


def bearer_abilities(request: HttpRequest) -> frozenset[Ability] | None:
    """What the bearer token of a request may do: nothing, if it opens nothing. None: the request brings none."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    token = find_token(secret=secret.strip())
    return role_abilities(token.role) if token else NONE


def require_ability(ability: Ability) -> Callable[[View], View]:
    """Let a view run only for a logged-in user with the ability; others get the log-in page (scripts: 401) or a 403."""

    def decorate(view: View) -> View:
        @wraps(view)
        def gate(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                if not request.accepts("text/html"):  # A script would take the log-in page for success.
                    return JsonResponse({"detail": "Log in first."}, status=401)
                return redirect_to_login(request.get_full_path())
            abilities = request_abilities(request)
            if ability not in abilities:
                raise PermissionDenied(LACKING if abilities else NO_ROLE)
            return view(request, *args, **kwargs)

        return cast(View, gate)

    return decorate


def safe_view(ability: Ability) -> Callable[[View], View]:
    """A view that only reads (GET, HEAD), for who has the ability."""
    return lambda view: require_safe(require_ability(ability)(view))


def post_view(ability: Ability) -> Callable[[View], View]:
    """A view that does something (POST), for who has the ability."""
    return lambda view: require_POST(require_ability(ability)(view))
