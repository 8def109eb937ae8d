"""Groups of a dimension, of hours and of days alike: sums and extremes, peaks, bitrates and their histograms.

By Arrow and numpy: of few rows with many columns Spark would need many stages. Whoever runs it, a worker of Spark or
this process, has both, and gets this module by value.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from analytics.histograms import value
from analytics.jobs import schemas
from analytics.jobs.minutes import numbered
from analytics.metrics import BITRATES, EXTREMES, MEASURED, PERCENTILES, STARTED, Merge

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from analytics.jobs.dimensions import Of

    Numbers = NDArray[np.int64]

SUMS = [metric.name for metric in (*MEASURED, *STARTED)]
OTHERS = [metric for metric in EXTREMES if metric.name != "peak_players"]
MERGED = [*((name, "sum") for name in SUMS), *((metric.name, metric.merge.value) for metric in OTHERS)]
"""(column, how it merges), of session hours and of rollups alike."""

MOST_CODES = 1 << 62

NAMED = ["app", "name", "value"]
"""What tells a dimension's groups apart."""


def codes(rows: "pa.Table") -> "tuple[Numbers, Numbers]":
    """A number for each row, from 0 on, the same where all columns are; and each number's first row."""
    import numpy as np

    found, most = np.zeros(rows.num_rows, np.int64), 1
    for column in rows.columns:
        numbers = numbered(column)
        count = int(numbers.max(initial=0)) + 1
        if most * count > MOST_CODES:
            known, found = np.unique(found, return_inverse=True)
            most = len(known)
        found = found * count + numbers
        most *= count
    _, first, found = np.unique(found, return_index=True, return_inverse=True)
    return found, first


def places(of: "pa.Table", others: "Sequence[pa.Table]") -> "list[Numbers]":
    """For each row of the others, the one of `of` that is the same in all columns of that; -1: none."""
    import numpy as np
    import pyarrow as pa

    together, _ = codes(pa.concat_tables([of, *(other.select(of.column_names) for other in others)]))
    place = np.full(len(together), -1)
    place[together[: of.num_rows]] = np.arange(of.num_rows)
    ends = of.num_rows + np.cumsum([other.num_rows for other in others])
    return np.split(place[together], [of.num_rows, *ends[:-1]])[1:]


def grouped(
    start_us: int,
    name: str,
    of: "Of",
    labels: "pa.Table",
    figures: "dict[str, Any]",
    counts: "dict[str, tuple[Numbers, Numbers, Numbers]]",
) -> "pa.Table":
    """schemas.GROUPS of a dimension's groups. `figures`: columns, in the groups' order; `counts`: of each kind of
    bitrate buckets' (group, bucket, count), some of them several times.
    """
    import pyarrow as pa

    size = labels.num_rows
    own = {"start_us": pa.repeat(start_us, size), "dimension": pa.repeat(name, size), **columns_of(labels)}
    if "stream" not in of.labels:
        figures["stream"] = pa.nulls(size, pa.int64())
    for kind in BITRATES:
        least, most = (figures[f"{kind}_kbps_{merge}"].to_numpy() for merge in (Merge.MIN, Merge.MAX))
        figures |= _rates(kind, *counts[kind], least, most)
        figures[f"{kind}_kbps_mean"] = _mean(figures[f"{kind}_bytes"], figures["elapsed_ms"])
    return schemas.cast(pa.table(own | figures), schemas.GROUPS)


def summed(rows: "pa.Table", group: "Numbers", further: Sequence[tuple[str, str]] = ()) -> "pa.Table":
    """What the rows of each group come to, in the groups' order: MERGED, `stream`, and what is asked for further."""
    import pyarrow as pa

    merged = [*MERGED, ("stream", "max"), *further]
    table = pa.table({"group": group, **{name: rows[name] for name, _ in merged}})
    found = table.group_by("group", use_threads=False).aggregate(merged).sort_by("group")
    return found.rename_columns(["group", *(name for name, _ in merged)])


def peaks_of(group: "Numbers", players: "Numbers", at_us: "Numbers", streams: "Numbers") -> dict[str, Any]:
    """Of groups' times: the most players, when they were there for the first time, and the most streams."""
    import numpy as np
    import pyarrow as pa

    order = np.lexsort((at_us, -players, group))
    best = order[np.flatnonzero(np.diff(group[order], prepend=-1))]
    _, (most,) = reduced(group, [(np.maximum, streams)])
    return {
        "peak_players": players[best],
        "peak_at_us": pa.array(at_us[best], mask=players[best] == 0),
        "peak_streams": most,
    }


def _rates(
    kind: str, group: "Numbers", bucket: "Numbers", count: "Numbers", least: "NDArray[Any]", most: "NDArray[Any]"
) -> dict[str, Any]:
    """Each group's histogram and percentiles. `least`, `most`: of its values, which no bucket's goes beyond."""
    import numpy as np
    import pyarrow as pa

    low, high = (int(bucket.min()), int(bucket.max())) if len(bucket) else (0, 0)
    span = high - low + 1
    keys, (sums,) = reduced(group * span + (bucket - low), [(np.add, count)])
    found = keys % span + low
    ends = np.searchsorted(keys // span, np.arange(len(least) + 1))
    reached = np.concatenate(([0], np.cumsum(sums)))
    before, total = reached[ends[:-1]], np.diff(reached[ends])
    histograms = pa.StructArray.from_arrays([pa.array(found, pa.int32()), pa.array(sums)], ["bucket", "count"])
    rates: dict[str, Any] = {f"{kind}_histogram": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), histograms)}
    known, which = np.unique(found, return_inverse=True)
    values = np.array([value(int(each)) for each in known])[which]
    has = total > 0
    for figure, percent in PERCENTILES.items():
        at = np.searchsorted(reached[1:], before[has] - -percent * total[has] // 100)
        kbps = np.zeros(len(total))
        kbps[has] = np.minimum(most[has], np.maximum(least[has], values[at]))
        rates[f"{kind}_kbps_{figure}"] = pa.array(kbps, mask=~has)
    return rates


def _mean(size: Any, elapsed_ms: Any) -> Any:
    """In kbit/s, which are 8 bytes / ms. Without elapsed time there is none."""
    import numpy as np
    import pyarrow as pa

    elapsed = elapsed_ms.to_numpy()
    return pa.array(8.0 * size.to_numpy() / np.maximum(elapsed, 1), mask=elapsed == 0)


def reduced(keys: "Numbers", columns: "Iterable[tuple[np.ufunc, Numbers]]") -> "tuple[Numbers, list[Numbers]]":
    """The keys, each once and in order, and what the function makes of each one's values."""
    import numpy as np

    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    return ordered[begins], [
        reduce.reduceat(values[order], begins) if len(begins) else values for reduce, values in columns
    ]


def labels_of(of: "Of", rows: "pa.Table") -> "pa.Table":
    """NAMED of rows that have dimensions.USED."""
    import pyarrow as pa

    empty = pa.repeat("", rows.num_rows)
    return pa.table(
        {**{name: rows[name] if name in of.labels else empty for name in ("app", "name")}, "value": of.column(rows)}
    )


def array(rows: "pa.Table", name: str) -> "Numbers":
    found: Numbers = rows[name].fill_null(0).to_numpy()
    return found


def columns_of(rows: "pa.Table") -> dict[str, Any]:
    return dict(zip(rows.column_names, rows.columns, strict=True))
