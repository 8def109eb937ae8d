"""What people do to a stream from its page: kick, note, acknowledge, mute. Each by a form, with or without a script."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboard import muting, notes
from dashboard.actors import actor_of
from dashboard.kicking import Kick, kick_publisher
from dashboard.notes import ActProblem
from dashboard.streams import stream_row
from dashboard.views.access import require_ability
from ingest.roles import Ability

KICK_WORDS = {
    Kick.ASKED: "The publisher of {path} is being disconnected.",
    Kick.OFF_AIR: "Nobody publishes {path} now.",
    Kick.OTHER: "Another publisher is on {path} by now; nothing was done. Look again, then kick.",
}

MUTE_HOURS = {"1": 1.0, "8": 8.0, "": None}
"""By the form's value; None: until it is lifted."""


@require_POST
@require_ability(Ability.KICK)
def kick(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """Disconnect the publisher.

    `session_id`, when given, is the session that the page showed: a publisher that came since is left alone.
    """
    row = stream_row(app, name)
    outcome, session = kick_publisher(
        row,
        actor_of(request),
        note=request.POST.get("note", ""),
        session_id=request.POST.get("session_id", ""),
    )
    words = KICK_WORDS[outcome].format(path=row.path)
    session_id = str(session.pk) if session else None
    return _done(request, app, name, words, 202 if outcome is Kick.ASKED else 409, session_id=session_id)


@require_POST
@require_ability(Ability.NOTE)
def note(request: HttpRequest, app: str, name: str) -> HttpResponse:
    try:
        notes.add_note(stream_row(app, name), actor_of(request), request.POST.get("note", ""))
    except ActProblem as problem:
        return _done(request, app, name, str(problem), 409)
    return _done(request, app, name, "The note is in the log.", 201)


@require_POST
@require_ability(Ability.NOTE)
def acknowledge(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """The open issue of a `check`."""
    check, said = request.POST.get("check", ""), request.POST.get("note", "")
    try:
        notes.acknowledge(stream_row(app, name), actor_of(request), check=check, note=said)
    except ActProblem as problem:
        return _done(request, app, name, str(problem), 409)
    return _done(request, app, name, "The issue is acknowledged.", 201)


@require_POST
@require_ability(Ability.NOTE)
def mute(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """Alerts of a `check`, of all without one, for 1 or 8 `hours`; without, until it is lifted."""
    row, hours = stream_row(app, name), request.POST.get("hours", "")
    if hours not in MUTE_HOURS:
        return _done(request, app, name, "Alerts are muted for 1 hour, for 8 hours, or until the mute is lifted.", 409)
    check, said = request.POST.get("check", ""), request.POST.get("note", "")
    muting.mute(row, actor_of(request), check=check, hours=MUTE_HOURS[hours], note=said)
    return _done(request, app, name, "Alerts are muted.", 201)


@require_POST
@require_ability(Ability.NOTE)
def unmute(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """Lift the mute of a `check`; "": the mute of all checks at once."""
    lifted = muting.lift(stream_row(app, name), actor_of(request), check=request.POST.get("check", ""))
    words = "Alerts are on again." if lifted else "This mute has ended already."
    return _done(request, app, name, words, 200)


def _done(
    request: HttpRequest, app: str, name: str, words: str, status: int, *, session_id: str | None = None
) -> HttpResponse:
    """Back to the stream's page, which says what was done; for a script as JSON."""
    if request.accepts("text/html"):
        messages.add_message(request, messages.SUCCESS if status < 400 else messages.WARNING, words)
        return HttpResponseRedirect(reverse("dashboard:stream", args=[app, name]))
    return JsonResponse({"detail": words, "session_id": session_id}, status=status)
