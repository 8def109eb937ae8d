"""The API object, its routers, and what becomes of errors: every one is {"detail": ...}."""

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse

from dashboard import converters  # noqa: F401 - registers `stream`.
from dashboard.api.acts import router as acts_router
from dashboard.api.alerts import router as alerts_router
from dashboard.api.applications import router as applications_router
from dashboard.api.audit import router as audit_router
from dashboard.api.auth import allow
from dashboard.api.docs import Api, Page, gate
from dashboard.api.history import router as history_router
from dashboard.api.keys import router as keys_router
from dashboard.api.nodes import router as nodes_router
from dashboard.api.recordings import router as recordings_router
from dashboard.api.reports import router as reports_router
from dashboard.api.rollups import router as rollups_router
from dashboard.api.samples import router as samples_router
from dashboard.api.sessions import router as sessions_router
from dashboard.api.streams import router as streams_router
from dashboard.api.system import router as system_router
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
api.add_router("", streams_router)
api.add_router("", acts_router)
api.add_router("", samples_router)
api.add_router("", history_router)
api.add_router("", sessions_router)
api.add_router("", recordings_router)
api.add_router("", rollups_router)
api.add_router("", reports_router)
api.add_router("", nodes_router)
api.add_router("", applications_router)
api.add_router("", keys_router)
api.add_router("", audit_router)
api.add_router("", alerts_router)
api.add_router("", system_router)


@api.exception_handler(OperationalError)
@api.exception_handler(InterfaceError)
def away(request: HttpRequest, error: Exception) -> HttpResponse:
    """The database or Redis is away: say so, rather than that nothing is on air."""
    return failed(request, error)


for _kind in redis_errors():
    api.exception_handler(_kind)(away)
