"""The API object, its routers, and what becomes of errors: every one is {"detail": ...}."""

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse

from dashboard import converters  # noqa: F401 - registers `stream`.
from dashboard.api import (
    acts,
    alerts,
    applications,
    audit,
    history,
    keys,
    nodes,
    recordings,
    reports,
    rollups,
    samples,
    sessions,
    streams,
    system,
)
from dashboard.api.auth import allow
from dashboard.api.docs import Api, Page, gate
from dashboard.unavailable import failed
from ingest.redis_errors import redis_errors
from ingest.roles import Ability

DESCRIPTION = (
    "Send `Authorization: Bearer TOKEN`, made by `manage.py apitoken create NAME --role ROLE`, or use the dashboard's "
    "session. "
    'Lists are `{"items": [...], "count": N}`, newest first; times are ISO 8601 in UTC.'
)

api = Api(
    title="rtmpweb",
    version="1",
    description=DESCRIPTION,
    urls_namespace="api-1",
    docs=Page(),
    docs_url="/docs",
    docs_decorator=gate,
    auth=allow(Ability.VIEW),  # For an operation that names no ability of its own: none is open by oversight.
)
api.add_router("", streams.router)
api.add_router("", acts.router)
api.add_router("", samples.router)
api.add_router("", history.router)
api.add_router("", sessions.router)
api.add_router("", recordings.router)
api.add_router("", rollups.router)
api.add_router("", reports.router)
api.add_router("", nodes.router)
api.add_router("", applications.router)
api.add_router("", keys.router)
api.add_router("", audit.router)
api.add_router("", alerts.router)
api.add_router("", system.router)


@api.exception_handler(OperationalError)
@api.exception_handler(InterfaceError)
def away(request: HttpRequest, error: Exception) -> HttpResponse:
    """The database or Redis is away: say so, rather than that nothing is on air."""
    return failed(request, error)


for _kind in redis_errors():
    api.exception_handler(_kind)(away)
