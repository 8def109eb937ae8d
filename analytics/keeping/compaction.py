"""Makes of the many files of a closed hour one for each node, sorted by session: less to open, and half the bytes.

An hour is compacted when its rollups are done and nothing has been recorded for it for a while. Its ledger row is held
meanwhile, and gets the new files' fingerprint; a crash between the new file and the removal of the old ones leaves
records that stand twice, which everybody who reads the lake counts once.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from analytics import ledger, locks, tables
from analytics.jobs.partials import carry
from analytics.ledger import HOUR, Hour
from analytics.locks import Lock
from analytics.models import METRIC_VERSION, Grain, Partition
from ingest.telemetry.lake import publish_file
from ingest.telemetry.schema import TABLES, fitting

log = logging.getLogger(__name__)

CLOSED_AFTER = timedelta(hours=1)
"""After an hour's end: what is recorded later than that is late, and is a file of its own until the next time."""

SORTED_ROWS = 1_000_000
"""How much is sorted in memory at once, about 400 MB of samples."""

GROUP_ROWS = 65_536
"""Of a row group: what a reader that wants one session has to decode."""

NAME = re.compile(r"(?P<node>.+)-[^-]+-[^-]+$")
"""Of a node's file, without its suffix."""

NUMBER = "all"
"""In place of a compacted file's number."""

SORTED_BY = [("session", "ascending"), ("sequence", "ascending"), ("at_us", "ascending")]


def compactable(lake: Path, now: datetime) -> Iterator[datetime]:
    """Closed hours that are done and have more than one file of a node."""
    closed = Partition.objects.filter(
        grain=Grain.HOUR,
        state=Partition.State.DONE,
        metric_version=METRIC_VERSION,
        sealed_at=None,
        start__lte=now - HOUR - CLOSED_AFTER,
    )
    for start in closed.order_by("start").values_list("start", flat=True):
        hour = ledger.look(lake, start)
        if hour and any(len(files) > 1 for files in _by_node(_paths(lake, hour)).values()):
            yield start


def compact(lake: Path, start: datetime) -> int:
    """Compacts an hour; how many files it has less. 0 also when another works on it, or has yet to.

    Raises LockLost; OSError, ArrowException for a file that can't be read or written: everything is then as it was.
    """
    lock = locks.hold(start)
    if lock is None:
        return 0
    try:
        hour, row = ledger.look(lake, start), Partition.objects.get(grain=Grain.HOUR, start=start)
        if hour is None or row.fingerprint != hour.fingerprint(ledger.tail_before(start)):
            return 0  # Something has come that is yet to be computed.
        nodes = _by_node(_paths(lake, hour))
        kept = {file for (_, node), files in nodes.items() for file in _merge(node, files, lock, start)}
        after = ledger.look(lake, start)
        if after is None or {*_paths(lake, after)} != kept:
            return 0  # Something has come meanwhile: the hour is computed again.
        carry(tables.partition_folder(lake, tables.PARTIALS, start), hour.input.files, after.input.files)
        lock.compacted(start, fingerprint=after.fingerprint(ledger.tail_before(start)), files=after.files)
        return hour.files - after.files
    finally:
        lock.give_back()


def _paths(lake: Path, hour: Hour) -> list[Path]:
    return [lake / path for path, _, _ in hour.input.files]


def _by_node(files: Sequence[Path]) -> dict[tuple[Path, str], list[Path]]:
    """{(folder, node): its files, in the order of their names}."""
    found: dict[tuple[Path, str], list[Path]] = defaultdict(list)
    for file in sorted(files):
        match = NAME.match(file.stem)
        found[file.parent, match["node"] if match else file.stem].append(file)
    return found


def _merge(node: str, files: Sequence[Path], lock: Lock, hour: datetime) -> list[Path]:
    """One file in place of the node's several; those that are there then."""
    if len(files) == 1:
        return list(files)
    start = files[0].stem.removeprefix(f"{node}-").partition("-")[0]
    merged = files[0].with_name(f"{node}-{start}-{NUMBER}.parquet")
    schema = next(table.schema for table in TABLES if table.name in merged.parts)
    with publish_file(merged) as out, pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for rows in _runs(files, schema):
            writer.write_table(rows.sort_by(SORTED_BY), row_group_size=GROUP_ROWS)
            lock.renew()
    lock.require(hour)
    for file in files:
        if file != merged:
            file.unlink(missing_ok=True)
    return [merged]


def _runs(files: Sequence[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """What the files hold, in pieces that fit into memory."""
    gathered: list[pa.Table] = []
    for file in files:
        with pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(batch_size=SORTED_ROWS):
                gathered.append(fitting(batch, schema))
                if sum(table.num_rows for table in gathered) >= SORTED_ROWS:
                    yield pa.concat_tables(gathered)
                    gathered = []
    if gathered:
        yield pa.concat_tables(gathered)
