"""The media nodes: the page of all, the page of one, and what an operator may ask of one."""

from collections.abc import Callable
from functools import partial

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from dashboard.access import actor_of, post_view, safe_view
from dashboard.lists import answer_action
from dashboard.nodes import queries as service
from dashboard.streams.queries import Now
from ingest.models import Node, Session
from ingest.services import actions as services_actions
from ingest.services.nodes import NodeError
from ingest.services.roles import Ability

SESSIONS_SHOWN = 20


@safe_view(Ability.VIEW)
def nodes(request: HttpRequest) -> HttpResponse:
    """Every node; those that run fill themselves from /ws/live/."""
    return render(request, "dashboard/nodes.html", {"nodes": service.read(), **_shared()})


@safe_view(Ability.VIEW)
def node(request: HttpRequest, name: str) -> HttpResponse:
    node_now = service.node_of(name)
    now = Now.read()
    # A stream without publisher and players is told of for some time yet.
    here = [each for each in now.by_id.values() if each["node"] == name and each["state"] != "offline"]
    sessions = Session.objects.filter(node=node_now.row).select_related("stream").order_by("-started_at")
    return render(
        request,
        "dashboard/node.html",
        {
            "node": node_now,
            "streams": sorted(here, key=lambda stream: (stream["app"], stream["name"])),
            "relays": service.relays(node_now),
            "sessions": sessions[:SESSIONS_SHOWN],
            **_shared(),
        },
    )


@post_view(Ability.DRAIN)
def drain(request: HttpRequest, name: str) -> HttpResponse:
    """Have the node take nothing new; `grace_s` seconds later it ends what is left."""
    service.node_of(name)
    given = request.POST.get("grace_s", "")
    grace_s = int(given) if given.isdecimal() and len(given) < 9 else service.USUAL_GRACE_S
    grace_s = min(grace_s, service.MOST_GRACE_S)
    action = partial(services_actions.drain_node, grace_s=grace_s)
    return _ask(
        request,
        name,
        action,
        f"{name} takes no new connections; what is still live there is disconnected after {grace_s} s.",
    )


@post_view(Ability.DRAIN)
def resume(request: HttpRequest, name: str) -> HttpResponse:
    return _ask(request, name, services_actions.resume_node, f"{name} takes connections again within 2 s.")


@post_view(Ability.DRAIN)
def forget(request: HttpRequest, name: str) -> HttpResponse:
    return _ask(request, name, services_actions.forget_node, f"{name} is no longer expected.")


def _ask(request: HttpRequest, name: str, action: Callable[..., Node], message: str) -> HttpResponse:
    service.node_of(name)
    back = reverse("dashboard:nodes")
    return answer_action(request, lambda: action(actor_of(request), name), NodeError, message, 202, back)


def _shared() -> dict[str, object]:
    return {
        "live_page": True,
        "bootstrap": {"ws": "/ws/live/"},
        "graces": service.GRACES,
        "usual_grace_s": service.USUAL_GRACE_S,
    }
