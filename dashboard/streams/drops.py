"""Streams that dropped: their publisher's session ended although nobody meant it to.

Until the stream is back, or somebody acknowledges the end (`actions.acknowledge_end`), it counts as bad, on the wall
and wherever bad streams are counted. Open walls are told by the node with its next tick (`ingest.consumers.notices`);
what is here is for those that are opened later, and survives restarts."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import OuterRef, QuerySet, Subquery
from django.utils import timezone

from dashboard.streams.actions import ACKNOWLEDGED, SESSION_END
from ingest import pages
from ingest.contracts import end_of
from ingest.models import Session, StatusEvent, Stream
from ingest.pages import Drop

OPEN_FOR = timedelta(hours=24)
"""Then a stream that never came back is no news."""
MOST_OPEN = 200

RECENT = timedelta(minutes=15)
"""Those that came back, or that somebody knows of, are told for so long."""
MOST_RECENT = 50


class Publisher(NamedTuple):
    id: UUID
    stream: int
    app: str
    name: str
    node: str | None
    started_at: datetime
    ended_at: datetime | None
    reason: str

    def dropped_since(self, since: datetime) -> bool:
        return self.ended_at is not None and self.ended_at > since and not end_of(self.reason).is_expected


FIELDS = ("pk", "stream", "app", "name", "node__name", "started_at", "ended_at", "end_reason")


def open_drops(now: datetime | None = None) -> set[int]:
    """The streams that dropped, are not back, and nobody knows of, by row id. Two queries."""
    since = (now or timezone.now()) - OPEN_FOR
    dropped = [each for each in _publishers(Stream.objects.all(), 0).values() if each.dropped_since(since)]
    known = _acknowledged(each.id for each in dropped)
    return {each.stream for each in dropped if each.id not in known}


def known_drops(now: datetime | None = None, streams: "QuerySet[Stream] | None" = None) -> list[Drop]:
    """What walls show: all that are open, and those of late, each stream's latest; the latest first. Three queries."""
    now = now or timezone.now()
    of = Stream.objects.all() if streams is None else streams
    latest, before = _publishers(of, 0), _publishers(of, 1)
    ends = [each for each in latest.values() if each.dropped_since(now - OPEN_FOR)]
    known = _acknowledged(each.id for each in ends)
    open_ = [_drop(each) for each in ends if each.id not in known]
    seen = [_drop(each, seen=True) for each in ends if each.id in known and each.dropped_since(now - RECENT)]
    back = [
        _drop(before[stream], back=last.started_at)
        for stream, last in latest.items()
        if not last.dropped_since(now - OPEN_FOR) and stream in before and before[stream].dropped_since(now - RECENT)
    ]
    return _latest(open_, MOST_OPEN) + _latest(seen + back, MOST_RECENT)


def _publishers(streams: "QuerySet[Stream]", place: int) -> dict[int, Publisher]:
    """By stream the latest (0), or the one before it (1), without tests. What is told of ends is sorted out here: asked
    for by their reasons, the database reads all ends of its history, where there are few streams.
    """
    own = Session.objects.filter(stream=OuterRef("pk"), kind=Session.Kind.PUBLISH, is_test=False)
    chosen = Subquery(own.order_by("-started_at").values("pk")[place : place + 1])
    rows = Session.objects.filter(pk__in=streams.order_by().values(chosen=chosen)).order_by()
    return {row[1]: Publisher(*row) for row in rows.values_list(*FIELDS)}


def _acknowledged(sessions: Iterable[UUID]) -> set[UUID]:
    events = StatusEvent.objects.filter(session__in=list(sessions), kind=ACKNOWLEDGED, code=SESSION_END)
    return set(events.values_list("session_id", flat=True))


def _drop(publisher: Publisher, *, back: datetime | None = None, seen: bool = False) -> Drop:
    made = pages.drop(
        session=str(publisher.id),
        stream=publisher.stream,
        app=publisher.app,
        name=publisher.name,
        node=publisher.node or "",
        at=(publisher.ended_at or publisher.started_at).timestamp(),
        reason=publisher.reason,
    )
    made["back"], made["seen"] = back.timestamp() if back else None, seen
    return made


def _latest(drops: list[Drop], most: int) -> list[Drop]:
    return sorted(drops, key=lambda drop: -drop["at"])[:most]
