"""Who asks, and may they: a bearer token or a logged-in session, against the same table as pages and WebSockets.

`auth=allow(Ability.KICK)` on an operation is its permission. Nobody known: 401. Known but not allowed: 403.
"""

from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest
from ninja.errors import AuthenticationError, HttpError
from ninja.security import APIKeyCookie, HttpBearer
from ninja.security.base import AuthBase

from dashboard import tokens
from dashboard.actors import Caller
from ingest.roles import Ability, role_abilities, user_abilities


def caller_of(request: HttpRequest) -> Caller:
    """The caller that `allow` found for this request."""
    found = getattr(request, "auth", None)
    assert isinstance(found, Caller)  # noqa: S101  # Every operation has an auth.
    return found


class BearerToken(HttpBearer):
    """`Authorization: Bearer TOKEN`. A wrong token is refused even if the browser's session would do."""

    def __init__(self, ability: Ability) -> None:
        super().__init__()
        self.ability = ability

    def __call__(self, request: HttpRequest) -> Any:
        """Ninja's own logs, under RTMPWEB_DEBUG, what a header that is no bearer's says: it may be a password."""
        scheme = request.headers.get(self.header, "").partition(" ")[0]
        return super().__call__(request) if scheme.lower() == self.openapi_scheme else None

    def authenticate(self, request: HttpRequest, token: str) -> Caller:
        found = tokens.find(secret=token)
        if found is None:
            raise AuthenticationError(message="This token is unknown, expired or revoked.")
        return _allowed(Caller(f"token {found.name}", role_abilities(found.role), None), self.ability)


class LoggedIn(APIKeyCookie):
    """The dashboard's own session. What changes something needs the CSRF token too."""

    param_name = "sessionid"

    def __init__(self, ability: Ability) -> None:
        super().__init__(csrf=True)
        self.ability = ability

    def authenticate(self, request: HttpRequest, key: str | None) -> Caller | None:
        user = request.user
        if not isinstance(user, User):
            return None
        return _allowed(Caller(user.get_username(), user_abilities(user), user), self.ability)


def _allowed(caller: Caller, ability: Ability) -> Caller:
    if ability not in caller.abilities:
        raise HttpError(403, f"Not allowed: this needs the ability {ability.value!r}.")
    return caller


def allow(ability: Ability) -> list[AuthBase]:
    """The `auth` of an operation that needs the ability."""
    return [BearerToken(ability), LoggedIn(ability)]
