"""What a media node is told of a stream for its health: its own rules, and how often it began of late."""

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db.models import Q

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


def publishes(*, stream: int, besides: uuid.UUID, now: datetime) -> list[float]:
    """When the stream's latest sessions began, on any node; seconds since the epoch. Trials don't count, nor sessions
    that the server ended: that their encoder came back is not its doing.
    """
    began = Session.objects.filter(
        stream=stream, kind=Session.Kind.PUBLISH, is_test=False, started_at__gt=now - FLAPPING
    ).exclude(Q(pk=besides) | Q(end_reason__in=SERVER_ENDS))
    latest = began.order_by("-started_at").values_list("started_at", flat=True)[:MOST_PUBLISHES]
    return [at.timestamp() for at in latest]
