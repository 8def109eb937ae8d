"""What a node is to push, and what it tells of it: the targets of the streams that are published there, in one query a
second, and the states of pushes, a write for each change."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db.models import CharField, Exists, OuterRef, QuerySet

from ingest.contracts.relays import PushOrder
from ingest.models import PushTarget, Session
from ingest.services.push_targets import PURPOSE
from ingest.services.sealing import unseal
from ingest.services.sql import Given, Prepared

MOST_ABSENCE: Final = timedelta(days=1)

COLUMNS: Final = ("pk", "stream", "label", "url", "sealed", "starts", "asked", "asked_for", "asked_at")


@dataclass(frozen=True, slots=True)
class Target:
    """A row, as the node goes by it."""

    pk: int
    stream: int
    label: str
    url: str
    sealed: str = field(repr=False)
    starts: str
    asked: str
    asked_for: uuid.UUID | None
    asked_at: datetime | None

    @property
    def turn(self) -> datetime | None:
        """When somebody had it tried last."""
        return self.asked_at if self.asked == PushTarget.Asked.START else None

    def order(self) -> PushOrder:
        """Raises `sealing.Unreadable`."""
        name = unseal(PURPOSE, self.sealed)
        return {"target": self.pk, "url": self.url, "name": name, "private_allowed": settings.RELAY_PRIVATE}


def is_wanted(target: Target | PushTarget, session: uuid.UUID) -> bool:
    """While that session publishes: what was pressed for another one tells nothing."""
    asked = target.asked if target.asked_for == session else ""
    return asked == PushTarget.Asked.START if asked else target.starts == PushTarget.Starts.STREAM


def targets_on(*, node: str) -> list[Target]:
    """Of all streams that the node publishes: asked each second."""
    return [Target(*row) for row in _targets_on.ask(node=node)]


@Prepared
def _targets_on() -> "QuerySet[PushTarget, Any]":
    here = Session.objects.filter(node__name=Given("node", CharField()), ended_at__isnull=True, is_test=False)
    published = here.filter(stream=OuterRef("stream"), kind=Session.Kind.PUBLISH)
    return PushTarget.objects.filter(Exists(published), enabled=True).order_by("pk").values_list(*COLUMNS)


def carry_over(targets: Mapping[int, uuid.UUID]) -> None:
    """What was pressed for a publisher's former session holds for the one that is live now (by target), if that began
    before its players would have been told of an end; else it is forgotten."""
    rows = PushTarget.objects.filter(pk__in=targets).exclude(asked="")
    asked = {row.pk: row for row in rows}
    sessions = {row.asked_for for row in rows if row.asked_for is not None} | set(targets.values())
    known = Session.objects.in_bulk(sessions)
    for pk, row in asked.items():
        now = known.get(targets[pk])
        if now is None or row.asked_for == now.pk:
            continue
        former = known.get(row.asked_for) if row.asked_for is not None else None
        goes_on = former is not None and _gap(former, now) <= absence()
        fields: dict[str, Any] = {"asked_for": now.pk} if goes_on else {"asked": "", "asked_for": None}
        PushTarget.objects.filter(pk=pk, asked_for=row.asked_for, asked=row.asked).update(**fields)


def _gap(former: Session, now: Session) -> timedelta:
    return now.started_at - former.ended_at if former.ended_at is not None else timedelta(0)


def absence() -> timedelta:
    """For so long a publisher may be away, and what was pressed for it goes on."""
    return min(MOST_ABSENCE, timedelta(seconds=min(settings.END_PLAYERS_S, MOST_ABSENCE.total_seconds())))


@dataclass(frozen=True, slots=True)
class PushRow:
    """A push has changed its state, as history writes it. Texts are masked."""

    target: int
    session: uuid.UUID
    at: datetime
    state: str
    failure: str
    code: str
    description: str


def set_state(row: PushRow) -> None:
    """One that somebody has stopped meanwhile stays so."""
    fields: dict[str, Any] = {"state": row.state, "state_since": row.at, "state_session": row.session}
    if row.state != "connecting":  # While it is tried again, it is said why.
        fields |= {"failure": row.failure, "code": row.code, "description": row.description}
    those = PushTarget.objects.filter(pk=row.target)
    if row.state != "stopped" or row.failure:
        those = those.exclude(asked=PushTarget.Asked.STOP, asked_for=row.session)
    is_over = row.state == "live" or (row.state == "stopped" and not row.failure)
    if is_over:
        those.update(**fields, failing_since=None)
    elif those.filter(failing_since__isnull=False, state_session=row.session).update(**fields) == 0:
        those.update(**fields, failing_since=row.at)


def limited(wanted: Sequence[Target], ordered: Iterable[int]) -> tuple[list[Target], list[Target]]:
    """As many as a node may push: those that it pushes already first. And the others."""
    there = set(ordered)
    by_age = sorted(wanted, key=lambda target: (target.pk not in there, target.pk))
    return by_age[: settings.MAX_PUSHES], by_age[settings.MAX_PUSHES :]
