"""Refusals as rows. The same one again, soon after, is counted in the row that it continues.

So neither an encoder that tries a wrong key every few seconds nor a load balancer's checks fill the table: one row an
hour each. Who asks for ever different things from one address (of IPv6: one /64) gets a number of rows a minute of his
own, then one for all that; and where too many addresses do so, they share.
"""

import itertools
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from django.db import transaction

from ingest.addresses import unit_or_itself
from ingest.models import Attempt, Stream, StreamKey
from ingest.services import keys
from ingest.services.sql import set_each

CONTINUES = timedelta(seconds=60)
"""A row is continued for so long after its last one,"""
LASTS = timedelta(hours=1)
"""and for so long after its first."""

MOST_OPEN = 5000
"""Rows that may be continued; the longest unused give way."""

NEW_A_MINUTE = 30
"""Rows of one address, and how many of them wait; beyond, what was asked for is left out of them."""

ALL_NEW_A_MINUTE = 600
"""Rows of all addresses; beyond, the address is left out as well."""

MOST_WAITING = 5000
"""Rows that wait for the database."""


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """A refusal; its texts are already fit for the database. A known stream's name stands in for what was sent."""

    at: datetime
    action: str
    app: str
    name: str
    address: str
    encoder: str
    node: str
    reason: str
    code: str
    description: str
    stream: int | None = None
    key: int | None = None
    count: int = 1

    @property
    def same(self) -> tuple[str, ...]:
        return self.action, self.app, self.name, self.address, self.reason, self.node


@dataclass(slots=True, eq=False)
class OpenAttempt:
    """A row that the same again continues: in the database, or still to be made there."""

    first: AttemptRow
    last_at: datetime
    count: int = 0
    pk: int | None = None

    def continues(self, at: datetime) -> bool:
        return at - self.last_at <= CONTINUES and at - self.first.at <= LASTS


class Attempts:
    """Which rows may be continued, and which of them wait to be written, in the order in which they came. One thread
    at a time."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, ...], OpenAttempt] = OrderedDict()
        """The longest unused first."""
        self._waiting: dict[OpenAttempt, None] = {}
        self._waiting_of: Counter[str] = Counter()
        """How many of them, by address."""
        self._minute = -1
        self._new: Counter[str] = Counter()
        """Rows that were begun in this minute, by address,"""
        self._all_new = 0
        """and all."""

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, row: AttemptRow) -> bool:
        """False: there is no room for one more."""
        if row.reason == "banned":  # Who is banned is so with his whole network, and unheard: it is all the same.
            row = replace(row, address=unit_or_itself(row.address))
        for form in self._forms(row):
            attempt = self._open.get(form.same)
            if attempt is not None and attempt.continues(form.at):
                break
        else:
            attempt = OpenAttempt(form, form.at)
        unit = unit_or_itself(form.address)
        if attempt not in self._waiting:
            if len(self._waiting) >= MOST_WAITING:
                return False
            self._waiting[attempt] = None
            self._waiting_of[unit] += 1
        if not attempt.count:
            self._new[unit] += 1
            self._all_new += 1
        attempt.last_at, attempt.count = max(attempt.last_at, form.at), attempt.count + form.count
        self._open[form.same] = attempt
        self._open.move_to_end(form.same)
        if len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)
        return True

    def take(self, most: int) -> list[OpenAttempt]:
        """Those that have waited longest. What comes of them from now on has them wait again."""
        rows = list(itertools.islice(self._waiting, most))
        for row in rows:
            del self._waiting[row]
        self._waiting_of -= Counter(unit_or_itself(row.first.address) for row in rows)
        return rows

    def _forms(self, row: AttemptRow) -> Iterator[AttemptRow]:
        """The attempt as it may be written, and, after too many others of this minute, with less and less of it."""
        yield row
        minute = int(row.at.timestamp() // 60)
        if minute != self._minute:
            self._minute, self._new, self._all_new = minute, Counter(), 0
        unit = unit_or_itself(row.address)
        if max(self._new[unit], self._waiting_of[unit]) >= NEW_A_MINUTE:
            row = replace(row, app="", name="", address=unit, stream=None, key=None)
            yield row
        if self._all_new >= ALL_NEW_A_MINUTE:
            yield replace(row, app="", name="", address="", stream=None, key=None)


def write(rows: Sequence[OpenAttempt]) -> None:
    """Within a transaction: makes the rows, or changes those that are there. Repeating it after one that failed writes
    the same."""
    fresh = [row for row in rows if row.pk is None]
    continued = [row for row in rows if row.pk is not None]
    transaction.on_commit(partial(_note_ids, fresh, _create(fresh)))
    set_each(Attempt, ["count", "last_at"], ((row.count, row.last_at, row.pk) for row in continued))


def _note_ids(rows: Sequence[OpenAttempt], ids: Sequence[int]) -> None:
    for row, pk in zip(rows, ids, strict=True):
        row.pk = pk


def _create(rows: Sequence[OpenAttempt]) -> list[int]:
    """Their ids. A stream or a key that was deleted since is left out."""
    if not rows:
        return []
    firsts = [row.first for row in rows]
    there = StreamKey.objects.filter(pk__in={first.key for first in firsts if first.key})
    known = set(there.values_list("pk", flat=True))
    streams = Stream.objects.filter(pk__in={first.stream for first in firsts if first.stream})
    named = dict(streams.order_by().values_list("pk", "name"))
    hidden = keys.hide_all({text for first in firsts for text in (first.name, first.app.partition("/")[0])})
    created = Attempt.objects.bulk_create(
        Attempt(
            at=first.at,
            last_at=row.last_at,
            count=row.count,
            action=first.action,
            app=_with_first(hidden, first.app),
            name=named.get(first.stream or 0) or hidden[first.name],
            address=first.address,
            encoder=first.encoder,
            node=first.node,
            reason=first.reason,
            code=first.code,
            description=first.description,
            stream_id=first.stream if first.stream in named else None,
            key_id=first.key if first.key in known else None,
        )
        for row, first in zip(rows, firsts, strict=True)
    )
    return [int(row.pk) for row in created]


def _with_first(hidden: Mapping[str, str], app: str) -> str:
    """An application as it came, but a key in its place masked."""
    first, slash, rest = app.partition("/")
    return hidden[first] + slash + rest
