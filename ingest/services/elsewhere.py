"""Streams that another node publishes. Media never leave their node, so players of this one are told where to go."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

from django.db.models import Exists, OuterRef, QuerySet

from ingest.models import Lease, Node
from ingest.services.playable import Playable
from ingest.services.refusals import Refused, describe

ASKED_AT_ONCE: Final = 500
"""Streams in one query: players may wait for any number."""


def told(*, paths: Collection[str], node: str, now: datetime) -> dict[str, str]:
    """What players of these (app/name) are told, of those that are published, but not on this node."""
    asked, found = sorted(paths), dict[str, str]()
    for start in range(0, len(asked), ASKED_AT_ONCE):
        names = {path.partition("/")[2] for path in asked[start : start + ASKED_AT_ONCE]}
        rows = _held(node, now).filter(stream__name__in=names)
        for app, name, *place in rows.values_list("stream__application__name", "stream__name", *PLACE):
            if (path := f"{app}/{name}") in paths:
                found[path] = describe("elsewhere", where=_where(*place))
    return found


def refuse(*, found: Playable, node: str, now: datetime) -> None:
    """Raises Refused if what is live of it is published, but not on this node."""
    if found.stream is None or found.is_recording_alone:
        return
    place = _held(node, now).filter(stream=found.stream).values_list(*PLACE).first()
    if place is not None:
        raise Refused("play", "elsewhere", stream=found.stream.pk, key=None, where=_where(*place))


PLACE: Final = ("node__name", "node__url", "shares_url")


def _held(node: str, now: datetime) -> QuerySet[Any]:
    """Each with whether another node that runs has told the same URL as its own: that of a balancer, most likely."""
    others = Node.objects.filter(url=OuterRef("node__url")).exclude(pk=OuterRef("node")).exclude(state=Node.State.DOWN)
    held = Lease.objects.filter(session__isnull=False, expires_at__gt=now).exclude(node__name=node)
    return held.annotate(shares_url=Exists(others))


def _where(name: str | None, url: str | None, shares_url: bool) -> str:
    """By its name alone, if it has not told how it is reached and no other."""
    return f"{url} ({name})" if url and not shares_url else str(name)
