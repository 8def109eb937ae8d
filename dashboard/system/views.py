"""The page of the installation's parts, what open pages ask every few seconds to warn of one that is down, and /healthz
for load balancers and alarms, which is open to anyone, so it names nothing."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.access import safe_view
from dashboard.accounts import refused_seen_at
from dashboard.system.parts import Part, State
from dashboard.system.watch import get_watch
from ingest.services.roles import Ability

NEEDED = ("database", "nodes")
"""Kinds of parts without which the answer is 503."""

DATABASE_WORDS = {
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
        "database": DATABASE_WORDS[report.state("database")],
        "nodes": None if report.nodes is None else len(report.nodes),
        "parts": {part.kind: _word(part) for part in report.parts},
    }
    response = JsonResponse(body, status=200 if fine else 503)
    response._has_been_logged = True  # type: ignore[attr-defined]  # Who asks each few seconds acts on it.
    return response


def _word(part: Part) -> str:
    if part.kind in NEEDED and part.state is State.UNKNOWN:
        return "unknown"
    return "degraded" if part.is_alarming else "ok"


@safe_view(Ability.VIEW)
def system(request: HttpRequest) -> HttpResponse:
    shown = {"report": get_watch().report(), "alarms": []}  # No banner: the table says it all.
    return render(request, "dashboard/system.html", shown)


@never_cache
@safe_view(Ability.VIEW)
def alarms(request: HttpRequest) -> JsonResponse:
    """`{"items": [part, ...], "count": N, "bad_streams": N, "refused": N}`: the parts that pages warn of; how many
    streams are in bad health (null: not known); how many connections were refused that nobody has seen in this browser.
    While the database is away: 503, the same.
    """
    report = get_watch().report()
    items = [part.public() for part in report.alarms]
    refused = report.refused_since(refused_seen_at(request))
    return JsonResponse({"items": items, "count": len(items), "bad_streams": report.bad_streams, "refused": refused})
