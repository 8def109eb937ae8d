"""Refusals as rows. The same one again, soon after, is counted in the row that it continues.

So neither an encoder that tries a wrong key every few seconds nor a load balancer's checks fill the table: one row an
hour each. Who asks for ever different things from one address gets a number of rows a minute of his own, then shares.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ingest.models import Attempt, Stream
from ingest.services import keys

CONTINUES = timedelta(seconds=60)
"""A row is continued for so long after its last one,"""
LASTS = timedelta(hours=1)
"""and for so long after its first."""

MOST_OPEN = 5000
"""Rows that may be continued; the longest unused give way."""

NEW_A_MINUTE = 30
"""Rows of one address; beyond, what was asked for is left out of them."""


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


@dataclass(frozen=True, slots=True)
class _Open:
    """A row that may be continued."""

    pk: int
    at: datetime
    last_at: datetime
    count: int = 1

    def goes_on(self, at: datetime) -> bool:
        return at - self.last_at <= CONTINUES and at - self.at <= LASTS


class Attempts:
    """Writes them, on one thread. What `write` did counts when `keep` says that its transaction was committed."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, ...], _Open] = OrderedDict()
        self._changed: dict[tuple[str, ...], _Open] = {}
        self._continued: dict[int, _Open] = {}
        """By row id: what the latest `write` changed."""
        self._minute = -1
        self._new: dict[str, int] = {}
        """Rows that were begun in this minute, by address."""

    def write(self, rows: Sequence[AttemptRow]) -> None:
        """Within a transaction. Repeating it after one that failed writes the same."""
        self._changed, self._continued = {}, {}
        for row in rows:
            if not self._continue(row):
                if self._is_flooding(row):
                    row = replace(row, app="", name="", stream=None, key=None)
                    if self._continue(row):
                        continue
                self._changed[_key(row)] = _Open(_create(row), row.at, row.at, row.count)
        for found in self._continued.values():
            Attempt.objects.filter(pk=found.pk).update(count=found.count, last_at=found.last_at)

    def keep(self) -> None:
        for key, found in self._changed.items():
            self._open[key] = found
            self._open.move_to_end(key)
        self._changed = {}
        while len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)

    def _continue(self, row: AttemptRow) -> bool:
        key = _key(row)
        found = self._changed.get(key) or self._open.get(key)
        if found is None or not found.goes_on(row.at):
            return False
        found = replace(found, last_at=max(row.at, found.last_at), count=found.count + row.count)
        self._changed[key] = self._continued[found.pk] = found
        return True

    def _is_flooding(self, row: AttemptRow) -> bool:
        minute = int(row.at.timestamp() // 60)
        if minute != self._minute:
            self._minute, self._new = minute, {}
        begun = self._new[row.address] = self._new.get(row.address, 0) + 1
        return begun > NEW_A_MINUTE


def _key(row: AttemptRow) -> tuple[str, ...]:
    return row.action, row.app, row.name, row.address, row.reason, row.node


def _create(row: AttemptRow) -> int:
    named = Stream.objects.values_list("name", flat=True).filter(pk=row.stream).first() if row.stream else None
    made = Attempt.objects.create(
        at=row.at,
        last_at=row.at,
        count=row.count,
        action=row.action,
        app=_hide_first(row.app),
        name=named or keys.hide(name=row.name),
        address=row.address,
        encoder=row.encoder,
        node=row.node,
        reason=row.reason,
        code=row.code,
        description=row.description,
        stream_id=row.stream,
        key_id=row.key,
    )
    return int(made.pk)


def _hide_first(app: str) -> str:
    """An application as it came, but a key in its place masked."""
    first, slash, rest = app.partition("/")
    return keys.hide(name=first) + slash + rest
