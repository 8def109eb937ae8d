"""Whether this installation works, for load balancers and alarms: open to anyone, so it names nothing."""

from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.system.parts import State
from dashboard.system.watch import get_watch


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """200 {"status": "ok"} when the database answers and a media node ticks; 503 "degraded" with what is wrong.

    `parts`: each kind of part, "ok" or "degraded". A worker that is away makes no web process unhealthy.
    """
    report = get_watch().report()
    database, nodes = report.state("database") is not State.DOWN, len(report.nodes or ())
    fine = database and nodes > 0
    body = {
        "status": "ok" if fine else "degraded",
        "database": "ok" if database else "unreachable",
        "nodes": nodes,
        "parts": {part.kind: "degraded" if part.sounds else "ok" for part in report.parts},
    }
    return JsonResponse(body, status=200 if fine else 503)
