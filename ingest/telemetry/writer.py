"""Takes samples and events from the event loop and brings them to the lake, on a thread of its own.

    samples(), event() -> bounded queue -> each second: spool -> rotation: Parquet

The spool is turned into Parquet when it is older than a minute, larger than 64 MB, when an hour (UTC) has passed, when
a flush is requested (`ingest.telemetry.spool`) and at the end. The Parquet files' names come from the spool's, so that
converting one again, after a crash between the rename and the spool's removal, replaces the same files by the same.

While the spool can't be written (a full disk), what was recorded waits in memory, as columns, and is spooled in order
when it can be; over KEPT_ROWS of a table the oldest are dropped and counted.

What is dated before EARLIEST or more than AHEAD_S after the node's clock is dropped and counted, too: it would make
hours of history in 1970, or such that are the latest for years.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ingest import clock
from ingest.contracts import EventRecord, Sample
from ingest.telemetry.lake import EVENTS, SAMPLES, TABLES, Table, by_hour, file_prefix, hour_folder, write_parquet
from ingest.telemetry.spool import SUFFIX, Spool, read_spool, remove_partial, request_time, spool_folder

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

QUEUED_RECORDS = 200_000
"""What may wait for the thread, which takes it each second."""

KEPT_ROWS = 100_000
"""What may wait for the disk, of one table, about 45 MB of samples: 100 streams for a quarter of an hour."""

EARLIEST = datetime(2020, 1, 1, tzinfo=UTC)
"""No record is from before: a machine that says so has had its clock set by nobody."""

AHEAD_S = 86_400.0
"""No record is from later than that after the node's clock, as it was before a leap back was followed."""

LOG_EACH_S = 60.0
"""Between two lines in the log about such records."""

MISDATED = (
    "Telemetry is dropped: %d records are from before %d or more than a day ahead of the node's clock, which says %s. "
    "Check the machine's time service."
)
UNSPOOLED = (
    "Telemetry can't be spooled: %s. It waits in memory, the last 100,000 samples at most: free some space where "
    "RTMPWEB_LAKE is, and leave the node running."
)
UNCONVERTED = "Telemetry can't be written to the lake: %s. It stays in the spool and is tried again."


@dataclass(frozen=True)
class Rotation:
    """When the spool is written and when it becomes Parquet."""

    flush_s: float = 1.0
    age_s: float = 60.0
    size_bytes: int = 64 * 1024 * 1024
    retry_s: float = 10.0


@dataclass
class TableQueue:
    """One table's way to the lake: what waits to be spooled, the open spool, and spools whose conversion failed."""

    table: Table
    records: list[object] = field(default_factory=list)
    waiting: "deque[pa.RecordBatch]" = field(default_factory=deque)
    spool: Spool | None = None
    opened: float = 0.0
    hour: int = 0
    unconverted: list[Spool] = field(default_factory=list)
    retry_at: float = 0.0


