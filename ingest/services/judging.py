"""What a media node is told of a stream for its health: its own rules, and how often it began of late."""

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber

from ingest.contracts import SERVER_ENDS, HealthRule
from ingest.models import HealthOverride, Session

FLAPPING = timedelta(minutes=10)
MOST_PUBLISHES = 20
"""That are told; more are no worse."""

Rules = dict[str, HealthRule]
"""By check."""


def rules(*, streams: Iterable[int]) -> dict[int, Rules]:
    """Of each of the streams that has any."""
    found: dict[int, Rules] = {}
    for row in HealthOverride.objects.filter(stream__in=streams):
        rule: HealthRule = {"enabled": row.enabled, "warning": row.warning, "bad": row.bad, "hold_s": row.hold_s}
        found.setdefault(row.stream_id, {})[row.check_code] = rule
    return found


def publishes(*, streams: Iterable[int], besides: Iterable[uuid.UUID], now: datetime) -> dict[int, list[float]]:
    """When the latest sessions of each of the streams began, on any node; seconds since the epoch. Trials don't count,
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
