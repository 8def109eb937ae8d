"""Where figures are in the lake: `LAKE/rollups/TABLE/v=METRIC_VERSION/dt=YYYY-MM-DD/hr=HH`, a day's without hr."""

from datetime import datetime
from pathlib import Path

from analytics.models import METRIC_VERSION

PARTIALS = "partials"
"""What some of an hour's files come to (analytics.jobs.partials); among it are each session's minutes."""

SESSION_HOURS = "session_hours"
HOUR = "hour"
DAY = "day"

OF_HOURS = (SESSION_HOURS, HOUR)
"""What is published of an hour; a Grain's value is the name of its rollups' table."""

FIGURES = "figures.parquet"
"""The one file of what is published of an hour or a day."""


def table_folder(lake: Path, table: str) -> Path:
    return lake / "rollups" / table / f"v={METRIC_VERSION}"


def day_folder(lake: Path, table: str, start: datetime) -> Path:
    return table_folder(lake, table) / f"dt={start:%Y-%m-%d}"


def partition_folder(lake: Path, table: str, start: datetime) -> Path:
    """Of an hour, or of a day."""
    day = day_folder(lake, table, start)
    return day if table == DAY else day / f"hr={start:%H}"


def figures_file(lake: Path, table: str, start: datetime) -> Path:
    return partition_folder(lake, table, start) / FIGURES
