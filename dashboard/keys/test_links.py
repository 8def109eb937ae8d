"""Test links: an operator makes one on a key's page, and a streamer without a log-in sees by it how a test goes.

The link's secret stands in the fragment of its URL, so no server's or proxy's log has it; the page's script sends it in
a header. The answer is about the link's own test and what the asking address was refused for, and nothing else."""

from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.access import actor_of, post_view
from dashboard.keys import key_test, shown_once
from dashboard.keys import queries as keys_queries
from dashboard.public_pages import closed, site_of, take_of_address
from dashboard.throttle import Limit
from ingest.models import names
from ingest.services import actions as services_actions
from ingest.services import audit, media_urls, test_links
from ingest.services.keys import NewKey
from ingest.services.roles import Ability

HEADER = "X-Test-Link"

EACH_S = 2
"""Between two questions of a page."""

OF_LINK = Limit("test-link", 150, 60)
"""Five pages that ask each EACH_S,"""
OF_ADDRESS = Limit("test-link-address", 300, 60)
"""and ten, of whatever links, from one address."""
WAIT_S = 15

UNKNOWN = "This link is unknown, has expired or was revoked. Ask who sent it for a new one."
TOO_OFTEN = "This page is open too often. Close it elsewhere; it goes on by itself."


@post_view(Ability.MANAGE_KEYS)
def make(request: HttpRequest, pk: int) -> HttpResponse:
    """The new link, once; or, with status 422, what is wrong."""
    shown_once.needs_script(request)
    lifetime, _ = test_links.LIFETIMES.get(request.POST.get("lifetime", ""), (None, ""))
    if lifetime is None:
        raise BadRequest(f"lifetime is one of {', '.join(test_links.LIFETIMES)}")
    action = partial(services_actions.make_test_link, actor_of(request), keys_queries.key_of(pk), lifetime=lifetime)
    return shown_once.answer(request, "dashboard/_link_made.html", action, partial(_made, request))


def _made(request: HttpRequest, made: NewKey) -> dict[str, Any]:
    url = media_urls.absolute_url(reverse("dashboard:test-link"), site_of(request))
    return {"key": made.key, "url": f"{url}#{made.secret}", "is_public": bool(settings.PUBLIC_URL)}


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """The same for all links: what is the link's comes by `progress`."""
    minutes = names.TEST_MOST // timedelta(minutes=1)
    boot = {"url": reverse("dashboard:test-link-progress"), "header": HEADER, "each_s": EACH_S}
    context = {"boot": boot, "minutes": minutes, "titles": key_test.TITLES.items()}
    return closed(render(request, "dashboard/test_link.html", context))


@require_safe
def progress(request: HttpRequest) -> HttpResponse:
    """How the test of the link in the header goes: 404 for one that does not work, for whatever reason."""
    address, secret = audit.client_address(request), request.headers.get(HEADER, "")
    if not take_of_address(OF_ADDRESS, request):
        return _too_often()
    link = test_links.find(secret=secret)
    if link is None:
        return closed(JsonResponse({"detail": UNKNOWN}, status=404))
    if not OF_LINK.take(str(link.pk)):
        return _too_often()
    found, page = key_test.streamer_progress(link, address=address), media_urls.page_host(request)
    answer = {
        **asdict(found),
        "stream": link.stream.path,
        "server": media_urls.server_of(stream=link.stream, page=page),
        "rtmps_server": media_urls.rtmps_server_of(stream=link.stream, page=page),
        "max_kbps": link.max_kbps,
        "expires_at": link.expires_at.timestamp() if link.expires_at else None,
        "at": timezone.now().timestamp(),
    }
    del answer["session_id"]
    return closed(JsonResponse(answer))


def _too_often() -> HttpResponse:
    return closed(JsonResponse({"detail": TOO_OFTEN}, status=429, headers={"Retry-After": str(WAIT_S)}))
