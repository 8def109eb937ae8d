"""Bans: who tries one wrong secret after the other is refused unheard (`Guard`), and the rows that say so to all nodes.

Different wrong secrets are what counts: an encoder that repeats one wrong key all day is badly set up, and guesses
nothing. Secrets are kept as keyed hashes. An IPv6 address stands for its /64, which one customer has.

The database has the bans of all nodes, and each node reads them once a second. One that is imposed by a node's guard
holds there at once, until it is read back: its row may have to wait for the database. Guards of workers on the same
ports tell one another of wrong secrets and of bans (`ingest.siblings`): it is the same whom of them a client meets."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from typing import Any, TypeVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db.models import Count, DateTimeField, Max, QuerySet, Value

from ingest.addresses import unit
from ingest.models import Ban
from ingest.services.keys import keyed_hash
from ingest.services.sql import Given, Prepared

T = TypeVar("T")

WINDOW_S = 600.0
"""For so long a wrong secret counts after it was last tried."""

PORTION = 500
"""Wrong secrets, or bans, that are told at once to a worker that comes later."""

MOST_ADDRESSES = 10_000
"""That are remembered, with wrong secrets and as banned; the oldest give way."""

ROUNDING_S = 0.001
"""A row's time may differ by so much from the one in memory."""


@dataclass(frozen=True, slots=True)
class KnownBan:
    """A ban as the database has it; times in seconds since the epoch."""

    unit: str
    at: float
    until: float
    lifted: bool


class Guard:
    """Of one process; any thread may ask. `now`: seconds since the epoch.

    What is told of it are addresses and hashes: [[unit, hash, when it was tried]], or [[unit, when it was banned]]. Of
    two guesses that two workers hear in the same moment, each counts only its own: then the next one bans.
    """

    def __init__(self, *, guesses: int, ban_s: float, most: int = MOST_ADDRESSES) -> None:
        self._guesses = guesses
        self._ban_s = ban_s
        self._most = most
        self._lock = threading.Lock()
        self._wrong: OrderedDict[str, OrderedDict[str, float]] = OrderedDict()
        """By unit, the longest untried first: when each wrong secret's hash was last tried, the latest last."""
        self._imposed: OrderedDict[str, float] = OrderedDict()
        """When this process banned those whose bans the database hasn't shown yet."""
        self._known: dict[str, float] = {}
        """Until when each ban holds that the database has."""
        self.tell: Callable[[list[list[Any]]], None] | None = None
        """Tells the other workers, in their event loop's thread."""

    def wrong(self, address: str, secret: str, now: float) -> int:
        """Counts a wrong secret. Not 0: so many different ones were tried, and the address is banned from now on."""
        try:
            network = unit(address)
        except ValueError:  # The peer is gone, or it is no internet address.
            return 0
        if not self._ban_s or self.banned_until(address, now) is not None:
            return 0
        hashed = keyed_hash("guess", secret)
        with self._lock:
            count = self._try(network, hashed, now)
            is_banned = count >= self._guesses
            if is_banned:
                self._ban(network, now)
        if self.tell:
            self.tell([[network, now] if is_banned else [network, hashed, now]])
        return count if is_banned else 0

    def _try(self, network: str, hashed: str, at: float) -> int:
        """How many were tried within the window, with this one."""
        tried = self._wrong.setdefault(network, OrderedDict())
        self._wrong.move_to_end(network)
        tried[hashed] = at
        tried.move_to_end(hashed)
        while next(iter(tried.values())) <= at - WINDOW_S:
            tried.popitem(last=False)
        count = len(tried)
        _trim(self._wrong, self._most)
        return count

    def _ban(self, network: str, at: float) -> None:
        self._wrong.pop(network, None)
        self._imposed[network] = at
        _trim(self._imposed, self._most)

    def told(self, worker: int, what: list[list[Any]]) -> None:
        """What another worker's guard has counted or banned."""
        with self._lock:
            for network, *hashed, at in what:
                if hashed:
                    self._try(network, hashed[0], at)
                else:
                    self._ban(network, at)

    def gone(self, worker: int) -> None:
        """What was tried there was tried all the same."""

    def everything(self) -> Iterator[list[list[Any]]]:
        with self._lock:
            tried = [[network, *each] for network, hashes in self._wrong.items() for each in hashes.items()]
            found = tried + [[network, at] for network, at in self._imposed.items()]
        for first in range(0, len(found), PORTION):
            yield found[first : first + PORTION]

    def banned_until(self, address: str, now: float) -> float | None:
        """Until when the address is refused unheard; None: it is heard."""
        try:
            network = unit(address)
        except ValueError:
            return None
        with self._lock:
            until = max(self._known.get(network, 0.0), self._imposed.get(network, -inf) + self._ban_s)
        return until if until > now else None

    def settle(self, bans: Iterable[KnownBan], now: float) -> None:
        """Takes over what the database has, lifted ones among it, in place of what it had before."""
        known: dict[str, float] = {}
        with self._lock:
            for ban in bans:
                if not ban.lifted:
                    known[ban.unit] = max(known.get(ban.unit, 0.0), ban.until)
                if ban.at > self._imposed.get(ban.unit, inf) - ROUNDING_S:
                    del self._imposed[ban.unit]
            for network in [network for network, at in self._imposed.items() if at + self._ban_s <= now]:
                del self._imposed[network]
            self._known = known

    @property
    def sizes(self) -> tuple[int, int, int]:
        """What is held: addresses with wrong secrets, the hashes of these, and bans."""
        with self._lock:
            hashes = sum(len(tried) for tried in self._wrong.values())
            return len(self._wrong), hashes, len(self._imposed) + len(self._known)


def _trim(held: OrderedDict[str, T], most: int) -> None:
    while len(held) > most:
        held.popitem(last=False)


_guard: Guard | None = None
_making = threading.Lock()


def get_guard() -> Guard:
    global _guard
    with _making:
        if _guard is None:
            _guard = Guard(guesses=settings.GUESSES, ban_s=settings.BAN_S)
        return _guard


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


def update_guard(guard: Guard, *, now: datetime, before: Mark | None = None) -> Mark:
    """Tells a node's guard of the bans, if they aren't those of the mark `before`; their own mark.

    So that a poll each second costs a node next to nothing, however many there are.
    """
    mark: Mark = tuple(_mark.ask(now=now))
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


@Prepared
def _mark() -> "QuerySet[Ban, Any]":
    not_over = Ban.objects.filter(until__gt=Given("now", DateTimeField())).order_by()
    of_all = not_over.values(of_all=Value(1)).annotate(count=Count("pk"), latest=Max("pk"), lifted=Max("lifted_at"))
    return of_all.values_list("count", "latest", "lifted")


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
