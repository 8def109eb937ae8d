"""What the jobs take and what they make: hours with their files, columns ({name: type of Spark's SQL}), results.

SAMPLES and EVENTS are of the lake, as `ingest.contracts` declares them, as far as the jobs read them. `_us`:
microseconds since the Unix epoch (UTC). Spark's workers get this module by value: it imports metrics alone, so that the
ledger, which knows no Spark, has it as well.

The jobs read the lake and write below `out`, an empty folder of the run's own: one file
`out/rollups/TABLE/v=/dt=/hr=/figures.parquet` for each table and hour, which analytics.loading brings into the lake."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Self

from analytics import metrics
from analytics.metrics import BITRATES, EXTREMES, MEASURED, METRICS, Kind, Metric

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Mapping[str, str]

TEXT, WHOLE, REAL = "string", "bigint", "double"
COUNTS = "map<string,bigint>"
BINARY = "binary"
HISTOGRAM = "array<struct<bucket:int,count:bigint>>"

KINDS = {Kind.WHOLE: WHOLE, Kind.REAL: REAL, Kind.TIME: WHOLE, Kind.COUNTS: COUNTS}


def column_of(metric: Metric) -> str:
    return f"{metric.name}_us" if metric.kind == Kind.TIME else metric.name


def _of(wanted: Iterable[Metric]) -> dict[str, str]:
    return {column_of(metric): KINDS[metric.kind] for metric in wanted}


PUBLISH = {
    "session": TEXT,
    "node": TEXT,
    "app": TEXT,
    "name": TEXT,
    "stream": WHOLE,
    "key": WHOLE,
    "encoder": TEXT,
}
"""What tells a publishing session and what it belongs to. A session has other labels once its key is made anew, or its
metadata have named its encoder: each of its rows counts for its own.
"""

SAMPLES = {
    **PUBLISH,
    **dict.fromkeys(("sequence", "at_us", "elapsed_ms"), WHOLE),
    **dict.fromkeys(("video_bytes", "audio_bytes", "data_bytes", "wire_bytes", "out_bytes"), WHOLE),
    **{f"{kind}_kbps": REAL for kind in BITRATES},
    **dict.fromkeys(("video_frames", "audio_frames", "keyframes"), WHOLE),
    "keyframe_interval": REAL,
    **dict.fromkeys(("ts_gap", "ts_regress", "missing_frames_est", "media_faults", "idle_ms"), WHOLE),
    **dict.fromkeys(("players", "viewers", "dropped_frames", "target_kbps"), WHOLE),
    "health": TEXT,
}

REPORTED = ("join_ms", "stalls", "stalled_ms", "watched_ms")
"""What a viewer's page tells at its end."""

UNKNOWN = ("key", "encoder", "keyframe_interval", "target_kbps", "stream", "protocol", *REPORTED)
"""Columns of samples and events in which null means that it is not known. In others, of older files, it is 0."""

EVENTS = {
    "session": TEXT,
    "sequence": WHOLE,
    "at_us": WHOLE,
    "node": TEXT,
    "app": TEXT,
    "name": TEXT,
    "stream": WHOLE,
    "key": WHOLE,
    **dict.fromkeys(("kind", "session_kind", "level", "code", "reason", "encoder", "address_hash"), TEXT),
    "bytes_in": WHOLE,
    "bytes_out": WHOLE,
    "detail": TEXT,
    "protocol": TEXT,
    **dict.fromkeys(REPORTED, WHOLE),
}

_MEASURED = {
    **PUBLISH,
    **dict.fromkeys(("first_us", "last_us", "first_sequence", "last_sequence"), WHOLE),
    **_of((*MEASURED, *EXTREMES)),
}

MINUTES = {"minute_us": WHOLE, **_MEASURED}
"""A publishing session's minute, or a part of it. `first_us`: where its first sample begins; `last_us`: where its last
one ends; `first_sequence`, `last_sequence`: the least and the greatest of its samples' numbers.
"""

SESSIONS = {"start_us": WHOLE, **_MEASURED}
"""The same of its hour, or a part of it."""

BUCKETS = {"start_us": WHOLE, **PUBLISH, "kind": TEXT, "bucket": "int", "count": WHOLE}
"""How many of a session's samples in an hour had a bitrate (`kind`) in a bucket: see analytics.histograms."""

