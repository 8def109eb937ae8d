"""Rollups of hours and of days, as far as they are merged from samples: sums, extremes, peaks, bitrates, histograms.

Hours are merged from session hours and from partials' minutes and buckets; days (UTC) from their hours' rollups and
from nothing else, as what hours were made from may be gone. By Arrow and numpy: of few rows with many columns Spark
would need many stages. Whoever runs it, a worker of Spark or this process, has both, and gets this module by value: it
knows no Django."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from analytics import schemas
from analytics.histograms import value
from analytics.jobs.minutes import HOUR_US, LABELS, MINUTE_US, concatenated, numbered
from analytics.jobs.partials import read_part
from analytics.metrics import BITRATES, EXTREMES, MEASURED, PERCENTILES, SESSION_SUMS, Merge

if TYPE_CHECKING:
    from analytics.jobs.dimensions import Of

Numbers = NDArray[np.int64]

OF_MINUTES = ("peak_players", "peak_viewers")
"""Extremes that are sums over streams, minute by minute."""

ALIKE = [metric for metric in (*MEASURED, *SESSION_SUMS, *EXTREMES) if metric.name not in OF_MINUTES]
MERGED = [(metric.name, metric.merge.value) for metric in ALIKE]
"""(column, how it merges), of session hours and of rollups alike."""

MOST_CODES = 1 << 62

NAMED = ["app", "name", "value"]
"""What tells a dimension's groups apart."""


def codes(rows: pa.Table) -> tuple[Numbers, Numbers]:
    """A number for each row, from 0 on, the same where all columns are; and each number's first row."""
    combined, size = np.zeros(rows.num_rows, np.int64), 1
    for column in rows.columns:
        numbers = numbered(column)
        count = int(numbers.max(initial=0)) + 1
        if size * count > MOST_CODES:
            known, combined = np.unique(combined, return_inverse=True)
            size = len(known)
        combined = combined * count + numbers
        size *= count
    _, first, combined = np.unique(combined, return_index=True, return_inverse=True)
    return combined, first


def positions_in(of: pa.Table, others: Sequence[pa.Table]) -> list[Numbers]:
    """For each row of the others, the one of `of` that is the same in all columns of that; -1: none."""
    together, _ = codes(pa.concat_tables([of, *(other.select(of.column_names) for other in others)]))
    place = np.full(len(together), -1)
    place[together[: of.num_rows]] = np.arange(of.num_rows)
    ends = of.num_rows + np.cumsum([other.num_rows for other in others])
    return np.split(place[together], [of.num_rows, *ends[:-1]])[1:]


def grouped(
    start_us: int,
    name: str,
    of: "Of",
    labels: pa.Table,
    figures: dict[str, Any],
    counts: dict[str, tuple[Numbers, Numbers, Numbers]],
) -> pa.Table:
    """schemas.GROUPS of a dimension's groups. `figures`: columns, in the groups' order; `counts`: of each kind of
    bitrate buckets' (group, bucket, count), some of them several times.
    """
    size = labels.num_rows
    own = {"start_us": pa.repeat(start_us, size), "dimension": pa.repeat(name, size), **columns_of(labels)}
    if "stream" not in of.labels:
        figures["stream"] = pa.nulls(size, pa.int64())
    for kind in BITRATES:
        least, most = (figures[f"{kind}_kbps_{merge}"].to_numpy() for merge in (Merge.MIN, Merge.MAX))
        figures |= _rates(kind, *counts[kind], least, most)
        figures[f"{kind}_kbps_mean"] = _mean(figures[f"{kind}_bytes"], figures["elapsed_ms"])
    return schemas.cast(pa.table(own | figures), schemas.GROUPS)


def summed(rows: pa.Table, group: Numbers, further: Sequence[tuple[str, str]] = ()) -> pa.Table:
    """What the rows of each group come to, in the groups' order: MERGED, `stream`, and what is asked for further."""
    merged = [*MERGED, ("stream", "max"), *further]
    table = pa.table({"group": group, **{name: rows[name] for name, _ in merged}})
    return schemas.aggregated(table, ["group"], merged).sort_by("group")


def peaks_of(group: Numbers, players: Numbers, at_us: Numbers, viewers: Numbers, streams: Numbers) -> dict[str, Any]:
    """Of groups' times: the most players, when they were there for the first time; the most of them by HLS, and the
    most streams."""
    order = np.lexsort((at_us, -players, group))
    best = order[np.flatnonzero(np.diff(group[order], prepend=-1))]
    _, (most_viewers, most) = reduced(group, [(np.maximum, viewers), (np.maximum, streams)])
    return {
        "peak_players": players[best],
        "peak_at_us": pa.array(at_us[best], mask=players[best] == 0),
        "peak_viewers": most_viewers,
        "peak_streams": most,
    }


def _rates(
    kind: str, group: Numbers, bucket: Numbers, count: Numbers, least: NDArray[Any], most: NDArray[Any]
) -> dict[str, Any]:
    """Each group's histogram and percentiles. `least`, `most`: of its values, which no bucket's goes beyond."""
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
    elapsed = elapsed_ms.to_numpy()
    return pa.array(8.0 * size.to_numpy() / np.maximum(elapsed, 1), mask=elapsed == 0)


