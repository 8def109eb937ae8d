"""/metrics for Prometheus, for an API token (or a logged-in user) that may view."""

from functools import cache

from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.metrics import Exposition
from dashboard.views.access import bearer_abilities, request_abilities
from ingest.roles import Ability


@cache
def exposition() -> Exposition:
    """This process's."""
    return Exposition()


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Nobody known: 401. Known but not allowed: 403."""
    abilities = bearer_abilities(request)
    if abilities is None:
        known, abilities = request.user.is_authenticated, request_abilities(request)
    else:
        known = bool(abilities)
    if not known:
        refused = HttpResponse("Send `Authorization: Bearer TOKEN`.\n", status=401, content_type="text/plain")
        refused["WWW-Authenticate"] = "Bearer"
        return refused
    if Ability.VIEW not in abilities:
        return HttpResponse("This role may not view.\n", status=403, content_type="text/plain")
    body, content_type = exposition().text(request.headers.get("Accept", ""))
    return HttpResponse(body, content_type=content_type)
