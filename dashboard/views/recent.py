"""The last minute of every live stream: the wall's sparklines begin with it, instead of growing from nothing."""

from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from dashboard.views.access import require_ability
from ingest.livestore import CompactSample, get_livestore
from ingest.roles import Ability

SPAN_S = 65
"""The sparkline's 60 s, and what its first mean of 5 s needs."""


@require_safe
@require_ability(Ability.VIEW)
def recent(request: HttpRequest) -> JsonResponse:
    """`{"items": {stream id: {"at": [...], "video_kbps": [...], "audio_kbps": [...], "health": [...]}}}`."""
    store = get_livestore()
    live = {stream["id"] for stream in store.read().streams if stream["state"] == "live"}
    response = JsonResponse({"items": {pk: _columns(store.recent(pk)) for pk in live}})
    response["Cache-Control"] = "no-store"
    return response


def _columns(samples: list[CompactSample]) -> dict[str, list[object]]:
    rows = [sample for sample in samples if sample["at"] > samples[-1]["at"] - SPAN_S]
    return {
        "at": [round(row["at"], 1) for row in rows],
        "video_kbps": [round(row["video_kbps"]) for row in rows],
        "audio_kbps": [round(row["audio_kbps"]) for row in rows],
        "health": [row["health"] for row in rows],
    }
