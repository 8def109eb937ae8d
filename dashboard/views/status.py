"""Whether this installation works, for load balancers and alarms: open to anyone, so it names nothing."""

from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.system.parts import Part, State
from dashboard.system.watch import get_watch

NEEDED = ("database", "nodes")
"""Kinds of parts without which the answer is 503."""

DATABASE = {
    State.OK: "ok",
    State.DEGRADED: "no writes",
    State.DOWN: "unreachable",
    State.UNKNOWN: "unknown",
}


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """200 {"status": "ok"} when the database answers and a media node runs; 503 "degraded" with what is wrong.

    `parts`: each kind of part, "ok" or "degraded"; of those that make it 503 also "unknown": not heard of yet. Without
    Redis or a worker, or while the database takes no writes, a web process is as healthy as any other.
    `nodes`: how many tell their figures; null while Redis is away.
    """
    report = get_watch().report()
    fine = all(report.state(kind) in (State.OK, State.DEGRADED) for kind in NEEDED)
    body = {
        "status": "ok" if fine else "degraded",
        "database": DATABASE[report.state("database")],
        "nodes": None if report.nodes is None else len(report.nodes),
        "parts": {part.kind: _word(part) for part in report.parts},
    }
    response = JsonResponse(body, status=200 if fine else 503)
    response._has_been_logged = True  # type: ignore[attr-defined]  # Who asks each few seconds acts on it.
    return response


def _word(part: Part) -> str:
    if part.kind in NEEDED and part.state is State.UNKNOWN:
        return "unknown"
    return "degraded" if part.sounds else "ok"
