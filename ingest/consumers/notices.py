"""What this process has for the wall beside streams: encoders that were turned away lately, and streams that dropped.

Both are bounded, whatever peers do: refusals of one cause are one entry with a count, an address has a few entries, and
beyond MOST of them all share one. So a tick costs the same in an attack as in any night. The table of attempts and the
sessions have everything; here is what somebody should look at now.
"""

from collections import Counter, deque
from collections.abc import Iterator

from ingest import clock
from ingest.addresses import unit_or_itself
from ingest.contracts import RefusedGroup
from ingest.pages import Drop
from ingest.services.attempts import AttemptRow
from ingest.services.refusals import REASONS, reason_words

LASTS_S = 600.0
"""An entry is told for so long after its last refusal; what comes later begins another."""

MOST = 12
"""Entries; what comes beyond shares one more."""
MOST_OF_ADDRESS = 3
"""Of one address (of IPv6: one /64); what comes beyond shares one of that address."""

LONGEST = 64
"""Characters of a name, which a peer chooses."""

SEVERAL = "Several reasons"

Key = tuple[str, str, str, str]


class Refusals:
    """Encoders' alone: players that are turned away are many, and nobody is called for one."""

    def __init__(self) -> None:
        self._entries: dict[Key, RefusedGroup] = {}

    def put(self, row: AttemptRow) -> None:
        """Its texts are masked. A connection that broke before it asked for anything is no refusal."""
        if row.action == "play" or row.reason not in REASONS:
            return
        at = row.at.timestamp()
        self._forget(at)
        key = next(key for key in self._keys(row) if key in self._entries or self._has_room(key))
        entry = self._entries.get(key)
        if entry is None:
            reason, app, name, address = key
            words = reason_words(reason) if reason else SEVERAL
            self._entries[key] = RefusedGroup(
                reason=reason, words=words, app=app, name=name, address=address, count=row.count, since=at, at=at
            )
        else:
            entry["count"] += row.count
            entry["at"] = max(entry["at"], at)

    def now(self, at: float) -> list[RefusedGroup]:
        """Those that are told at this time, the first begun first."""
        self._forget(at)
        return [entry.copy() for entry in self._entries.values()]

    def _forget(self, at: float) -> None:
        for key in [key for key, entry in self._entries.items() if entry["at"] < at - LASTS_S]:
            del self._entries[key]

    def _keys(self, row: AttemptRow) -> Iterator[Key]:
        """With less and less of what was asked for."""
        address = row.address if row.reason != "banned" else unit_or_itself(row.address)
        yield row.reason, row.app[:LONGEST], row.name[:LONGEST], address
        yield "", "", "", unit_or_itself(row.address)
        yield "", "", "", ""

    def _has_room(self, key: Key) -> bool:
        reason, _, _, address = key
        if not (reason or address):
            return True
        of = Counter(unit_or_itself(known) for _, _, _, known in self._entries)
        return len(self._entries) < MOST and (not reason or of[unit_or_itself(address)] < MOST_OF_ADDRESS)


REFUSALS = Refusals()

FRESH_S = 15.0
"""By then the database has a drop, and what became of it: walls that were opened since have it from there."""

_drops: deque[tuple[float, Drop]] = deque(maxlen=50)
"""Since the last tick that walls were told of, each with when it came, the latest last."""


def put_drop(drop: Drop) -> None:
    _drops.append((clock.now(), drop))


def take_drops() -> list[Drop]:
    """Those that came of late: while nobody has a wall open, none are taken."""
    since = clock.now() - FRESH_S
    taken = [drop for at, drop in _drops if at > since]
    _drops.clear()
    return taken
