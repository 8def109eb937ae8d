"""Recordings, as page and API show and hand them out."""

from django.db.models import QuerySet
from django.http import Http404, HttpResponseRedirect

from ingest.models import Recording
from ingest.services import actions as services_actions
from ingest.services import audit, media_urls, recordings
from ingest.services.audit import Actor
from ingest.services.recordings import RecordingProblem

LOOKUPS = {
    "app": "application__name",
    "name": "name",
    "stream": "stream__name",
    "state": "state",
    "since": "started_at__gte",
    "until": "started_at__lt",
}

NO_FILE = "The recording's file is not in the folder of recordings."
MEDIA_OFF = (
    "Recordings are sent by the media listener, which is off here. Set RTMPWEB_MEDIA on the media nodes and on this "
    "process, such as to 0.0.0.0:8001, and RTMPWEB_MEDIA_URL to where browsers reach it."
)


class MediaOff(Exception):  # noqa: N818 - an answer, not an error.
    """Nobody sends recordings. The message is for the operator."""


def rows() -> QuerySet[Recording]:
    return Recording.objects.select_related("application", "stream__application", "node").order_by("-started_at", "-pk")


def send(recording: Recording, *, actor: Actor, form: media_urls.Form = "flv") -> HttpResponseRedirect:
    """To the media listener, which has the file read as it is taken: Daphne would keep in memory what is not.

    Raises Http404, MediaOff.
    """
    try:
        recordings.path_of(recording)
    except RecordingProblem:
        raise Http404(NO_FILE) from None
    url = media_urls.download_url(recording, form)
    if not url:
        raise MediaOff(MEDIA_OFF)
    name = services_actions.recording_name(recording)
    audit.record(actor, "recording.download", name, stream=recording.stream, file=recording.file)
    answer = HttpResponseRedirect(url)
    answer["Cache-Control"] = "private, no-store"
    return answer
