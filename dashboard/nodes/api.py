"""/nodes: the media nodes, and what may be asked of one."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from django.http import HttpRequest
from ninja import Body, Field, Query, Router, Schema, Status

from dashboard.access import actor_of
from dashboard.api_base import ListOf, Paging, Problem, allow
from dashboard.nodes import queries as service
from dashboard.nodes.queries import NodeNow, State
from dashboard.streams.api import RelayedToOut
from ingest.models import Node
from ingest.services import actions as services_actions
from ingest.services.roles import Ability

router = Router(tags=["nodes"])

ONE = "/nodes/{name}"


class NodeIssueOut(Schema):
    """An open health issue of the node itself."""

    check: str
    level: str
    since: datetime
    actual: str
    expected: str
    title: str
    advice: str


class RelayOut(Schema):
    """A stream that the node fetches from another, for its own players."""

    path: str
    source: str = Field(description="The node that it comes from; empty: none gives any now.")
    state: str = Field(description="connecting, live or failing.")
    since: datetime
    players: int = Field(description="Those of nodes that fetch it from here included.")
    here: int
    in_kbps: float
    out_kbps: float
    relayed_to: list[RelayedToOut]
    failure: str = Field(description="Why it fails, as a sentence.")


class NodeOut(Schema):
    """A media node. Its figures are null while it tells none."""

    name: str
    state: State = Field(
        description="missing: it should run, but gives no sign of life; down: it was taken for dead, and its sessions "
        "were ended; stopped: it stopped in order, or was forgotten."
    )
    since: datetime = Field(description="When it took this state, as far as that is known.")
    address: str = Field(description="Where it listens.")
    started_at: datetime
    seen_at: datetime
    publishers: int = Field(description="Sessions that are open: of a draining node, what is left.")
    players: int
    drain_requested_at: datetime | None
    drain_grace_s: int | None
    drain_left_s: float | None = Field(description="Seconds until what is still live there is ended.")
    viewers: int | None = Field(description="Players that watch by HLS, now.")
    streams: int | None
    connections: int | None
    refused_connections: int | None = Field(description="Over the limits of connections, since its start.")
    in_kbps: float | None
    out_kbps: float | None
    loop_delay_ms: float | None = Field(description="How late timers fired, the most of a second.")
    cpu_percent: float | None = Field(description="Of one core.")
    disk_free_percent: float | None
    history_waiting: int | None = Field(description="Entries of history that wait for the database.")
    history_dropped: int | None = Field(description="Entries of history that were lost since its start.")
    telemetry_dropped: int | None = Field(description="Records of telemetry that were lost since its start.")
    telemetry_failing_since: datetime | None
    issues: list[NodeIssueOut]
    role: str = Field(description="origin: encoders publish here; edge: players only; packager: viewers by HLS.")
    url: str = Field(description="How other nodes reach it; empty: they can't.")
    relays: list[RelayOut]

    @classmethod
    def of(cls, node: NodeNow) -> "NodeOut":
        row, figures = node.row, dict[str, Any](node.figures or {})
        reported = {"issues": [], "relays": []} | figures | figures.get("records", {})
        own = {name: getattr(node, name) for name in ("name", "state", "since", "publishers", "players")}
        own |= {
            name: getattr(row, name)
            for name in ("address", "role", "url", "started_at", "seen_at", "drain_requested_at")
        }
        drain = {"drain_left_s": node.left_s}
        if row.drain_requested_at is not None:
            drain["drain_grace_s"] = row.drain_grace_s
        return cls.model_validate(dict.fromkeys(cls.model_fields) | reported | own | drain)


class DrainIn(Schema):
    grace_s: int = Field(
        service.USUAL_GRACE_S, ge=0, le=service.MOST_GRACE_S, description="Until what is still live there is ended."
    )


@router.get("/nodes", response=ListOf[NodeOut])
def nodes(request: HttpRequest, paging: Query[Paging]) -> ListOf[NodeOut]:
    """All media nodes; those that need somebody come first."""
    found = service.read()
    page = found[paging.offset : paging.offset + paging.limit]
    return ListOf[NodeOut](items=[NodeOut.of(node) for node in page], count=len(found))


@router.get(ONE, response=NodeOut)
def node(request: HttpRequest, name: str) -> NodeOut:
    """One media node."""
    return NodeOut.of(service.node_of(name))


@router.post(f"{ONE}/drain", response={202: NodeOut, 409: Problem}, auth=allow(Ability.DRAIN))
def drain(request: HttpRequest, name: str, body: Body[DrainIn | None] = None) -> Status[NodeOut]:
    """Have the node take nothing new and, after `grace_s`, end what is left. 409 for a node that is down."""
    grace_s = body.grace_s if body else service.USUAL_GRACE_S
    return _ask(request, name, partial(services_actions.drain_node, grace_s=grace_s))


@router.post(f"{ONE}/resume", response={202: NodeOut, 409: Problem}, auth=allow(Ability.DRAIN))
def resume(request: HttpRequest, name: str) -> Status[NodeOut]:
    """Have a draining node take connections again: it does within 2 s. 409 for a node that is down."""
    return _ask(request, name, services_actions.resume_node)


@router.post(f"{ONE}/forget", response={202: NodeOut, 409: Problem}, auth=allow(Ability.DRAIN))
def forget(request: HttpRequest, name: str) -> Status[NodeOut]:
    """Miss a node no more that is gone for good. 409 for one that isn't down."""
    return _ask(request, name, services_actions.forget_node)


def _ask(request: HttpRequest, name: str, action: Callable[..., Node]) -> Status[NodeOut]:
    service.node_of(name)
    action(actor_of(request), name)
    return Status(202, NodeOut.of(service.node_of(name)))
