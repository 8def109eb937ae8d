"""Rollups of hours, as far as they are merged from samples: of session hours, and of partials' minutes and buckets.

Whoever runs it, a worker of Spark or this process, has Arrow and numpy, and gets this module by value.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from analytics.jobs import schemas
from analytics.jobs.groups import array, codes, columns_of, grouped, labels_of, peaks_of, places, reduced, summed
from analytics.jobs.minutes import HOUR_US, LABELS, MINUTE_US, concatenated
from analytics.jobs.partials import read_part
from analytics.metrics import BITRATES

if TYPE_CHECKING:
    import pyarrow as pa

    from analytics.jobs.dimensions import Of

MINUTES = HOUR_US // MINUTE_US

READ_OF_MINUTES = [*LABELS, "minute_us", "peak_players", "live_ms"]


class HourTask(TypedDict):
    """`session_hours`: the file of the hour's; `partials`: the folders of its partials."""

    start_us: int
    dimensions: Mapping[str, "Of"]
    session_hours: str
    partials: Sequence[str]


def of_hour(task: HourTask) -> "pa.Table":
    """schemas.GROUPS of an hour. Sessions are counted once in each group, whatever labels they had. All sessions of a
    stream have the same players: of two in one minute, the one with more tells how many there were.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    start_us, folders = task["start_us"], [Path(folder) for folder in task["partials"]]
    sessions = read_part(Path(task["session_hours"]))
    minutes = pa.concat_tables([read_part(folder / "minutes.parquet", READ_OF_MINUTES) for folder in folders])
    buckets = pa.concat_tables([read_part(folder / "buckets.parquet") for folder in folders])
    of_minutes, of_buckets = places(sessions.select(list(LABELS)), [minutes, buckets])
    path, _ = codes(sessions.select(["app", "name"]))
    paths = sessions.num_rows
    minute = (array(minutes, "minute_us") - start_us) // MINUTE_US
    players, is_live = array(minutes, "peak_players"), (array(minutes, "live_ms") > 0).astype(np.int64)
    bucket, count = array(buckets, "bucket").astype(np.int64), array(buckets, "count")
    of_kinds = {kind: pc.equal(buckets["kind"], kind).to_numpy() for kind in BITRATES}
    found = []
    for name, of in task["dimensions"].items():
        labels = labels_of(of, sessions)
        group, first = codes(labels)
        keys, (most, live) = reduced(
            (group[of_minutes] * MINUTES + minute) * paths + path[of_minutes],
            [(np.maximum, players), (np.maximum, is_live)],
        )
        keys, (most, live) = reduced(keys // paths, [(np.add, most), (np.add, live)])
        peaks = peaks_of(keys // MINUTES, most, start_us + keys % MINUTES * MINUTE_US, live)
        counts = {kind: (group[of_buckets[own]], bucket[own], count[own]) for kind, own in of_kinds.items()}
        sums = summed(sessions, group, [("session", "count_distinct")])
        figures = {**columns_of(sums), "sessions": sums["session"], **peaks}
        found.append(grouped(start_us, name, of, labels.take(first), figures, counts))
    return concatenated(found, schemas.GROUPS)
