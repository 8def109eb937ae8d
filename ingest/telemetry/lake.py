"""Parquet files in the lake: `TABLE/v=1/dt=YYYY-MM-DD/hr=HH/NAME.parquet`, partitioned by the record's own hour (UTC).

A file appears whole or not at all: it is written as `.NAME.parquet.tmp`, fsynced, renamed, and its folder fsynced.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ingest.fsync import sync
from ingest.telemetry.schema import VERSION

if TYPE_CHECKING:
    import pyarrow as pa

HOUR_US = 3_600_000_000


def table_folder(lake: Path, table: str) -> Path:
    return lake / table / f"v={VERSION}"


def hour_folder(lake: Path, table: str, hour: datetime) -> Path:
    """The folder of an hour (UTC)."""
    return table_folder(lake, table) / f"dt={hour:%Y-%m-%d}" / f"hr={hour:%H}"


def file_prefix(node: str) -> str:
    """What the names of a node's files begin with."""
    return re.sub(r"[^A-Za-z0-9-]", "-", node).strip("-") or "node"


def by_hour(records: "pa.Table") -> "Iterator[tuple[datetime, pa.Table]]":
    """The records of each hour, by their `at_us`."""
    import pyarrow.compute as pc

    hours = pc.divide(records["at_us"], HOUR_US)
    for hour in sorted(pc.unique(hours).to_pylist()):
        yield datetime.fromtimestamp(hour * 3600, UTC), records.filter(pc.equal(hours, hour))


def write_parquet(records: "pa.Table", file: Path) -> None:
    """Writes the file atomically and durably, in place of one of the same name. Raises OSError.

    It is no older than its records, whatever the machine's clock says: readers leave out files from before their time.
    """
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    file.parent.mkdir(parents=True, exist_ok=True)
    with publish_file(file) as out:
        pq.write_table(records, out, compression="zstd")
        out.flush()
        latest_ns = 1000 * (pc.max(records["at_us"]).as_py() or 0)
        if os.fstat(out.fileno()).st_mtime_ns < latest_ns:
            os.utime(out.fileno(), ns=(latest_ns, latest_ns))


@contextmanager
def publish_file(file: Path) -> Iterator[BinaryIO]:
    """What is written appears whole, under this name, when the block has ended well; else not at all."""
    partial = file.with_name(f".{file.name}.tmp")
    try:
        with partial.open("wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
    except BaseException:  # A full disk: what was written of it only takes up more.
        partial.unlink(missing_ok=True)
        raise
    partial.rename(file)
    sync(file.parent)
