"""Whether this installation works, for load balancers and alarms: open to anyone, so it names nothing."""

from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.system.parts import State
from dashboard.system.watch import get_watch


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """200 {"status": "ok"} when the database answers and a media node runs; 503 "degraded" with what is wrong.

    `parts`: each kind of part, "ok" or "degraded". Without Redis or a worker a web process is as healthy as any other.
    `nodes`: how many tell their figures; null while Redis is away.
    """
    report = get_watch().report()
    database = report.state("database") is not State.DOWN
    fine = database and report.state("nodes") in (State.OK, State.DEGRADED)
    body = {
        "status": "ok" if fine else "degraded",
        "database": "ok" if database else "unreachable",
        "nodes": None if report.nodes is None else len(report.nodes),
        "parts": {part.kind: "degraded" if part.sounds else "ok" for part in report.parts},
    }
    response = JsonResponse(body, status=200 if fine else 503)
    response._has_been_logged = True  # type: ignore[attr-defined]  # Who asks each few seconds acts on it.
    return response
