"""How much of a time has been computed, and what its hours lack: files that can't be read, late and stray records.

The ledger has noted it. Of a file that can't be read nobody knows whose records it held: all of this is of all
streams."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from django.db.models import Q, QuerySet

from analytics import ledger
from analytics.models import METRIC_VERSION, Grain, Partition, within
from analytics.wording import number, plural

FIRST = 3
"""So many of the hours are named in a sentence."""


Field = Literal["damaged_files", "late_rows", "strays"]


@dataclass(frozen=True, slots=True)
class Kind:
    """`field`: of Partition, how many of `noun` an hour lacks. `words`: what is said of `{hours}` and `{count}`.
    `advice`: what to do next.
    """

    field: Field
    noun: str
    words: str
    advice: str


DAMAGED = Kind(
    "damaged_files",
    "file",
    "{hours} incomplete: {count} could not be read",
    "The files are in quarantine/damaged in the lake. Check the disk that they come from; move one that can be "
    "repaired to the same path in the lake, and the next run recomputes its hour. What can't be is lost. "
    "They are removed when they have been there for as long as samples are kept (RTMPWEB_KEEP_SAMPLES_DAYS).",
)
LATE = Kind(
    "late_rows",
    "record",
    "{count} came too late to count, after their hour's samples had been removed as old",
    "They are in quarantine/late in the lake. Find the node that was away for so long, or keep samples for longer "
    "(RTMPWEB_KEEP_SAMPLES_DAYS).",
)
STRAYS = Kind(
    "strays",
    "record",
    "{count} lay among those of another hour, and did not count",
    "Nodes write no such files: find out who moved or made them, and move them to their own hour's folder.",
)
KINDS = (DAMAGED, LATE, STRAYS)
"""The worst first."""

FIELDS = tuple(kind.field for kind in KINDS)


@dataclass(frozen=True, slots=True)
class Note:
    """`count`: what the hours that begin at `starts`, the oldest first, lack together."""

    kind: Kind
    count: int
    starts: tuple[datetime, ...]

    @property
    def words(self) -> str:
        """ "2 hours are incomplete, as 3 files could not be read"; which hours follows."""
        hours, noun = len(self.starts), plural(self.count, self.kind.noun)
        return self.kind.words.format(
            hours=f"{number(hours)} {plural(hours, 'hour is', 'hours are')}", count=f"{number(self.count)} {noun}"
        )

    @property
    def first(self) -> tuple[datetime, ...]:
        return self.starts[:FIRST]

    @property
    def more(self) -> int:
        """How many hours are not named."""
        return len(self.starts) - len(self.first)

    def sentence(self, clock: Callable[[datetime], str]) -> str:
        """Its words with the hours' begins, as the clock says them."""
        more = f" and {number(self.more)} more" if self.more else ""
        return f"{self.words}: {'; '.join(map(clock, self.first))}{more}."


def hours(since: datetime | None = None, until: datetime | None = None) -> QuerySet[Partition]:
    """Those within since <= hour < until that lack something, the latest first."""
    lacking = Q(*((f"{field}__gt", 0) for field in FIELDS), _connector=Q.OR)
    return Partition.objects.filter(lacking, within(since, until), grain=Grain.HOUR).order_by("-start")


def noted(rows: Iterable[Partition]) -> list[Note]:
    """What is to be said of hours, the oldest first: the worst first; nothing where they lack nothing."""
    lacking = {kind: [row for row in rows if getattr(row, kind.field)] for kind in KINDS}
    return [
        Note(kind, sum(getattr(row, kind.field) for row in found), tuple(row.start for row in found))
        for kind, found in lacking.items()
        if found
    ]


@dataclass(frozen=True, slots=True)
class Completeness:
    """Of a time's hours in which something was recorded: how many, how many are done, and what those lack."""

    expected: int
    done: int
    notes: list[Note]

    @property
    def is_complete(self) -> bool:
        return self.done >= self.expected


def completeness(since: datetime, until: datetime, lake: Path | None = None) -> Completeness:
    """Of since <= hour < until, as the ledger knows; with `lake` also of hours that it has yet to hear of, or whose
    files have grown. Hours whose files are gone from the lake by now count as long as the ledger knows them.
    """
    known = Partition.objects.filter(within(since, until), grain=Grain.HOUR)
    computed = known.filter(metric_version=METRIC_VERSION)
    if lake is None:
        expected, done = known.count(), computed.filter(state=Partition.State.DONE).count()
    else:
        found = ledger.Hours(lake, since, until)
        every = {*computed.values_list("start", flat=True), *found.starts}
        expected, done = len(every), len(every - {hour.start for hour in found.pending()})
    return Completeness(expected, done, noted(hours(since, until).order_by("start").only("start", *FIELDS)))
