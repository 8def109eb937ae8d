"""Bans as rows: who imposed them, until when, and who lifted them. What they do is in `ingest.services.guard`."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db.models import Count, DateTimeField, Max, QuerySet, Value

from ingest.addresses import unit
from ingest.models import Ban
from ingest.services.guard import Guard, KnownBan
from ingest.services.prepared import Given, Prepared


def unit_of(text: str) -> str:
    """As `addresses.unit`, also for a network as it is listed; raises ValidationError."""
    address = text.strip()
    try:
        found = unit(address.removesuffix("/64"))
    except ValueError:
        raise ValidationError(f"{text!r} is no address: give one such as 192.0.2.7 or 2001:db8::1.") from None
    if address.endswith("/64") and found != address:
        raise ValidationError(f"{text!r} is no network that can be banned: an IPv4 address is banned alone.")
    return found


def active(*, now: datetime) -> "QuerySet[Ban]":
    return Ban.objects.filter(until__gt=now, lifted_at__isnull=True)


MOST_READ = 2000
"""Bans of all nodes that hold on each; of more, those that end last. A thousand take a few tens of ms to read."""

Mark = tuple[object, ...]
"""Of all bans that would not be over yet: as long as it stays the same, they do."""


def tell(guard: Guard, *, now: datetime, before: Mark | None = None) -> Mark:
    """Tells a node's guard of the bans, if they aren't those of the mark `before`; their own mark.

    So that a look each second costs a node next to nothing, however many there are.
    """
    mark: Mark = tuple(_MARK.ask(now=now))
    if mark != before:
        fields = Ban.objects.filter(until__gt=now).order_by("-until").values_list("address", "at", "until", "lifted_at")
        guard.settle(
            [
                KnownBan(address, at.timestamp(), until.timestamp(), lifted_at is not None)
                for address, at, until, lifted_at in fields[:MOST_READ]
            ],
            now.timestamp(),
        )
    return mark


def _mark() -> "QuerySet[Ban, Any]":
    not_over = Ban.objects.filter(until__gt=Given("now", DateTimeField())).order_by()
    of_all = not_over.values(of_all=Value(1)).annotate(count=Count("pk"), latest=Max("pk"), lifted=Max("lifted_at"))
    return of_all.values_list("count", "latest", "lifted")


_MARK = Prepared(_mark)


def impose(*, address: str, seconds: float, now: datetime, guesses: int = 0, node: str = "") -> Ban:
    """Bans an address, in each node within 2 s. Raises ValidationError. The same ban again is made once."""
    ban, _ = Ban.objects.get_or_create(
        address=unit_of(address),
        at=now,
        defaults={"until": now + timedelta(seconds=seconds), "guesses": guesses, "node": node},
    )
    return ban


def lift(*, address: str, now: datetime, by: AbstractBaseUser | None = None) -> int:
    """Lifts what bans the address, in each node within 2 s: how many bans there were. Raises ValidationError."""
    rows = active(now=now).filter(address=unit_of(address))
    return rows.update(lifted_at=now, lifted_by=by)
