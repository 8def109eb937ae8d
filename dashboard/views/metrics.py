"""/metrics for Prometheus, for an API token (or a logged-in user) that may view."""

from functools import cache

from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard import tokens
from dashboard.metrics import Exposition
from dashboard.permissions import Ability, role_abilities
from dashboard.views.access import request_abilities


@cache
def exposition() -> Exposition:
    """This process's."""
    return Exposition()


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Nobody known: 401. Known but not allowed: 403."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        token = tokens.find(secret=secret.strip())
        known, abilities = token is not None, role_abilities(token.role) if token else frozenset()
    else:
        known, abilities = request.user.is_authenticated, request_abilities(request)
    if not known:
        refused = HttpResponse("Send `Authorization: Bearer TOKEN`.\n", status=401, content_type="text/plain")
        refused["WWW-Authenticate"] = "Bearer"
        return refused
    if Ability.VIEW not in abilities:
        return HttpResponse("This role may not view.\n", status=403, content_type="text/plain")
    body, content_type = exposition().text(request.headers.get("Accept", ""))
    return HttpResponse(body, content_type=content_type)
