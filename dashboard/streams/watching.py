"""How a stream is watched, as its page prints it; who may, and the links by which they do, as people set that there."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.core.exceptions import BadRequest, ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse

from dashboard.access import actor_of, post_view
from dashboard.lists import answer
from dashboard.public_pages import site_of
from dashboard.streams.queries import stream_row
from ingest.models import Stream
from ingest.services import actions as services_actions
from ingest.services import media_urls, play_policy
from ingest.services.media_urls import PlayLink
from ingest.services.roles import Ability

LASTING = "lasting"

LIFETIMES = {
    LASTING: (media_urls.LASTING, "until the links are replaced"),
    "1": (timedelta(hours=1), "1 hour"),
    "12": (timedelta(hours=12), "12 hours"),
    "168": (timedelta(hours=168), "1 week"),
}
"""For which a link may be made, by what a form says."""

CHANGED = "Saved. It holds within 2 s."


def ways(request: HttpRequest, row: Stream, *, no_preview: str) -> dict[str, Any]:
    """How the stream can be watched, as the card prints it. `no_preview`: why not in the page; "": it can."""
    policy = row.effective_play_policy
    is_public = policy == Stream.PlayPolicy.PUBLIC
    page = media_urls.page_host(request)
    return {
        "urls": media_urls.watch_urls(stream=row, page=page) if is_public else [],
        "browser": _browser(row, media_urls.watch_url(stream=row, site=site_of(request))) if is_public else None,
        "policy": policy,
        "policies": Stream.PlayPolicy.choices,
        "of_application": row.application.get_play_policy_display(),
        "has_media": bool(media_urls.media_base()),
        "has_hls": bool(media_urls.hls_base()),
        "no_preview": no_preview,
        "lifetimes": [(value, words) for value, (_, words) in LIFETIMES.items()],
    }


def _browser(row: Stream, url: str) -> dict[str, str] | None:
    """The watch page's address, and what has it in another page; None where HLS is off."""
    if not url:
        return None
    embed = f"{url}{'&' if '?' in url else '?'}embed=1"
    title = row.path.replace('"', "&quot;")
    size = 'width="640" height="360" style="border:0"'
    allow = 'allow="autoplay; fullscreen; picture-in-picture" allowfullscreen'
    snippet = f'<iframe src="{embed.replace("&", "&amp;")}" title="{title}" {size} {allow}></iframe>'
    return {"url": url, "embed": snippet}


CLOSED = "Nobody may watch the stream: it is closed."


@post_view(Ability.SHARE)
def play_link(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """URLs with a token that plays the stream for `hours`: a part of the page, which asks for it by script."""
    row, hours = stream_row(app, name), request.POST.get("hours", "")
    if hours not in LIFETIMES:
        raise BadRequest(f"hours is one of {', '.join(LIFETIMES)}")
    return _made(request, row, services_actions.play_link, LIFETIMES[hours][0])


@post_view(Ability.SHARE)
def new_link(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """Likewise, in place of all that there are: those work no more."""
    return _made(request, stream_row(app, name), play_policy.new_link, media_urls.LASTING)


def _made(request: HttpRequest, row: Stream, make: Callable[..., PlayLink], lifetime: timedelta) -> HttpResponse:
    if row.effective_play_policy == Stream.PlayPolicy.NONE:
        return JsonResponse({"errors": {"": [CLOSED]}}, status=422)
    page = media_urls.page_host(request)
    link = make(actor_of(request), stream=row, lifetime=lifetime, page=page, site=site_of(request))
    context = {
        "stream": row,
        "urls": media_urls.watch_urls(stream=row, page=page, token=link.token),
        "browser": _browser(row, link.watch_url),
        "expires_at": None if lifetime == media_urls.LASTING else link.expires_at,
        "prefix": "made",
    }
    response = render(request, "dashboard/_watch_made.html", context, status=201)
    response["Cache-Control"] = "no-store"
    return response


@post_view(Ability.MANAGE_KEYS)
def change_policy(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """Who may watch (`play_policy`), and whether it is always ready for browsers (`hls_always`, if it is there)."""
    row, back = stream_row(app, name), reverse("dashboard:stream", args=[app, name])
    given = {"play_policy": request.POST.get("play_policy", ""), "hls_always": "hls_always" in request.POST}
    try:
        play_policy.change(actor_of(request), row, **given)
    except ValidationError as problem:
        return answer(request, " ".join(problem.messages), 409, back)
    return answer(request, CHANGED, 200, back)
