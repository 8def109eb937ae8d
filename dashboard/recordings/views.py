"""What was recorded: the page that lists it, the download, the deletion."""

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard import zones
from dashboard.access import actor_of, require_ability
from dashboard.lists import narrow
from dashboard.recordings import queries as service
from dashboard.recordings.queries import NOTE_LENGTH
from ingest import clean
from ingest.models import Application, Recording
from ingest.services import actions as services_actions
from ingest.services.recordings import RecordingProblem
from ingest.services.roles import Ability

PAGE_SIZE = 50

LOOKUPS = {
    "app": "application__name",
    "name": "name__contains",
    "state": "state",
    "since": "started_at__gte",
    "until": "started_at__lt",
}


@require_safe
@require_ability(Ability.VIEW)
def recordings(request: HttpRequest) -> HttpResponse:
    """Newest first, by pages. `since` and `until` are days, both included. What can't be understood filters nothing."""
    shown = {name: request.GET.get(name, "").strip().replace("\0", "")[:255] for name in LOOKUPS}
    since, until = zones.days(shown["since"], shown["until"])
    values: dict[str, Any] = shown | {"since": since, "until": until}
    rows = narrow(service.rows(), LOOKUPS, values)
    query = request.GET.copy()
    query.pop("page", None)
    return render(
        request,
        "dashboard/recordings.html",
        {
            "page": Paginator(rows, PAGE_SIZE).get_page(request.GET.get("page")),
            "total": rows.aggregate(size=Sum("size_bytes"))["size"] or 0,
            "filters": shown,
            "is_filtered": any(shown.values()),
            "apps": list(Application.objects.values_list("name", flat=True)),
            "states": Recording.State.choices,
            "query": query.urlencode(),
            "note_length": NOTE_LENGTH,
        },
    )


@require_safe
@require_ability(Ability.VIEW)
def download(request: HttpRequest, pk: int) -> HttpResponse:
    try:
        return service.send(get_object_or_404(service.rows(), pk=pk), actor=actor_of(request))
    except service.MediaOff as problem:
        return render(request, "dashboard/media_off.html", {"problem": problem}, status=503)


@require_POST
@require_ability(Ability.DELETE_RECORDINGS)
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    """With a `note` for the record. 409 and the reason where it can't be done now."""
    recording = get_object_or_404(service.rows(), pk=pk)
    words, status = f"The recording {recording.name} is deleted.", 200
    try:
        note = clean.text(request.POST.get("note", "").strip(), NOTE_LENGTH)
        services_actions.delete_recording(actor_of(request), recording, note=note)
    except RecordingProblem as problem:
        words, status = str(problem), 409
    if request.accepts("text/html"):
        messages.add_message(request, messages.SUCCESS if status == 200 else messages.WARNING, words)
        return HttpResponseRedirect(reverse("dashboard:recordings"))
    return JsonResponse({"detail": words}, status=status)
