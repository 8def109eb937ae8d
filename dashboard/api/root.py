"""The API object, its routers, and what becomes of errors: every one is {"detail": ...}."""

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI
from redis.exceptions import RedisError

from dashboard.api import history, rollups, streams, system
from dashboard.api.auth import allow
from dashboard.permissions import Ability
from dashboard.unavailable import failed

DESCRIPTION = (
    "Send `Authorization: Bearer TOKEN`, made by `manage.py apitoken create NAME --role ROLE`, or use the dashboard's "
    "session. "
    'Lists are `{"items": [...], "count": N}`, newest first; times are ISO 8601 in UTC.'
)

api = NinjaAPI(
    title="rtmpweb",
    version="1",
    description=DESCRIPTION,
    urls_namespace="api-1",
    docs_url="/docs",
    auth=allow(Ability.VIEW),  # For an operation that names no ability of its own: none is open by oversight.
)
api.add_router("", streams.router)
api.add_router("", history.router)
api.add_router("", rollups.router)
api.add_router("", system.router)


@api.exception_handler(OperationalError)
@api.exception_handler(InterfaceError)
@api.exception_handler(RedisError)
def away(request: HttpRequest, error: Exception) -> HttpResponse:
    """The database or Redis is away: say so, rather than that nothing is on air."""
    return failed(request, error)
