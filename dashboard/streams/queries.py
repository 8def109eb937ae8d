"""Streams as pages and API show them: every row of the database, with what the nodes say of those that are live; the
limits that a stream is evaluated by; and how URLs name one."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypedDict, cast

from django.shortcuts import get_object_or_404
from django.urls import register_converter
from django.urls.converters import StringConverter

from ingest.contracts import HealthRule, NodeFigures, StreamSnapshot
from ingest.contracts.figures import STREAM_CHECKS
from ingest.live.health import CHECKS, with_rules
from ingest.live_store import LiveView, get_livestore
from ingest.models import HealthOverride, Session, StatusEvent, Stream
from ingest.models.names import NOT_WITHIN
from ingest.services.sessions import event_payload

LIVE_FIELDS = tuple(StreamSnapshot.__annotations__)
"""All fields of a snapshot."""

PRESENCE = {"live": 0, "waiting": 1, "offline": 2}

_OFFLINE: dict[str, Any] = dict.fromkeys(LIVE_FIELDS) | {
    "state": "offline",
    "health": "none",
    "players": 0,
    "viewers": 0,
    "slow_players": 0,
    "dropped_frames": 0,
    "node": "",
    "address": "",
    "encoder": "",
}


def offline(stream: Stream) -> StreamSnapshot:
    """The snapshot of a stream that no node knows of: no publisher and no player."""
    own = {
        "id": stream.pk,
        "app": stream.application.name,
        "name": stream.name,
        "target_kbps": stream.target_kbps,
        "issues": [],
        "slowest": [],
        "relayed_to": [],
        "media": {},
        "metadata": {},
    }
    return cast(StreamSnapshot, _OFFLINE | own)


@dataclass(frozen=True, slots=True)
class Now:
    """One reading of the nodes' figures, to be joined to rows."""

    at: float
    """When the newest node ticked; now, when none does."""
    nodes: list[NodeFigures]
    by_id: dict[int, StreamSnapshot]
    others: list[StreamSnapshot]
    """What further nodes say of streams that `by_id` has."""

    @classmethod
    def of(cls, view: LiveView) -> "Now":
        chosen = by_stream(view.streams)
        others = [snapshot for snapshot in view.streams if chosen[snapshot["id"]] is not snapshot]
        return cls(max((node["at"] for node in view.nodes), default=time.time()), view.nodes, chosen, others)

    @classmethod
    def read(cls) -> "Now":
        """Blocking: for views."""
        return cls.of(get_livestore().read())

    def of_stream(self, stream: Stream) -> StreamSnapshot:
        return self.by_id.get(stream.pk) or offline(stream)


def by_stream(snapshots: Iterable[StreamSnapshot]) -> dict[int, StreamSnapshot]:
    """By stream id. Two nodes may know one stream, by its players and by its publisher: the publisher's wins. For a
    moment two may have a publisher of it: then the later one's, as the other is being ended.
    """
    chosen: dict[int, StreamSnapshot] = {}
    for snapshot in snapshots:
        other = chosen.get(snapshot["id"])
        if other is None or _precedence(snapshot) < _precedence(other):
            chosen[snapshot["id"]] = snapshot
    return chosen


def _precedence(snapshot: StreamSnapshot) -> tuple[int, float, str]:
    return PRESENCE[snapshot["state"]], -(snapshot["since"] or 0.0), snapshot["node"]


def stream_row(app: str, name: str) -> Stream:
    """By its public name. Raises Http404."""
    return get_object_or_404(Stream.objects.select_related("application"), application__name=app, name=name)


def known_streams() -> list[dict[str, Any]]:
    """Every stream of the database in short: {id, app, name, state}. Nodes tell of those that are not offline."""
    rows = Stream.objects.order_by("application__name", "name").values_list("pk", "application__name", "name")
    return [{"id": pk, "app": app, "name": name, "state": "offline"} for pk, app, name in rows]


EVENT_COUNT = 50
"""Events on a stream's page."""

EVENT_SESSIONS = 5
"""They are taken from this many of its latest publishers."""


def latest_events(stream_id: int) -> list[dict[str, Any]]:
    """The latest events of the stream's latest publishers, newest first."""
    sessions = Session.objects.filter(stream_id=stream_id, kind=Session.Kind.PUBLISH, is_test=False)
    recent = list(sessions.order_by("-started_at").values_list("pk", flat=True)[:EVENT_SESSIONS])
    events = StatusEvent.objects.filter(session__in=recent).order_by("-at", "-sequence")[:EVENT_COUNT]
    return [event_payload(event) for event in events]


class Limits(TypedDict):
    """Limits are in the check's own unit; None: there is no such level."""

    name: str
    warning: float | None
    bad: float | None


def limits_of(stream: Stream) -> dict[str, Limits]:
    """By check. One that is off for the stream has its name alone."""
    rules = {
        row.check_code: HealthRule(enabled=row.enabled, warning=row.warning, bad=row.bad, hold_s=row.hold_s)
        for row in HealthOverride.objects.filter(stream=stream)
    }
    found = {code: Limits(name=name, warning=None, bad=None) for code, name in STREAM_CHECKS.items()}
    for check in with_rules(CHECKS, rules):
        found[check.code] |= {"warning": _finite(check.warning), "bad": _finite(check.bad)}
    return found


def _finite(limit: float) -> float | None:
    return limit if isfinite(limit) else None


class StreamNameConverter(StringConverter):
    regex = rf"[^/]+(?:/(?!(?:{'|'.join(sorted(NOT_WITHIN))})\Z)[^/]+)?"


register_converter(StreamNameConverter, "stream")
