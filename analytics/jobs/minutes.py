"""A file's samples to minutes and to histograms of bitrates, and which of them came twice: one pass, by Arrow.

Whoever runs it, a worker of Spark or this process, has pyarrow and numpy, and gets this module by value.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from analytics.histograms import ZERO
from analytics.histograms import buckets as buckets_of
from analytics.jobs import schemas
from analytics.metrics import BITRATES, EXTREMES, MEASURED

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US

LABELS = tuple(schemas.PUBLISH)

MERGED: tuple[tuple[str, Any, str], ...] = (
    ("first_us", lambda s: s.at_us - 1000 * s.elapsed_ms, "min"),
    ("last_us", "at_us", "max"),
    ("first_sequence", "sequence", "min"),
    ("last_sequence", "sequence", "max"),
    *((each.name, each.over, each.merge.value) for each in (*MEASURED, *EXTREMES)),
)
"""(a column of minutes, what it is over, how it merges)."""

SEQUENCE_BITS = 40
"""Room for a sample's number beside its session's: a second each for 34,000 years."""

BUCKET_BITS = 16
"""A bucket has room in them, counted from the least."""

NUMBERS = ["session", "first_sequence", "last_sequence"]
"""The columns of minutes that tell whether samples came twice."""


class Samples:
    """Samples (schemas.SAMPLES), in one chunk, as analytics.metrics has its expressions over them; and whose they are.

    They may have texts as dictionaries.
    """

    def __init__(self, rows: "pa.Table") -> None:
        self.rows = rows
        self._labelled: tuple[NDArray[np.int64], pa.Table] | None = None

    def __getattr__(self, name: str) -> "NDArray[Any]":
        """Made once: from then on it is an attribute."""
        column = self.rows[name]
        if column.null_count:
            column = column.cast("float64") if name in schemas.UNKNOWN else column.fill_null(0)
        array: NDArray[Any] = column.to_numpy()
        setattr(self, name, array)
        return array

    def is_(self, name: str, text: str) -> "NDArray[np.bool]":
        column = _encoded(self.rows[name])
        place = column.dictionary.index(text).as_py()
        found: NDArray[np.bool] = (_indices(column) == place) & (place >= 0)
        return found

    @property
    def labelled(self) -> "tuple[NDArray[np.int64], pa.Table]":
        """The number of each sample's labels, and the LABELS of each number."""
        if self._labelled is None:  # No cached_property: it can't go to a worker of Spark.
            self._labelled = self._find_labels()
        return self._labelled

    def _find_labels(self) -> "tuple[NDArray[np.int64], pa.Table]":
        import numpy as np

        numbers, count = _numbers(self.rows["session"])
        for name in LABELS[1:]:
            other, others = _numbers(self.rows[name])
            of_session = np.zeros(count, np.int64)
            of_session[numbers] = other
            if not np.array_equal(of_session[numbers], other):  # A session with two labels: they are seldom.
                known, numbers = np.unique(numbers * others + other, return_inverse=True)
                count = len(known)
        place = np.zeros(count, np.int64)
        place[numbers] = np.arange(len(numbers))
        return numbers, self.rows.select(list(LABELS)).take(place).cast(schemas.arrow(schemas.PUBLISH))


def _encoded(column: "pa.ChunkedArray") -> "pa.DictionaryArray":
    array = column.combine_chunks()
    return array if hasattr(array, "dictionary") else array.dictionary_encode()


def _indices(column: "pa.DictionaryArray") -> "NDArray[np.int64]":
    """-1: it is null."""
    found: NDArray[np.int64] = column.indices.fill_null(-1).to_numpy().astype("int64")
    return found


def _numbers(column: "pa.ChunkedArray") -> "tuple[NDArray[np.int64], int]":
    """A number for each row, the same where the column is, nulls too; and how many numbers there may be."""
    encoded = _encoded(column)
    return _indices(encoded) + 1, len(encoded.dictionary) + 1


