"""What a media node is told of a stream for its health: its own rules, and how often it began of late."""

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import CharField, Exists, F, OuterRef, Q, QuerySet, Window
from django.db.models.functions import RowNumber

from ingest.contracts import SERVER_ENDS, HealthRule
from ingest.models import HealthOverride, Session
from ingest.services.sql import Given, Prepared

FLAPPING = timedelta(minutes=10)
MOST_PUBLISHES = 20
"""That are told; more are no worse."""

RULE: Final = ("stream", "check_code", "enabled", "warning", "bad", "hold_s")
"""Columns of an override."""

Rules = dict[str, HealthRule]
"""By check."""


def rules(*, streams: Iterable[int]) -> dict[int, Rules]:
    """Of each of the streams that has any."""
    return _by_stream(HealthOverride.objects.filter(stream__in=streams).values_list(*RULE))


def rules_on(*, node: str) -> dict[int, Rules]:
    """Of each of the streams that the node publishes, if it has any: asked each second."""
    return _by_stream(_rules_on.ask(node=node))


@Prepared
def _rules_on() -> "QuerySet[HealthOverride, Any]":
    here = Session.objects.filter(node__name=Given("node", CharField()), ended_at__isnull=True)
    published = here.filter(stream=OuterRef("stream"), kind=Session.Kind.PUBLISH)
    return HealthOverride.objects.filter(Exists(published)).order_by().values_list(*RULE)


def _by_stream(rows: Iterable[tuple[Any, ...]]) -> dict[int, Rules]:
    found: dict[int, Rules] = {}
    for stream, check, enabled, warning, bad, hold_s in rows:
        rule: HealthRule = {"enabled": enabled, "warning": warning, "bad": bad, "hold_s": hold_s}
        found.setdefault(stream, {})[check] = rule
    return found


def recent_publishes(*, streams: Iterable[int], besides: Iterable[uuid.UUID], now: datetime) -> dict[int, list[float]]:
    """When the latest sessions of each of the streams began, on any node; seconds since the epoch. Tests don't count,
    nor sessions that the server ended: that their encoder came back is not its doing.
    """
    began = Session.objects.filter(
        stream__in=streams, kind=Session.Kind.PUBLISH, is_test=False, started_at__gt=now - FLAPPING
    ).exclude(Q(pk__in=besides) | Q(end_reason__in=SERVER_ENDS))
    place = Window(RowNumber(), partition_by=[F("stream")], order_by=[F("started_at").desc()])
    latest = began.order_by("-started_at").annotate(place=place).filter(place__lte=MOST_PUBLISHES)
    found: dict[int, list[float]] = {}
    for stream, at in latest.values_list("stream_id", "started_at"):
        found.setdefault(stream, []).append(at.timestamp())
    return found
