"""Where figures are in the lake: `LAKE/rollups/TABLE/v=METRIC_VERSION/dt=YYYY-MM-DD/hr=HH`, a day's without hr."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analytics.jobs.schemas import column_of
from analytics.metrics import COUNTED, METRICS, Kind
from analytics.models import METRIC_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

PARTIALS = "partials"
"""What some of an hour's files come to (analytics.jobs.partials); among it are each session's minutes."""

SESSION_HOURS = "session_hours"
HOUR = "hour"
DAY = "day"

OF_HOURS = (SESSION_HOURS, HOUR)
"""What is published of an hour; a Grain's value is the name of its rollups' table."""

RENAMED = {"start": "start_us"} | {each.name: column_of(each) for each in METRICS if each.kind == Kind.TIME}
"""Fields of Rollup that have another name there: microseconds since the Unix epoch."""

COUNTERS = tuple(each.name for each in COUNTED)
"""Fields of Rollup that are maps: {reason: how many}."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

FIGURES = "figures.parquet"
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
    """Of an hour, or of a day."""
    day = day_folder(lake, table, start, version)
    return day if table == DAY else day / f"hr={start:%H}"


def figures_file(lake: Path, table: str, start: datetime, version: int = METRIC_VERSION) -> Path:
    return partition_folder(lake, table, start, version) / FIGURES