def minutes(s: Samples) -> "pa.Table":
    """Samples, each once, to schemas.MINUTES."""
    import numpy as np
    import pyarrow as pa

    numbers, labels = s.labelled
    minute = s.at_us // MINUTE_US
    first, last = (int(minute.min()), int(minute.max())) if len(minute) else (0, 0)
    span = last - first + 1
    grouped = (
        pa.table({"key": numbers * span + (minute - first), **{name: _over(s, over) for name, over, _ in MERGED}})
        .group_by("key", use_threads=False)
        .aggregate([(name, merge) for name, _, merge in MERGED])
        .rename_columns(["key", *(name for name, _, _ in MERGED)])
    )
    key = grouped["key"].to_numpy()
    named = labels.take(pa.array(key // span))
    of = {name: named[name] for name in LABELS} | {"minute_us": (first + key % span) * np.int64(MINUTE_US)}
    return _as(pa.table(of | {name: grouped[name] for name, _, _ in MERGED}), schemas.MINUTES)


def sessions(minutes: "pa.Table", hour_us: int) -> "pa.Table":
    """The minutes of an hour to schemas.SESSIONS."""
    import pyarrow as pa

    merged = [(name, merge) for name, _, merge in MERGED]
    grouped = minutes.group_by(list(LABELS), use_threads=False).aggregate(merged)
    grouped = grouped.rename_columns([*LABELS, *(name for name, _ in merged)])
    return _as(grouped.append_column("start_us", pa.repeat(hour_us, grouped.num_rows)), schemas.SESSIONS)


def buckets(s: Samples, hour_us: int) -> "pa.Table":
    """Samples of an hour, each once, to schemas.BUCKETS."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers, labels = s.labelled
    found = []
    for kind in BITRATES:
        counted = pc.value_counts(pa.array((numbers << BUCKET_BITS) | (buckets_of(getattr(s, f"{kind}_kbps")) - ZERO)))
        key, size = counted.field("values").to_numpy(), len(counted)
        named = labels.take(pa.array(key >> BUCKET_BITS))
        own = {
            "start_us": pa.repeat(hour_us, size),
            "kind": pa.repeat(kind, size),
            "bucket": (key & np.int64((1 << BUCKET_BITS) - 1)) + ZERO,
            "count": counted.field("counts"),
        }
        found.append(_as(pa.table({name: named[name] for name in LABELS} | own), schemas.BUCKETS))
    return pa.concat_tables(found)


def once(rows: "pa.Table") -> "pa.Table":
    """Samples without those that came before. Of two that differ, always the same one is left."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if not rows.num_rows:
        return rows
    numbers = (_numbers(rows["session"])[0] << SEQUENCE_BITS) | rows["sequence"].to_numpy()
    ordered = np.sort(numbers)
    copies = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(copies):
        return rows
    come_twice = np.isin(numbers, copies)
    doubled = rows.filter(pa.array(come_twice)).cast(schemas.arrow(schemas.SAMPLES))
    doubled = doubled.sort_by([(name, "ascending") for name in _by_number(rows)])
    follows = pa.array(np.ones(doubled.num_rows - 1, np.bool))
    for name in ("session", "sequence"):
        column = doubled[name].combine_chunks()
        follows = pc.and_(follows, pc.equal(column[1:], column[:-1]))
    last = doubled.filter(pa.array(np.append(~follows.to_numpy(zero_copy_only=False), True)))
    return pa.concat_tables([rows.filter(pa.array(~come_twice)), last.cast(rows.schema)]).combine_chunks()


def overlapping(parts: Sequence["pa.Table"]) -> set[str]:
    """The sessions of several parts' MINUTES that may have samples in two of them. None is missed; few are here without
    reason.

    Each part has its samples once. So do all together, unless the numbers of two of a session's minutes overlap.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

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
    session = among["session"].combine_chunks().dictionary_encode()
    codes = session.indices.to_numpy().astype(np.int64) << SEQUENCE_BITS
    first, last = (codes | among[name].to_numpy() for name in NUMBERS[1:])
    reached = np.maximum.accumulate(last)  # Codes grow: what an earlier session reached is below all of the next.
    wrong = np.flatnonzero(first[1:] <= reached[:-1]) + 1
    return set(among["session"].take(pa.array(wrong)).to_pylist())


def _by_number(rows: "pa.Table") -> list[str]:
    first = ["session", "sequence"]
    return [*first, *(name for name in rows.column_names if name not in first)]


def _over(s: Samples, over: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    if callable(over):
        return pa.array(np.asarray(over(s)).astype(np.int64, copy=False))
    column = s.rows[over]
    return column if over in schemas.UNKNOWN or not column.null_count else column.fill_null(0)


def _as(table: "pa.Table", columns: schemas.Columns) -> "pa.Table":
    return table.select(list(columns)).cast(schemas.arrow(columns))


def concatenated(parts: Iterable["pa.Table"], columns: schemas.Columns) -> "pa.Table":
    import pyarrow as pa

    return pa.concat_tables([schemas.arrow(columns).empty_table(), *parts])
