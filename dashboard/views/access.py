"""The gate before every page: who is not logged in goes to the log-in page, who may not is told so."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase, JsonResponse

from dashboard import tokens
from ingest.roles import NONE, Ability, role_abilities, user_abilities

View = TypeVar("View", bound=Callable[..., HttpResponseBase])

NO_ROLE = "This account has no role yet. Ask an admin to give it one: viewer, operator, key manager, analyst or admin."
LACKING = "Your role does not allow this. Ask an admin."


def request_abilities(request: HttpRequest) -> frozenset[Ability]:
    """What the request's user may do; asked of the database once a request."""
    found = getattr(request, "_abilities", None)
    if found is None:
        found = user_abilities(request.user)
        request._abilities = found  # type: ignore[attr-defined]
    return cast(frozenset[Ability], found)


def bearer_abilities(request: HttpRequest) -> frozenset[Ability] | None:
    """What the bearer token of a request may do: nothing, if it opens nothing. None: the request brings none."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    token = tokens.find(secret=secret.strip())
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