class TelemetryWriter:
    """`samples` and `event` never block and never raise; what does not fit into the queue, can't be written or can't be
    true is counted in `dropped`.
    """

    def __init__(self, lake_dir: Path, node: str, *, rotation: Rotation = Rotation()) -> None:
        self._lake = Path(lake_dir)
        self._rotation = rotation
        started = datetime.now(UTC)
        self._prefix = f"{file_prefix(node)}-{started:%Y%m%dT%H%M%S%f}"
        self._sequence = 0
        self._queues = {table.name: TableQueue(table) for table in TABLES}
        self._lock = threading.Lock()
        self._queued = 0
        self.dropped = 0
        self._dropping = False
        self._misdated = 0
        """Since the log was last told of them,"""
        self._logged_at = float("-inf")
        """and when that was, by time.monotonic()."""
        self._failures: dict[str, float] = {}
        """What fails now, and since when (seconds since the epoch)."""
        self._closed = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    @property
    def failing_since(self) -> float | None:
        """When writing began to fail, seconds since the epoch; None: it does not."""
        return min(self._failures.copy().values(), default=None)

    # --- From the event loop ---

    def start(self) -> None:
        """Starts the thread, which first recovers what a former run left behind."""
        self._thread.start()

    def samples(self, samples: Sequence[Sample]) -> None:
        self._put(SAMPLES, samples)

    def event(self, event: EventRecord) -> None:
        self._put(EVENTS, (event,))

    def close(self, timeout_s: float = 30.0) -> None:
        """Brings everything to the lake and ends the thread. What can't be written stays in the spool."""
        with self._lock:
            self._closed = True
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                log.error("Telemetry did not end in %.0f s: its spool is recovered at the next start.", timeout_s)

    def _put(self, table: Table, records: Sequence[object]) -> None:
        if not records:
            return
        with self._lock:
            fits = not self._closed and self._queued + len(records) <= QUEUED_RECORDS
            if fits:
                self._queues[table.name].records.extend(records)
                self._queued += len(records)
            else:
                self.dropped += len(records)
            first = not fits and not self._dropping
            self._dropping = not fits
        if first:
            log.warning("Telemetry is dropped: %s.", "the writer is closed" if self._closed else "its queue is full")

    # --- The thread ---

    def _run(self) -> None:
        for queue in self._queues.values():
            self._guard(self._claim_abandoned, queue)
        answered = request_time(self._lake)
        stopping = False
        while not stopping:
            stopping = self._stop.wait(self._rotation.flush_s)
            requested = request_time(self._lake)
            for queue in self._queues.values():
                self._guard(self._round, queue, rotate=stopping or requested != answered, last=stopping)
            answered = requested
        for queue in self._queues.values():
            for spool in queue.unconverted:
                spool.release()

    def _guard(self, work: Callable[..., None], queue: TableQueue, **how: bool) -> None:
        """One round that fails, for whatever reason, is not the last."""
        step = f"{work.__name__} {queue.table.name}"
        try:
            work(queue, **how)
        except Exception:
            if self._begins_to_fail(step):
                log.exception("Telemetry failed; it goes on.")
        else:
            self._works(step)

    def _round(self, queue: TableQueue, *, rotate: bool, last: bool) -> None:
        self._take(queue)
        self._spool(queue)
        self._drop_oldest(queue, 0 if last else KEPT_ROWS)
        if queue.spool is not None and (rotate or self._due(queue)):
            queue.unconverted.append(queue.spool)
            queue.spool = None
            queue.retry_at = 0.0
        self._convert(queue, last=last)

    def _take(self, queue: TableQueue) -> None:
        with self._lock:
            records, queue.records = queue.records, []
            self._queued -= len(records)
        batch = self._batch(queue.table, records) if records else None
        if batch is not None and (batch := self._in_time(batch)).num_rows:
            queue.waiting.append(batch)

    def _spool(self, queue: TableQueue) -> None:
        if not queue.waiting:
            return
        try:
            if queue.spool is None:
                self._open(queue)
            assert queue.spool is not None  # noqa: S101
            while queue.waiting:
                queue.spool.append(queue.waiting[0])
                queue.waiting.popleft()
        except OSError as error:
            self._complain(f"spool {queue.table.name}", UNSPOOLED, error)
            return
        for step in ("spool", "keep"):
            self._works(f"{step} {queue.table.name}")

    def _drop_oldest(self, queue: TableQueue, kept: int) -> None:
        lost = left = max(0, sum(batch.num_rows for batch in queue.waiting) - kept)
        while left:
            oldest = queue.waiting.popleft()
            if oldest.num_rows > left:
                queue.waiting.appendleft(oldest.slice(left))
            left -= min(left, oldest.num_rows)
        if lost:
            self._lose(lost)
            if self._begins_to_fail(f"keep {queue.table.name}"):
                log.error("The oldest %s are dropped: the disk took nothing for too long.", queue.table.name)

    def _lose(self, records: int) -> None:
        with self._lock:
            self.dropped += records

    def _batch(self, table: Table, records: list[object]) -> "pa.RecordBatch | None":
        """The records, less what can't be written: a value of a wrong type, a text that can't be encoded."""
        try:
            return table.batch(records)
        except Exception as error:
            fit = [record for record in records if _fits(table, record)]
            lost = len(records) - len(fit)
            log.error("%d records of %s can't be written and are lost: %s", lost, table.name, type(error).__name__)
            self._lose(lost)
            return table.batch(fit) if fit else None

    def _in_time(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        """The records whose time can be true: nearly always all of them, which one look at a column tells."""
        import pyarrow.compute as pc  # Only where there is something to write (see schema.py).

        now, times = clock.now(), batch["at_us"]
        earliest, latest = int(EARLIEST.timestamp() * 1e6), int((now + AHEAD_S) * 1e6)
        found = pc.min_max(times)
        if earliest <= found["min"].as_py() and found["max"].as_py() <= latest:
            return batch
        fit = batch.filter(pc.and_(pc.greater_equal(times, earliest), pc.less_equal(times, latest)))
        self._drop_misdated(batch.num_rows - fit.num_rows, now)
        return fit

    def _drop_misdated(self, records: int, now: float) -> None:
        self._lose(records)
        self._misdated += records
        if time.monotonic() - self._logged_at < LOG_EACH_S:
            return
        at = datetime.fromtimestamp(now, UTC)
        log.warning(MISDATED, self._misdated, EARLIEST.year, f"{at:%Y-%m-%d %H:%M:%S} UTC")
        self._misdated, self._logged_at = 0, time.monotonic()

    def _open(self, queue: TableQueue) -> None:
        folder = spool_folder(self._lake)
        folder.mkdir(parents=True, exist_ok=True)
        self._sequence += 1
        path = folder / f"{queue.table.name}.{self._prefix}-{self._sequence:06d}{SUFFIX}"
        queue.spool = Spool.create(path, queue.table.schema)
        queue.opened = time.monotonic()
        queue.hour = int(clock.now() // 3600)

    def _due(self, queue: TableQueue) -> bool:
        assert queue.spool is not None  # noqa: S101
        return (
            time.monotonic() - queue.opened >= self._rotation.age_s
            or queue.spool.size_bytes >= self._rotation.size_bytes
            or int(clock.now() // 3600) != queue.hour
        )

    def _convert(self, queue: TableQueue, *, last: bool) -> None:
        if not queue.unconverted or (time.monotonic() < queue.retry_at and not last):
            return
        for spool in list(queue.unconverted):
            try:
                convert(self._lake, spool)
            except OSError as error:
                self._complain(f"lake {queue.table.name}", UNCONVERTED, error)
                queue.retry_at = time.monotonic() + self._rotation.retry_s
                return
            except Exception as error:  # It will not be otherwise the next time: kept for a person to look at.
                log.warning("Put aside %s: %s", spool.path.name, type(error).__name__)
                spool.path.rename(spool.path.with_suffix(".bad"))
                spool.release()
            queue.unconverted.remove(spool)
        self._works(f"lake {queue.table.name}")

    def _claim_abandoned(self, queue: TableQueue) -> None:
        """Takes over every spool of the table whose writer is gone: this node's former run, or another node's."""
        folder = spool_folder(self._lake)
        remove_partial(folder, queue.table.name)
        for path in sorted(folder.glob(f"{queue.table.name}.*{SUFFIX}")):
            try:
                spool = Spool.claim(path)
            except OSError as error:
                log.error("Telemetry of a former run can't be recovered: %s.", error)
                continue
            if spool is not None:
                log.info("Recovering the telemetry that a former run left in %s.", path.name)
                queue.unconverted.append(spool)
        self._convert(queue, last=False)

    def _complain(self, step: str, message: str, error: OSError) -> None:
        if self._begins_to_fail(step):
            log.error(message, error)

    def _begins_to_fail(self, step: str) -> bool:
        """Notes the failure; False: it is known already."""
        known = step in self._failures
        self._failures.setdefault(step, time.time())
        return not known

    def _works(self, step: str) -> None:
        if self._failures.pop(step, None) is not None and not self._failures:
            log.info("Telemetry is written again.")


def _fits(table: Table, record: object) -> bool:
    try:
        table.batch([record])
    except Exception:
        return False
    return True


def convert(lake: Path, spool: Spool) -> None:
    """Writes a spool's records as one Parquet file an hour, then removes the spool. Raises OSError, BadSpool."""
    import pyarrow as pa  # Only where there is something to convert (see schema.py).

    table, _, name = spool.path.name.removesuffix(SUFFIX).partition(".")
    schema, batches = read_spool(spool.path)
    records = pa.Table.from_batches(batches, schema)
    for hour, part in by_hour(records):
        write_parquet(part, hour_folder(lake, table, hour) / f"{name}.parquet")
    spool.remove()