SESSION_HOURS = {
    "start_us": WHOLE,
    **PUBLISH,
    **dict.fromkeys(("first_us", "last_us", "broadcast_us"), WHOLE),
    **_of((*MEASURED, *metrics.SESSION_SUMS, *EXTREMES)),
}
"""A publishing session's hour, and the broadcast it belongs to: where that begins."""

TAIL = {"app": TEXT, "name": TEXT, "session": TEXT, "last_us": WHOLE, "broadcast_us": WHOLE}
"""What of an hour the next one begins with: each stream's (`session` is empty) last sample and its broadcast, and each
session's (`last_us` is null) broadcast.
"""

GIVEN = {"start_us": WHOLE, "session": TEXT, "broadcast_us": WHOLE}
"""Broadcasts that sessions were given before, and keep."""

GROUP = {"start_us": WHOLE, "dimension": TEXT, "app": TEXT, "name": TEXT, "value": TEXT}
"""What makes a rollup this one, besides its grain."""

_HISTOGRAMS = {f"{kind}_histogram": HISTOGRAM for kind in BITRATES}

ROLLUPS = {**GROUP, "stream": WHOLE, **_of(METRICS), "players_sketch": BINARY, **_HISTOGRAMS}
"""Of hours and of days alike: see analytics.models.Rollup."""

HAPPENED_IN = {
    **GROUP,
    "stream": WHOLE,
    **_of((*metrics.EVENT_SUMS, *metrics.REASON_COUNTS)),
    "unique_players": WHOLE,
    "players_sketch": BINARY,
}
"""What of them is counted from events."""

GROUPS = {name: kind for name, kind in ROLLUPS.items() if name in {*GROUP, "stream"} or name not in HAPPENED_IN}
"""What is merged from samples."""


def ddl(columns: Columns) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def arrow(columns: Columns) -> "pa.Schema":
    import pyarrow as pa

    bucket = pa.struct([("bucket", pa.int32()), ("count", pa.int64())])
    kinds = {
        TEXT: pa.string(),
        WHOLE: pa.int64(),
        "int": pa.int32(),
        REAL: pa.float64(),
        BINARY: pa.binary(),
        COUNTS: pa.map_(pa.string(), pa.int64()),
        HISTOGRAM: pa.list_(bucket),
    }
    return pa.schema([(name, kinds[kind]) for name, kind in columns.items()])


def cast(rows: "pa.Table", columns: Columns) -> "pa.Table":
    """These of its columns, of these types."""
    schema = arrow(columns)
    return rows.select(schema.names).cast(schema)


def aggregated(rows: "pa.Table", by: Sequence[str], how: Sequence[tuple[str, str]]) -> "pa.Table":
    """One row for the same values of `by`, with the columns of `how` (name, Arrow's aggregation) under their names."""
    found = rows.group_by(list(by), use_threads=False).aggregate(list(how))
    return found.rename_columns([*by, *(name for name, _ in how)])


def encoded(columns: Columns) -> "pa.Schema":
    """The same with texts as dictionaries: a text that is in many rows is in memory once."""
    import pyarrow as pa

    kinds = {pa.string(): pa.dictionary(pa.int32(), pa.string())}
    return pa.schema([field.with_type(kinds.get(field.type, field.type)) for field in arrow(columns)])


LakeFile = tuple[str, int, int]
"""A file of samples or events: its path below the lake, its size (bytes), the time of its last change (ns)."""


@dataclass(frozen=True, slots=True)
class HourInput:
    """An hour (UTC) to compute, and the lake's files that it is made from."""

    start: datetime
    files: tuple[LakeFile, ...] = ()

    def without(self, paths: Collection[str]) -> Self:
        return replace(self, files=tuple(file for file in self.files if file[0] not in paths))


@dataclass(frozen=True, slots=True)
class Computed:
    """What came of an hour or a day.

    `rows`: that it is made from; `rows_read`: those that had to be read for it. `strays`: samples and events of other
    hours in its files, which count for none. `damaged`: {file that can't be read, below the lake: why}.
    """

    rows: int
    rows_read: int
    rows_written: int  # Of its rollups.
    tail: str = ""  # Of an hour: digest (sha256, hex) of what the next hour begins with, "" of nothing; of a day "".
    strays: int = 0
    damaged: Mapping[str, str] = field(default_factory=dict)
