"""A file's samples to minutes and to histograms of bitrates, and which of them came twice: one pass, by Arrow.

Whoever runs it, a worker of Spark or this process, has pyarrow and numpy, and gets this module by value.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from analytics import schemas
from analytics.histograms import MOST, ZERO
from analytics.histograms import buckets as buckets_of
from analytics.metrics import BITRATES, EXTREMES, MEASURED

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US

LABELS = tuple(schemas.PUBLISH)

MERGED: tuple[tuple[str, Any, str], ...] = (
    ("first_us", lambda s: s.at_us - 1000 * s.elapsed_ms, "min"),
    ("last_us", "at_us", "max"),
    ("first_sequence", "sequence", "min"),
    ("last_sequence", "sequence", "max"),
    *((each.name, each.over or each.name, each.merge.value) for each in (*MEASURED, *EXTREMES)),
)
"""(a column of minutes, what it is over, how it merges)."""

MINUTE_BITS = 6
"""Room for a minute of the hour beside the number of a session's labels."""

SEQUENCE_BITS = 40
"""Room for a sample's number beside its session's: a second each for 34,000 years."""

DENSE = 8
"""Up to so many numbers for each sample, how often each of them is there is counted in an array of all of them."""

NO_ID = -1
"""In place of a stream's or a key's that is not known: rows of the database have others."""

NUMBERS = ["session", "first_sequence", "last_sequence"]
"""The columns of minutes that tell whether samples came twice."""


class Samples:
    """Samples (schemas.SAMPLES, texts encoded or not) of an hour, in one chunk, as what analytics.metrics has its
    expressions over: arrays, each made when it is first asked for.

    They are in the order of their sessions, labels and minutes. `starts`: where each minute of the same labels begins;
    `labels`: where the first of these does.
    """

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        numbers = _labelled(rows) << MINUTE_BITS | rows["at_us"].to_numpy() % HOUR_US // MINUTE_US
        self._order = None
        if (numbers[1:] < numbers[:-1]).any():
            bits = len(numbers).bit_length()  # Sorting numbers that bear their positions takes a third of argsort.
            numbers = np.sort(numbers << bits | np.arange(len(numbers)))
            self._order = numbers & ((1 << bits) - 1)
            numbers >>= bits
        self.starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        self.labels = np.flatnonzero(np.diff(numbers >> MINUTE_BITS, prepend=-1))

    def __getattr__(self, name: str) -> NDArray[Any]:
        column = self._rows[name]
        if _is_text(column):
            array = numbered(column)
        elif not column.null_count:
            array = column.to_numpy()
        else:
            array = (column.cast("float64") if name in schemas.UNKNOWN else column.fill_null(0)).to_numpy()
        if self._order is not None:
            array = array[self._order]
        self.__dict__[name] = array
        return array

    def is_(self, name: str, text: str) -> NDArray[np.bool]:
        place = pc.index(_encoded(self._rows[name]).dictionary, text).as_py()
        found: NDArray[np.bool] = getattr(self, name) == (place + 1 if place >= 0 else -1)
        return found

    def labels_at(self, positions: NDArray[np.intp]) -> dict[str, pa.ChunkedArray]:
        """The LABELS of the samples at these positions."""
        if self._order is not None:
            positions = self._order[positions]
        return {name: self._rows[name].take(positions) for name in LABELS}

    @property
    def rise(self) -> bool:
        """Whether each session's numbers do, so that no sample came twice. They may not where labels changed."""
        numbers = self.session << SEQUENCE_BITS | self.sequence
        return bool((numbers[1:] > numbers[:-1]).all())


def single(rows: pa.Table) -> Samples:
    """Samples, each once."""
    samples = Samples(rows)
    if samples.rise:
        return samples
    left = once(rows)
    return samples if left is rows else Samples(left)


def minutes(s: Samples) -> pa.Table:
    """Samples, each once, to schemas.MINUTES."""
    merging = {"sum": np.add, "min": np.fmin, "max": np.fmax}
    merged = {name: merging[merge].reduceat(_over(s, over), s.starts) for name, over, merge in MERGED}
    begin = s.at_us[s.starts]
    columns = {"minute_us": begin - begin % MINUTE_US, **s.labels_at(s.starts), **merged}
    # Where nothing was known NaN is the greatest.
    unknown = {name: pa.array(merged[name], from_pandas=True) for name, over, _ in MERGED if over in schemas.UNKNOWN}
    return schemas.cast(pa.table(columns | unknown), schemas.MINUTES)


def sessions(minutes: pa.Table, hour_us: int) -> pa.Table:
    """The minutes of an hour to schemas.SESSIONS."""
    found = merged(minutes, LABELS)
    return schemas.cast(found.append_column("start_us", pa.repeat(hour_us, found.num_rows)), schemas.SESSIONS)


def merged(rows: pa.Table, by: Sequence[str]) -> pa.Table:
    """Minutes, or sessions, of which those with the same in these columns are one."""
    return schemas.aggregated(rows, by, [(name, merge) for name, _, merge in MERGED])