def reduced(keys: Numbers, columns: Iterable[tuple[np.ufunc, Numbers]]) -> tuple[Numbers, list[Numbers]]:
    """The keys, each once and in order, and what the function makes of each one's values."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    return ordered[begins], [
        reduce.reduceat(values[order], begins) if len(begins) else values for reduce, values in columns
    ]


def labels_of(of: "Of", rows: pa.Table) -> pa.Table:
    """NAMED of rows that have dimensions.USED."""
    empty = pa.repeat("", rows.num_rows)
    return pa.table(
        {**{name: rows[name] if name in of.labels else empty for name in ("app", "name")}, "value": of.column(rows)}
    )


def array(rows: pa.Table, name: str) -> Numbers:
    found: Numbers = rows[name].fill_null(0).to_numpy()
    return found


def columns_of(rows: pa.Table) -> dict[str, Any]:
    return dict(zip(rows.column_names, rows.columns, strict=True))


MINUTES = HOUR_US // MINUTE_US

READ_OF_MINUTES = [*LABELS, "minute_us", *OF_MINUTES, "live_ms"]


class HourTask(TypedDict):
    """`session_hours`: the file of the hour's; `partials`: the folders of its partials."""

    start_us: int
    dimensions: Mapping[str, "Of"]
    session_hours: str
    partials: Sequence[str]


def of_hour(task: HourTask) -> pa.Table:
    """schemas.GROUPS of an hour. Sessions are counted once in each group, whatever labels they had. All sessions of a
    stream have the same players: of two in one minute, the one with more tells how many there were.
    """
    start_us, folders = task["start_us"], [Path(folder) for folder in task["partials"]]
    sessions = read_part(Path(task["session_hours"]))
    minutes = pa.concat_tables([read_part(folder / "minutes.parquet", READ_OF_MINUTES) for folder in folders])
    buckets = pa.concat_tables([read_part(folder / "buckets.parquet") for folder in folders])
    of_minutes, of_buckets = positions_in(sessions.select(list(LABELS)), [minutes, buckets])
    path, _ = codes(sessions.select(["app", "name"]))
    paths = sessions.num_rows
    minute = (array(minutes, "minute_us") - start_us) // MINUTE_US
    players, viewers = (array(minutes, name) for name in OF_MINUTES)
    is_live = (array(minutes, "live_ms") > 0).astype(np.int64)
    bucket, count = array(buckets, "bucket").astype(np.int64), array(buckets, "count")
    of_kinds = {kind: pc.equal(buckets["kind"], kind).to_numpy() for kind in BITRATES}
    parts = []
    for name, of in task["dimensions"].items():
        labels = labels_of(of, sessions)
        group, first = codes(labels)
        keys, of_streams = reduced(
            (group[of_minutes] * MINUTES + minute) * paths + path[of_minutes],
            [(np.maximum, players), (np.maximum, viewers), (np.maximum, is_live)],
        )
        keys, (most, watching, live) = reduced(keys // paths, [(np.add, each) for each in of_streams])
        peaks = peaks_of(keys // MINUTES, most, start_us + keys % MINUTES * MINUTE_US, watching, live)
        counts = {kind: (group[of_buckets[own]], bucket[own], count[own]) for kind, own in of_kinds.items()}
        sums = summed(sessions, group, [("session", "count_distinct")])
        figures = {**columns_of(sums), "sessions": sums["session"], **peaks}
        parts.append(grouped(start_us, name, of, labels.take(first), figures, counts))
    return concatenated(parts, schemas.GROUPS)


PEAKS = ("peak_players", "peak_at_us", "peak_viewers", "peak_streams")

READ_OF_HOURS = [
    *schemas.GROUP,
    "stream",
    *(name for name, _ in MERGED),
    *PEAKS,
    *(f"{kind}_histogram" for kind in BITRATES),
]


class DayTask(TypedDict):
    """`hours` and `session_hours`: the files of its hours."""

    start_us: int
    dimensions: Mapping[str, "Of"]
    hours: Sequence[str]
    session_hours: Sequence[str]


def of_day(task: DayTask) -> pa.Table:
    """The same of a day."""
    names = list(task["dimensions"])
    every = _read(task["hours"], schemas.ROLLUPS, READ_OF_HOURS, pc.field("dimension").isin(names))
    sessions = _read(task["session_hours"], schemas.SESSION_HOURS, [*LABELS, "broadcast_us"])
    parts = []
    for name, of in task["dimensions"].items():
        hours = every.filter(pc.equal(every["dimension"], name))
        group, first = codes(hours.select(NAMED))
        labels = hours.select(NAMED).take(first)
        (place,) = positions_in(labels, [labels_of(of, sessions)])
        seen = pa.table({"group": place, "session": sessions["session"]}).filter(pa.array(place >= 0))
        counted = seen.group_by("group", use_threads=False).aggregate([("session", "count_distinct")])
        distinct = np.zeros(len(first), np.int64)
        distinct[array(counted, "group")] = array(counted, "session_count_distinct")
        sums = summed(hours, group).append_column("sessions", pa.array(distinct))
        peaks = peaks_of(group, *(array(hours, each) for each in PEAKS))
        counts = {kind: _unnested(hours[f"{kind}_histogram"], group) for kind in BITRATES}
        parts.append(grouped(task["start_us"], name, of, labels, {**columns_of(sums), **peaks}, counts))
    return concatenated(parts, schemas.GROUPS)


def _unnested(histograms: pa.ChunkedArray, group: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """(group, bucket, count) of each bucket of the groups' histograms."""
    rows = histograms.combine_chunks()
    lengths = rows.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    flat = rows.flatten()
    bucket, count = (flat.field(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in ("bucket", "count"))
    return np.repeat(group, lengths), bucket, count


def _read(files: Sequence[str], table: schemas.Columns, columns: Sequence[str], wanted: Any = None) -> pa.Table:
    """What older files lack is null."""
    dataset = ds.dataset(list(files), schema=schemas.arrow(table), format="parquet")
    return dataset.to_table(columns=list(columns), filter=wanted, use_threads=False)
