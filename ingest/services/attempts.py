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
"""Rows of one address; beyond, what was asked for is left out of them."""

ALL_NEW_A_MINUTE = 600
"""Rows of all addresses; beyond, the address is left out as well."""

MOST_WAITING = 5000
"""Attempts that wait for the database, each for all that are the same."""


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
    until: datetime | None = None
    """When the last of several came; `at` is the first."""

    @property
    def last_at(self) -> datetime:
        return self.until or self.at

    @property
    def same(self) -> tuple[str, ...]:
        return self.action, self.app, self.name, self.address, self.reason, self.node


class Waiting:
    """What is still to be written, in the order in which it came first. The same again counts in the one that waits."""

    def __init__(self) -> None:
        self._rows: dict[int, AttemptRow] = {}
        self._latest: dict[tuple[str, ...], int] = {}
        self._of_unit: Counter[str] = Counter()
        self._number = 0

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, row: AttemptRow) -> bool:
        """False: there is no room for one more."""
        row = _of_ban(row)
        if self._add(row):
            return True
        unit = unit_or_itself(row.address)
        if self._of_unit[unit] >= NEW_A_MINUTE:
            row = _without_names(row)
            if self._add(row):
                return True
        if len(self._rows) >= MOST_WAITING:
            return False
        self._number += 1
        self._rows[self._number] = row
        self._latest[row.same] = self._number
        self._of_unit[unit] += 1
        return True

    def take(self, most: int) -> list[AttemptRow]:
        numbers = list(itertools.islice(self._rows, most))
        rows = [self._rows.pop(number) for number in numbers]
        for number, row in zip(numbers, rows, strict=True):
            if self._latest[row.same] == number:
                del self._latest[row.same]
        self._of_unit -= Counter(unit_or_itself(row.address) for row in rows)
        return rows

    def _add(self, row: AttemptRow) -> bool:
        number = self._latest.get(row.same)
        if number is None:
            return False
        found = self._rows[number]
        if not _goes_on(found.at, found.last_at, row.at):
            return False
        self._rows[number] = replace(found, count=found.count + row.count, until=max(found.last_at, row.last_at))
        return True


def _goes_on(first: datetime, last: datetime, at: datetime) -> bool:
    return at - last <= CONTINUES and at - first <= LASTS


def _of_ban(row: AttemptRow) -> AttemptRow:
    """Who is banned is banned with his whole network, and refused unheard: it is all the same."""
    return replace(row, address=unit_or_itself(row.address)) if row.reason == "banned" else row


def _without_names(row: AttemptRow) -> AttemptRow:
    return replace(row, app="", name="", address=unit_or_itself(row.address), stream=None, key=None)


@dataclass(frozen=True, slots=True)
class _Open:
    pk: int
    at: datetime
    last_at: datetime
    count: int


class Attempts:
    """Writes them, on one thread. What `write` did counts when `keep` says that its transaction was committed."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, ...], _Open] = OrderedDict()
        self._changed: dict[tuple[str, ...], _Open] = {}
        self._continued: dict[int, _Open] = {}
        """By row id: what the latest `write` changed."""
        self._minute = -1
        self._new: Counter[str] = Counter()
        """Rows that were begun in this minute, by address,"""
        self._begun: Counter[str] = Counter()
        """and those of the latest `write` with them."""

    def write(self, rows: Sequence[AttemptRow]) -> None:
        """Within a transaction. Repeating it after one that failed writes the same."""
        self._changed, self._continued, self._begun = {}, {}, self._new.copy()
        fresh: dict[int, AttemptRow] = {}
        """By what stands for their ids until they are made."""
        for row in rows:
            for form in self._forms(row):
                if self._continue(form):
                    break
            else:
                place = -1 - len(fresh)
                fresh[place] = form
                self._changed[form.same] = _Open(place, form.at, form.last_at, form.count)
                self._begun[unit_or_itself(form.address)] += 1
        continued = {pk: self._continued.pop(pk) for pk in fresh if pk in self._continued}
        made = [
            replace(row, count=continued[pk].count, until=continued[pk].last_at) if pk in continued else row
            for pk, row in fresh.items()
        ]
        ids = dict(zip(fresh, _create(made), strict=True))
        self._changed = {same: replace(row, pk=ids.get(row.pk, row.pk)) for same, row in self._changed.items()}
        before = self._continued.values()
        set_each(Attempt, ["count", "last_at"], ((found.count, found.last_at, found.pk) for found in before))

    def keep(self) -> None:
        for key, found in self._changed.items():
            self._open[key] = found
            self._open.move_to_end(key)
        self._changed, self._new = {}, self._begun
        while len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)

    def _forms(self, row: AttemptRow) -> Iterator[AttemptRow]:
        """The attempt as it may be written, and, after too many others of this minute, with less and less of it."""
        yield row
        minute = int(row.at.timestamp() // 60)
        if minute != self._minute:
            self._minute, self._begun = minute, Counter()
        if self._begun[unit_or_itself(row.address)] >= NEW_A_MINUTE:
            yield _without_names(row)
        if self._begun.total() >= ALL_NEW_A_MINUTE:
            yield replace(_without_names(row), address="")

    def _continue(self, row: AttemptRow) -> bool:
        found = self._changed.get(row.same) or self._open.get(row.same)
        if found is None or not _goes_on(found.at, found.last_at, row.at):
            return False
        found = replace(found, last_at=max(row.last_at, found.last_at), count=found.count + row.count)
        self._changed[row.same] = self._continued[found.pk] = found
        return True


def _create(rows: Sequence[AttemptRow]) -> list[int]:
    """Their ids. A stream or a key that was deleted since is left out."""
    if not rows:
        return []
    there = StreamKey.objects.filter(pk__in={row.key for row in rows if row.key})
    known = set(there.values_list("pk", flat=True))
    streams = Stream.objects.filter(pk__in={row.stream for row in rows if row.stream})
    named = dict(streams.order_by().values_list("pk", "name"))
    hidden = keys.hide_all({text for row in rows for text in (row.name, row.app.partition("/")[0])})
    made = Attempt.objects.bulk_create(
        Attempt(
            at=row.at,
            last_at=row.last_at,
            count=row.count,
            action=row.action,
            app=_with_first(hidden, row.app),
            name=named.get(row.stream or 0) or hidden[row.name],
            address=row.address,
            encoder=row.encoder,
            node=row.node,
            reason=row.reason,
            code=row.code,
            description=row.description,
            stream_id=row.stream if row.stream in named else None,
            key_id=row.key if row.key in known else None,
        )
        for row in rows
    )
    return [int(row.pk) for row in made]


def _with_first(hidden: Mapping[str, str], app: str) -> str:
    """An application as it came, but a key in its place masked."""
    first, slash, rest = app.partition("/")
    return hidden[first] + slash + rest
