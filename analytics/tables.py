"""Figures in the lake: where they are, and hours of one dimension summed and listed as the database would.

    LAKE/rollups/TABLE/v=METRIC_VERSION/dt=YYYY-MM-DD/hr=HH/figures.parquet    a day's without hr

Which hours are read from here analytics.rollups knows. A file's rows are in the order of dimension, application and
stream, in small groups: of one stream little else is read. Of many streams some hours are in memory at a time."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property, reduce
from itertools import chain
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analytics import schemas
from analytics.figures import MAX_FIELDS, QUANTILE_FIELDS, SUM_FIELDS, QuantilePart, Sums
from analytics.histograms import packed
from analytics.metrics import METRICS, REASON_COUNTS, Kind
from analytics.models import FIGURES, IDENTITY, METRIC_VERSION, Dimension, Grain
from analytics.schemas import column_of

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

PARTIALS = "partials"
"""What some of an hour's files come to (analytics.jobs.partials); among it are each session's minutes."""

SESSION_HOURS = "session_hours"
HOUR = "hour"
DAY = "day"

OF_HOURS = (SESSION_HOURS, HOUR)
"""What is published of an hour; a Grain's value is the name of its rollups' table."""

RENAMED = {"start": "start_us"} | {each.name: column_of(each) for each in METRICS if each.kind == Kind.TIME}
"""Fields of Rollup that have another name there: microseconds since the Unix epoch."""

COUNTERS = tuple(each.name for each in REASON_COUNTS)
"""Fields of Rollup that are maps: {reason: how many}."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

FIGURES_FILE = "figures.parquet"
"""The one file of what is published of an hour or a day."""


def moment(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)


def values_of(field: str, column: "pa.Array") -> list[Any]:
    """A field's values, as Rollup has them, of its column there."""
    found: list[Any] = column.to_pylist()
    if field in RENAMED:
        return [None if us is None else moment(us) for us in found]
    return [dict(pairs or ()) for pairs in found] if field in COUNTERS else found


def table_folder(lake: Path, table: str, version: int = METRIC_VERSION) -> Path:
    return lake / "rollups" / table / f"v={version}"


def day_folder(lake: Path, table: str, start: datetime, version: int = METRIC_VERSION) -> Path:
    return table_folder(lake, table, version) / f"dt={start:%Y-%m-%d}"


def partition_folder(lake: Path, table: str, start: datetime, version: int = METRIC_VERSION) -> Path:
    day = day_folder(lake, table, start, version)
    return day if table == DAY else day / f"hr={start:%H}"


def figures_file(lake: Path, table: str, start: datetime, version: int = METRIC_VERSION) -> Path:
    return partition_folder(lake, table, start, version) / FIGURES_FILE


logger = logging.getLogger(__name__)

Key = tuple[Any, ...]
"""The values of the fields by which rows are grouped."""

HOURS_AT_ONCE = 4
"""Whose rows of all streams are in memory together;"""
ROWS_AT_ONCE = 500
"""and of these, as Python's objects."""


@dataclass(frozen=True, slots=True)
class RollupFilter:
    """Rows of a dimension: all, an application's, a stream's, or those of some values."""

    dimension: Dimension
    app: str | None = None
    name: str | None = None
    values: frozenset[str] | None = None

    @property
    def is_narrow(self) -> bool:
        """Few rows of each hour: those of the whole time have room in memory."""
        return self.name is not None or self.values is not None

    def lookups(self) -> dict[str, Any]:
        """As the database is asked."""
        found = self._equal()
        return found if self.values is None else {**found, "value__in": self.values}

    def condition(self) -> "pc.Expression":
        """As Arrow is."""
        import pyarrow.compute as pc

        found = [pc.field(name) == value for name, value in self._equal().items()]
        if self.values is not None:
            found.append(pc.field("value").isin(sorted(self.values)))
        return reduce(and_, found)

    def _equal(self) -> dict[str, str]:
        asked = {"dimension": str(self.dimension), "app": self.app, "name": self.name}
        return {name: value for name, value in asked.items() if value is not None}


@dataclass(frozen=True, slots=True)
class HourFile:
    start: datetime
    path: Path
    version: int
    """Of the metrics, when it was computed."""


