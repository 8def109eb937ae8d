"""The wall: what is on air."""

import uuid

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from dashboard.views.access import require_ability
from ingest.models import Application
from ingest.roles import Ability
from ingest.services import paste

DROPPED = f"kind=publish&open=false&test=false&ended_within={15 * 60}"
"""Who stands in the wall's strip: publishers that ended this recently."""


@require_safe
@require_ability(Ability.VIEW)
def wall(request: HttpRequest) -> HttpResponse:
    """Every stream. The page fills itself from /ws/live/; its data are where to find what."""
    return render(
        request,
        "dashboard/wall.html",
        {
            "live_page": True,
            "bootstrap": {
                "ws": "/ws/live/",
                "stream_url": reverse("dashboard:stream", args=["__APP__", "__NAME__"]),
                "sessions_url": f"{reverse('api-1:sessions')}?{DROPPED}",
                "session_url": reverse("dashboard:session", args=[uuid.UUID(int=0)]),
                "server": paste.server_base(),
            },
            "open_apps": list(
                Application.objects.filter(enabled=True, publish_policy=Application.PublishPolicy.OPEN).values_list(
                    "name", flat=True
                )
            ),
        },
    )
