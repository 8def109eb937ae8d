"""The lake's minutes, where a report needs them finer than an hour: they are kept for a shorter time than hours."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from analytics.tables import PARTIALS, partition_folder

if TYPE_CHECKING:
    import pyarrow as pa


def minutes(lake: Path, hour: datetime, columns: Sequence[str], path: str = "") -> "pa.Table | None":
    """Of an hour: all streams', or one's (app/name). None where the lake has none of that hour."""
    import pyarrow.parquet as pq  # Loaded only where it is used.

    files = sorted(partition_folder(lake, PARTIALS, hour).glob("[!.]*/minutes.parquet"))
    if not files:
        return None
    app, _, name = path.partition("/")
    filters = [("app", "=", app), ("name", "=", name)] if path else None
    # Partitioning is left out: the folders' names say no more than the rows.
    return pq.ParquetDataset(list(map(str, files)), filters=filters, partitioning=None).read(list(columns))