@dataclass
class LakeRollups:
    wanted: RollupFilter
    files: Sequence[HourFile]
    """In order."""
    unread: set[datetime] = field(default_factory=set)
    """Hours whose rows could not be read."""

    def values(self, fields: Sequence[str], *, newest_first: bool = False) -> Iterator[dict[str, Any]]:
        """Of each row, by the names of Rollup's fields; of an hour in the order of application, name and value."""
        versions = {file.start: file.version for file in self.files}
        stored = [name for name in fields if name in STORED]
        order = [("start_us", "descending" if newest_first else "ascending")]
        order += [(name, "ascending") for name in ("app", "name", "value")]
        for table in self._tables({*stored, "start", "app", "name", "value"}, newest_first=newest_first):
            for batch in table.sort_by(order).to_batches(ROWS_AT_ONCE):
                columns = {name: values_of(name, batch.column(RENAMED.get(name, name))) for name in stored}
                starts = values_of("start", batch.column("start_us"))
                if "grain" in fields:
                    columns["grain"] = [Grain.HOUR] * batch.num_rows
                if "metric_version" in fields:
                    columns["metric_version"] = [versions[start] for start in starts]
                for row in zip(*(columns[name] for name in fields), strict=True):
                    yield dict(zip(fields, row, strict=True))

    def count(self) -> int:
        return sum(table.num_rows for table in self._tables(["start"]))

    def sums(self, *keys: str) -> dict[Key, Sums]:
        import pyarrow as pa

        total: pa.Table | None = None
        for table in self._tables([*keys, *SUM_FIELDS, *MAX_FIELDS]):
            both = [table] if total is None else [total, table.select(total.column_names)]
            total = schemas.aggregated(pa.concat_tables(both), keys, MERGED)
        rows = total.to_pylist() if total is not None else []
        return {tuple(row.pop(key) for key in keys): row for row in rows}

    def measured(self, *keys: str) -> Iterator[tuple[Key, QuantilePart]]:
        """Of each row with samples."""
        import pyarrow.compute as pc

        for table in self._tables([*keys, "samples", *QUANTILE_FIELDS]):
            rows = table.filter(pc.greater(table["samples"], 0))
            histograms = packed(rows["video_histogram"].combine_chunks())
            others = [rows[name].to_pylist() for name in QUANTILE_FIELDS[1:]]
            groups = zip(*(rows[key].to_pylist() for key in keys), strict=True) if keys else [()] * rows.num_rows
            yield from zip(groups, zip(histograms, *others, strict=True), strict=True)

    def counted(self, *keys: str) -> Iterator[tuple[Key, dict[str, Counter[str]]]]:
        """Of each row in which something was refused or ended: what, and how often."""
        import pyarrow.compute as pc

        for table in self._tables([*keys, "refused", "ends", *COUNTERS]):
            found = table.filter(pc.greater(pc.add(table["refused"], table["ends"]), 0))
            for row in found.to_pylist():
                yield tuple(row[key] for key in keys), {name: Counter(dict(row[name] or ())) for name in COUNTERS}

    @cached_property
    def _few(self) -> "pa.Table":
        """All that is asked of a stream's rows."""
        return self._read(self.files, [RENAMED.get(name, name) for name in READ])

    def _tables(self, fields: Iterable[str], *, newest_first: bool = False) -> Iterator["pa.Table"]:
        columns = sorted({RENAMED.get(name, name) for name in fields})
        if self.wanted.is_narrow:
            yield self._few.select(columns)
            return
        files = self.files[::-1] if newest_first else self.files
        for first in range(0, len(files), HOURS_AT_ONCE):
            yield self._read(files[first : first + HOURS_AT_ONCE], columns)

    def _read(self, files: Sequence[HourFile], columns: Sequence[str]) -> "pa.Table":
        """What older files lack is null. What can't be read is none, and noted."""
        import pyarrow as pa
        import pyarrow.dataset as ds

        schema = schemas.arrow(schemas.ROLLUPS)
        if not files:
            return pa.schema([schema.field(name) for name in columns]).empty_table()
        try:
            dataset = ds.dataset([str(file.path) for file in files], schema=schema, format="parquet")
            return dataset.to_table(columns=list(columns), filter=self.wanted.condition())
        except (OSError, pa.ArrowException) as error:
            if len(files) > 1:
                return pa.concat_tables(self._read([file], columns) for file in files)
            logger.warning("The figures of an hour can't be read from %s: %s", files[0].path, error)
            self.unread.add(files[0].start)
            return self._read([], columns)


STORED = {*IDENTITY, *FIGURES, "players_sketch"} - {"grain"}
"""Fields of Rollup that a file has a column of, by the same name but for RENAMED."""

MERGED = [*((name, "sum") for name in SUM_FIELDS), *((name, "max") for name in MAX_FIELDS)]

READ = tuple(dict.fromkeys(chain(sorted(STORED), QUANTILE_FIELDS)))