def buckets(s: Samples, hour_us: int) -> pa.Table:
    """Samples of an hour, each once, to schemas.BUCKETS."""
    samples = len(s.at_us)
    of = np.repeat(np.arange(len(s.labels)), np.diff(s.labels, append=samples))
    parts = []
    for kind in BITRATES:
        bucket = buckets_of(getattr(s, f"{kind}_kbps"))
        is_none = bucket == ZERO
        before = bucket.min(initial=MOST, where=~is_none) - 1
        bucket[is_none] = before  # Next to the others, so that few numbers lie between them.
        width = bucket.max(initial=before) - before + 1
        numbers, counts = _counted(of * width + (bucket - before))
        label, bucket = np.divmod(numbers, width)
        columns = {
            "start_us": pa.repeat(hour_us, len(numbers)),
            **s.labels_at(s.labels[label]),
            "kind": pa.repeat(kind, len(numbers)),
            "bucket": np.where(bucket == 0, ZERO, bucket + before),
            "count": counts,
        }
        parts.append(schemas.cast(pa.table(columns), schemas.BUCKETS))
    return pa.concat_tables(parts)


def once(rows: pa.Table) -> pa.Table:
    """Samples without those that came before. Of two that differ, always the same one is left."""
    numbers = numbered(rows["session"]) << SEQUENCE_BITS | rows["sequence"].to_numpy()
    ordered = np.sort(numbers)
    copies = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(copies):
        return rows
    is_double = np.isin(numbers, copies)
    doubled = rows.filter(pa.array(is_double))
    read = schemas.cast(doubled, schemas.SAMPLES)  # Dictionaries can't be sorted by, and have their texts in any order.
    order = pc.sort_indices(read, [(name, "ascending") for name in _by_number(rows)])
    numbers = numbers[is_double][order.to_numpy()]
    last = np.append(numbers[1:] != numbers[:-1], True)
    left = doubled.take(order.filter(pa.array(last)))
    return pa.concat_tables([rows.filter(pa.array(~is_double)), left]).combine_chunks()


def overlapping(parts: Sequence[pa.Table]) -> set[str]:
    """The sessions of several parts' MINUTES that may have samples in two of them. None is missed; few are here without
    reason.

    Each part has its samples once. So do all together, unless the numbers of two of a session's minutes overlap.
    """
    if len(parts) < 2:
        return set()
    together = pa.concat_tables(
        part.select(NUMBERS).append_column("part", pa.repeat(number, part.num_rows))
        for number, part in enumerate(parts)
    )
    spread = together.group_by("session", use_threads=False).aggregate([("part", "min"), ("part", "max")])
    several = spread.filter(pc.not_equal(spread["part_min"], spread["part_max"]))["session"]
    among = together.filter(pc.is_in(together["session"], several.combine_chunks()))
    if not among.num_rows:
        return set()
    among = among.sort_by([("session", "ascending"), ("first_sequence", "ascending")])
    codes = numbered(among["session"]) << SEQUENCE_BITS
    first, last = (codes | among[name].to_numpy() for name in NUMBERS[1:])
    reached = np.maximum.accumulate(last)  # Codes grow: what an earlier session reached is below all of the next.
    wrong = np.flatnonzero(first[1:] <= reached[:-1]) + 1
    return set(among["session"].take(pa.array(wrong)).to_pylist())


def _by_number(rows: pa.Table) -> list[str]:
    first = ["session", "sequence"]
    return [*first, *(name for name in rows.column_names if name not in first)]


def _labelled(rows: pa.Table) -> NDArray[np.int64]:
    """A number for each sample: the same for the same labels, and those of a session next to one another."""
    numbers = numbered(rows["session"])
    for name in LABELS[1:]:
        column = rows[name]
        if not _is_text(column):
            numbers = _renumbered(numbers, column.fill_null(NO_ID).to_numpy())
        elif column.null_count or len(_encoded(column).dictionary) > 1:
            numbers = _renumbered(numbers, numbered(column))
    return numbers


def _renumbered(numbers: NDArray[np.int64], values: NDArray[Any]) -> NDArray[np.int64]:
    """The numbers, or others in the same order that have one number for each value."""
    one = np.empty(numbers.max(initial=0) + 1, values.dtype)
    one[numbers] = values
    if (one[numbers] == values).all():  # As nearly always: a label is its session's.
        return numbers
    distinct, positions = np.unique(values, return_inverse=True)
    renumbered: NDArray[np.int64] = np.unique(numbers * len(distinct) + positions, return_inverse=True)[1]
    return renumbered


def _counted(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Those that are there, from 0 on, and how often each is."""
    if numbers.max(initial=0) > DENSE * len(numbers):
        distinct, counts = np.unique(numbers, return_counts=True)
        return distinct, counts
    counts = np.bincount(numbers)
    distinct = np.flatnonzero(counts)
    return distinct, counts[distinct]


def _is_text(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_dictionary(column.type) or pa.types.is_string(column.type))


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()  # Which copies even one.
    return array if pa.types.is_dictionary(array.type) else array.dictionary_encode()


def numbered(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """A number for each value: 1 + its place in the dictionary, which has them as they come. 0 for null."""
    numbers: NDArray[np.int64] = _encoded(column).indices.fill_null(-1).to_numpy().astype(np.int64) + 1
    return numbers


def _over(s: Samples, over: Any) -> NDArray[Any]:
    values: NDArray[Any] = over(s).astype(np.int64, copy=False) if callable(over) else getattr(s, over)
    return values


def concatenated(parts: Iterable[pa.Table], columns: schemas.Columns) -> pa.Table:
    return pa.concat_tables([schemas.arrow(columns).empty_table(), *parts])
