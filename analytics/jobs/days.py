"""Rollups of days (UTC), as far as they are merged from samples: from their hours' rollups and from nothing else, as
what hours were made from may be gone.

Whoever runs it, a worker of Spark or this process, has Arrow and numpy, and gets this module by value.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from analytics.jobs import schemas
from analytics.jobs.groups import MERGED, NAMED, array, codes, columns_of, grouped, labels_of, peaks_of, places, summed
from analytics.jobs.minutes import LABELS, concatenated
from analytics.metrics import BITRATES

if TYPE_CHECKING:
    import pyarrow as pa

    from analytics.jobs.dimensions import Of
    from analytics.jobs.groups import Numbers

READ_OF_HOURS = [
    *schemas.GROUP,
    "stream",
    *(name for name, _ in MERGED),
    *("peak_players", "peak_at_us", "peak_streams"),
    *(f"{kind}_histogram" for kind in BITRATES),
]


class DayTask(TypedDict):
    """`hours` and `session_hours`: the files of its hours."""

    start_us: int
    dimensions: Mapping[str, "Of"]
    hours: Sequence[str]
    session_hours: Sequence[str]


def of_day(task: DayTask) -> "pa.Table":
    """The same of a day."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    names = list(task["dimensions"])
    every = _read(task["hours"], schemas.ROLLUPS, READ_OF_HOURS, pc.field("dimension").isin(names))
    sessions = _read(task["session_hours"], schemas.SESSION_HOURS, [*LABELS, "broadcast_us"])
    found = []
    for name, of in task["dimensions"].items():
        hours = every.filter(pc.equal(every["dimension"], name))
        group, first = codes(hours.select(NAMED))
        labels = hours.select(NAMED).take(first)
        (place,) = places(labels, [labels_of(of, sessions)])
        seen = pa.table({"group": place, "session": sessions["session"]}).filter(pa.array(place >= 0))
        counted = seen.group_by("group", use_threads=False).aggregate([("session", "count_distinct")])
        distinct = np.zeros(len(first), np.int64)
        distinct[array(counted, "group")] = array(counted, "session_count_distinct")
        sums = summed(hours, group).append_column("sessions", pa.array(distinct))
        peaks = peaks_of(group, *(array(hours, each) for each in ("peak_players", "peak_at_us", "peak_streams")))
        counts = {kind: _unnested(hours[f"{kind}_histogram"], group) for kind in BITRATES}
        found.append(grouped(task["start_us"], name, of, labels, {**columns_of(sums), **peaks}, counts))
    return concatenated(found, schemas.GROUPS)


def _unnested(histograms: "pa.ChunkedArray", group: "Numbers") -> "tuple[Numbers, Numbers, Numbers]":
    """(group, bucket, count) of each bucket of the groups' histograms."""
    import numpy as np

    rows = histograms.combine_chunks()
    lengths = rows.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    flat = rows.flatten()
    bucket, count = (flat.field(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in ("bucket", "count"))
    return np.repeat(group, lengths), bucket, count


def _read(files: Sequence[str], table: schemas.Columns, columns: Sequence[str], wanted: Any = None) -> "pa.Table":
    """What older files lack is null."""
    import pyarrow.dataset as ds

    dataset = ds.dataset(list(files), schema=schemas.arrow(table), format="parquet")
    return dataset.to_table(columns=list(columns), filter=wanted, use_threads=False)
