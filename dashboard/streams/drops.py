"""Streams that dropped: their publisher's session ended although nobody meant it to.

Until the stream is back, or somebody acknowledges the end (`actions.acknowledge_end`), it counts as bad, on the wall
and wherever bad streams are counted. Open walls are told by the node with its next tick (`ingest.consumers.notices`);
what is here is for those that are opened later, and survives restarts."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from dashboard.streams.actions import ACKNOWLEDGED, SESSION_END
from ingest import pages
from ingest.contracts import ENDS
from ingest.models import Session, StatusEvent, Stream
from ingest.pages import Drop

UNEXPECTED = [reason for reason, end in ENDS.items() if not end.is_expected]

OPEN_FOR = timedelta(hours=24)
"""Then a stream that never came back is no news."""
MOST_OPEN = 200

RECENT = timedelta(minutes=15)
"""Those that came back, or that somebody knows of, are told for so long."""
MOST_RECENT = 50

FIELDS = ("pk", "stream", "app", "name", "node__name", "ended_at", "end_reason", "back", "seen")


def open_drops(now: datetime | None = None) -> set[int]:
    """The streams that dropped, are not back, and nobody knows of, by row id. One query, by the number of streams."""
    return set(_open(now or timezone.now()).values_list("stream", flat=True)[:MOST_OPEN])


def known_drops(now: datetime | None = None) -> list[Drop]:
    """What walls show: all that are open, and those of late. Two queries."""
    now = now or timezone.now()
    recent = _unexpected().filter(ended_at__gt=now - RECENT)
    return _merged([*_told(_open(now), MOST_OPEN), *_told(recent, MOST_RECENT)])


def drops_of(stream: int, now: datetime | None = None) -> list[Drop]:
    """The latest of one stream."""
    since = (now or timezone.now()) - OPEN_FOR
    return list(_told(_unexpected().filter(stream=stream, ended_at__gt=since), 1))


def _unexpected() -> QuerySet[Session]:
    return _publishers().filter(end_reason__in=UNEXPECTED, stream__isnull=False)


def _publishers() -> QuerySet[Session]:
    return Session.objects.filter(kind=Session.Kind.PUBLISH, is_test=False)


def _acknowledged() -> Exists:
    return Exists(StatusEvent.objects.filter(session=OuterRef("pk"), kind=ACKNOWLEDGED, code=SESSION_END))


def _open(now: datetime) -> QuerySet[Session]:
    """By the latest publisher of each stream: by its end all sessions of a day would have to be read, players' too."""
    latest = _publishers().filter(stream=OuterRef("pk")).order_by("-started_at").values("pk")[:1]
    rows = _unexpected().filter(pk__in=Stream.objects.order_by().values(latest=Subquery(latest)))
    return rows.filter(~Q(_acknowledged()), ended_at__gt=now - OPEN_FOR).order_by("-ended_at")


def _told(rows: QuerySet[Session], most: int) -> Iterable[Drop]:
    later = (
        _publishers().filter(stream=OuterRef("stream"), started_at__gt=OuterRef("started_at")).order_by("started_at")
    )
    known = rows.annotate(back=Subquery(later.values("started_at")[:1]), seen=_acknowledged()).order_by("-ended_at")
    for row in known.values(*FIELDS)[:most]:
        yield _drop(row)


def _drop(row: dict[str, Any]) -> Drop:
    back: datetime | None = row["back"]
    made = pages.drop(
        session=str(row["pk"]),
        stream=row["stream"],
        app=row["app"],
        name=row["name"],
        node=row["node__name"] or "",
        at=row["ended_at"].timestamp(),
        reason=row["end_reason"],
    )
    made["back"], made["seen"] = back.timestamp() if back else None, row["seen"]
    return made


def _merged(drops: Iterable[Drop]) -> list[Drop]:
    """Each stream's latest, the latest first."""
    latest: dict[int, Drop] = {}
    for drop in sorted(drops, key=lambda drop: drop["at"]):
        latest[drop["stream"]] = drop
    return sorted(latest.values(), key=lambda drop: -drop["at"])
