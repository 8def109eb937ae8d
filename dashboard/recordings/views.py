"""What was recorded: the page that lists it, the download, the deletion."""

from functools import partial

from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse

from dashboard import zones
from dashboard.access import actor_of, post_view, safe_view
from dashboard.lists import active_filters, answer_action, narrow, page_context
from dashboard.recordings import queries as service
from dashboard.recordings.watching import LINK_HOURS
from dashboard.streams.actions import NOTE_LENGTH
from ingest import clean
from ingest.models import Application, Recording
from ingest.services import actions as services_actions
from ingest.services import media_urls
from ingest.services.recordings import RecordingProblem
from ingest.services.roles import Ability

SHOWN = ("app", "name", "state", "since", "until")
PAGE_LOOKUPS = service.LOOKUPS | {"name": "name__contains"}


@safe_view(Ability.VIEW)
def recordings(request: HttpRequest) -> HttpResponse:
    """Newest first, by pages. `since` and `until` are days, both included. What can't be understood filters nothing."""
    shown = active_filters(request.GET, SHOWN)
    since, until = zones.days(shown["since"], shown["until"])
    rows = narrow(service.rows(), PAGE_LOOKUPS, {**shown, "since": since, "until": until})
    return render(
        request,
        "dashboard/recordings.html",
        page_context(request, rows, shown)
        | {
            "total": rows.aggregate(size=Sum("size_bytes"))["size"] or 0,
            "apps": list(Application.objects.values_list("name", flat=True)),
            "states": Recording.State.choices,
            "note_length": NOTE_LENGTH,
            "link_hours": LINK_HOURS.items(),
        },
    )


@safe_view(Ability.VIEW)
def download(request: HttpRequest, pk: int) -> HttpResponse:
    """`format=mp4`: as that; else FLV, as it was recorded."""
    form: media_urls.Form = "mp4" if request.GET.get("format") == "mp4" else "flv"
    try:
        return service.send(get_object_or_404(service.rows(), pk=pk), actor=actor_of(request), form=form)
    except service.MediaOff as problem:
        return render(request, "dashboard/media_off.html", {"problem": problem}, status=503)


@post_view(Ability.DELETE_RECORDINGS)
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    """With a `note` for the record. 409 and the reason where it can't be done now."""
    recording = get_object_or_404(service.rows(), pk=pk)
    note = clean.text(request.POST.get("note", "").strip(), NOTE_LENGTH)
    delete_it = partial(services_actions.delete_recording, actor_of(request), recording, note=note)
    words, back = f"The recording {recording.name} is deleted.", reverse("dashboard:recordings")
    return answer_action(request, delete_it, RecordingProblem, words, 200, back)
