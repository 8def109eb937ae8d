"""A file's samples to minutes and to histograms of bitrates, and which of them came twice: one pass, by Arrow.

Whoever runs it, a worker of Spark or this process, has pyarrow and numpy, and gets this module by value.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

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


NUMBERS = ["session", "first_sequence", "last_sequence"]
"""The columns of minutes that tell whether samples came twice."""


class Samples:
    """Samples (schemas.SAMPLES), in one chunk, as what analytics.metrics has its expressions over."""

    def __init__(self, rows: "pa.Table") -> None:
        self._rows = rows

    def __getattr__(self, name: str) -> "NDArray[Any]":
        column = self._rows[name]
        if column.null_count:
            column = column.cast("float64") if name in schemas.UNKNOWN else column.fill_null(0)
        array: NDArray[Any] = column.to_numpy()
        return array

    def is_(self, name: str, text: str) -> "NDArray[np.bool]":
        import pyarrow.compute as pc

        array: NDArray[np.bool] = pc.equal(self._rows[name], text).to_numpy()
        return array


def minutes(rows: "pa.Table") -> "pa.Table":
    """Samples, each once, to schemas.MINUTES."""
    import pyarrow as pa

    s = Samples(rows)
    labels = {"minute_us": s.at_us - s.at_us % MINUTE_US, **{name: rows[name] for name in LABELS}}
    grouped = (
        pa.table(labels | {name: _over(s, rows, over) for name, over, _ in MERGED})
        .group_by(list(labels), use_threads=False)
        .aggregate([(name, merge) for name, _, merge in MERGED])
        .rename_columns([*labels, *(name for name, _, _ in MERGED)])
    )
    return _as(grouped, schemas.MINUTES)


def sessions(minutes: "pa.Table", hour_us: int) -> "pa.Table":
    """The minutes of an hour to schemas.SESSIONS."""
    import pyarrow as pa

    merged = [(name, merge) for name, _, merge in MERGED]
    grouped = minutes.group_by(list(LABELS), use_threads=False).aggregate(merged)
    grouped = grouped.rename_columns([*LABELS, *(name for name, _ in merged)])
    return _as(grouped.append_column("start_us", pa.repeat(hour_us, grouped.num_rows)), schemas.SESSIONS)


def buckets(rows: "pa.Table", hour_us: int) -> "pa.Table":
    """Samples of an hour, each once, to schemas.BUCKETS."""
    import pyarrow as pa

    found = []
    for kind in BITRATES:
        bucket = buckets_of(rows[f"{kind}_kbps"].to_numpy())
        counted = (
            pa.table({**{name: rows[name] for name in LABELS}, "bucket": bucket})
            .group_by([*LABELS, "bucket"], use_threads=False)
            .aggregate([([], "count_all")])
            .rename_columns([*LABELS, "bucket", "count"])
        )
        own = {"start_us": pa.repeat(hour_us, counted.num_rows), "kind": pa.repeat(kind, counted.num_rows)}
        found.append(_as(pa.table({**{name: counted[name] for name in counted.column_names}, **own}), schemas.BUCKETS))
    return pa.concat_tables(found)


def once(rows: "pa.Table") -> "pa.Table":
    """Samples without those that came before. Of two that differ, always the same one is left."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if not rows.num_rows:
        return rows
    session = rows["session"].combine_chunks().dictionary_encode()
    codes = session.indices.to_numpy().astype(np.int64)
    numbers = (codes << SEQUENCE_BITS) | rows["sequence"].to_numpy()
    ordered = np.sort(numbers)
    copies = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(copies):
        return rows
    come_twice = np.isin(numbers, copies)
    doubled = rows.filter(pa.array(come_twice)).sort_by([(name, "ascending") for name in _by_number(rows)])
    follows = pa.array(np.ones(doubled.num_rows - 1, np.bool))
    for name in ("session", "sequence"):
        column = doubled[name].combine_chunks()
        follows = pc.and_(follows, pc.equal(column[1:], column[:-1]))
    last = np.append(~follows.to_numpy(zero_copy_only=False), True)
    return pa.concat_tables([rows.filter(pa.array(~come_twice)), doubled.filter(pa.array(last))]).combine_chunks()


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


def _over(s: Samples, rows: "pa.Table", over: Any) -> Any:
    import pyarrow as pa

    if callable(over):
        return pa.array(over(s)).cast("int64")
    column = rows[over]
    return column if over in schemas.UNKNOWN or not column.null_count else column.fill_null(0)


def _as(table: "pa.Table", columns: schemas.Columns) -> "pa.Table":
    return table.select(list(columns)).cast(schemas.arrow(columns))


def concatenated(parts: Iterable["pa.Table"], columns: schemas.Columns) -> "pa.Table":
    import pyarrow as pa

    return pa.concat_tables([schemas.arrow(columns).empty_table(), *parts])
