"""What is recorded arrives in the lake once, whatever happens to the process."""

import itertools
import logging
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest import clock
from ingest.telemetry import Rotation, TelemetryWriter, get_writer, request_flush, set_writer
from ingest.telemetry import writer as telemetry_writer
from ingest.telemetry.lake import SAMPLES, write_parquet
from ingest.telemetry.spool import FRAME, MAGIC, Spool, spool_folder
from tests.ingest.telemetry.records import NOON, event, sample
from tests.rtmpweb.processes import waited_s
from tests.server_process import wait_for

HOUR_US = 3_600_000_000
QUICK = Rotation(flush_s=0.01)


@contextmanager
def writing(lake: Path, node: str = "node-a", rotation: Rotation = QUICK) -> Iterator[TelemetryWriter]:
    writer = TelemetryWriter(lake, node, rotation=rotation)
    writer.start()
    yield writer
    writer.close()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[TelemetryWriter]:
    with writing(tmp_path) as made:
        yield made


def until(condition: Callable[[], bool]) -> None:
    wait_for(condition, timeout_s=10, what="the condition holds")


def rows(lake: Path, table: str = "samples") -> list[dict[str, object]]:
    files = sorted((lake / table).rglob("*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def sequences(lake: Path, table: str = "samples") -> list[object]:
    return [row["sequence"] for row in rows(lake, table)]


def left(lake: Path, data: bytes, name: str = "samples.node-a-20260329T120000000000-000001") -> Path:
    spool_folder(lake).mkdir(parents=True, exist_ok=True)
    path = spool_folder(lake) / f"{name}.spool"
    path.write_bytes(data)
    return path


def spools(lake: Path) -> list[Path]:
    return list(spool_folder(lake).glob("*.spool"))


def filled(lake: Path) -> list[Path]:
    """Those with a batch: a file is there before its schema, and that before the first batch."""
    return [file for file in spools(lake) if count_frames(file.read_bytes()) > 1]


def count_frames(data: bytes) -> int:
    count, position = 0, len(MAGIC)
    while position + FRAME.size <= len(data):
        length, _ = FRAME.unpack_from(data, position)
        position += FRAME.size + length
        count += position <= len(data)
    return count


def told(caplog: pytest.LogCaptureFixture, words: str = "Telemetry is dropped") -> list[str]:
    """The lines of the log that say so."""
    return [message for record in caplog.records if words in (message := record.getMessage())]


def recover(lake: Path) -> None:
    """What the next start does."""
    with writing(lake):
        pass


def test_every_field_of_a_record_comes_back_from_the_lake(tmp_path: Path, writer: TelemetryWriter) -> None:
    writer.samples([sample(0), sample(1, key=7, drift=-12.5, rtt_ms=30.25, retrans=2)])
    writer.event(event(0, key=3))
    writer.close()
    assert rows(tmp_path) == [asdict(sample(0)), asdict(sample(1, key=7, drift=-12.5, rtt_ms=30.25, retrans=2))]
    assert rows(tmp_path, "events") == [asdict(event(0, key=3))]


def test_records_are_partitioned_by_their_own_hour(tmp_path: Path, writer: TelemetryWriter) -> None:
    writer.samples([sample(0, at_us=NOON - 1), sample(1), sample(2, at_us=NOON + HOUR_US - 1)])
    writer.close()
    folders = {str(file.parent.relative_to(tmp_path)): file for file in tmp_path.rglob("*.parquet")}
    assert set(folders) == {"samples/v=1/dt=2026-03-29/hr=11", "samples/v=1/dt=2026-03-29/hr=12"}
    assert all(file.name.startswith("node-a-") for file in folders.values())
    metadata = pq.read_metadata(next(iter(folders.values())))
    assert metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_node_may_have_any_name(tmp_path: Path) -> None:
    for node in ("../../etc", "_hidden.node", ""):
        with writing(tmp_path, node) as writer:
            writer.samples([sample(0)])
    files = list(tmp_path.rglob("*.parquet"))
    assert len(files) == 3
    assert not any(file.name.startswith((".", "_")) for file in files)


@pytest.mark.parametrize("rotation", [Rotation(flush_s=0.01, age_s=0.05), Rotation(flush_s=0.01, size_bytes=1)])
def test_spool_becomes_parquet_by_age_and_by_size_while_the_writer_runs(tmp_path: Path, rotation: Rotation) -> None:
    with writing(tmp_path, rotation=rotation) as writer:
        writer.samples([sample(0)])
        until(lambda: sequences(tmp_path) == [0])
        writer.samples([sample(1)])
        until(lambda: sorted(sequences(tmp_path)) == [0, 1])  # type: ignore[type-var]
    assert len(list(tmp_path.rglob("*.parquet"))) == 2
    assert not list(spool_folder(tmp_path).iterdir())


def test_a_flush_request_brings_what_was_spooled_to_the_lake(tmp_path: Path, writer: TelemetryWriter) -> None:
    writer.samples([sample(0)])
    until(lambda: bool(spools(tmp_path)))
    assert sequences(tmp_path) == []
    assert request_flush(tmp_path)
    assert sequences(tmp_path) == [0]
    assert request_flush(tmp_path), "with nothing in the spool there is nothing to wait for"


def test_a_flush_does_not_wait_for_the_spool_of_a_dead_writer(tmp_path: Path, writer: TelemetryWriter) -> None:
    writer.samples([sample(0)])
    until(lambda: bool(spools(tmp_path)))
    dead = left(tmp_path, spools(tmp_path)[0].read_bytes(), "samples.node-b-20260329T120000000000-000001")
    started = time.monotonic()
    assert request_flush(tmp_path, wait_s=30)
    assert time.monotonic() - started < 10
    assert dead.exists()


def test_a_torn_tail_costs_only_itself(tmp_path: Path, writer: TelemetryWriter) -> None:
    spooled: list[bytes] = []
    for number in range(3):
        writer.samples([sample(number)])
        # One frame is the schema's.
        until(lambda: [count_frames(file.read_bytes()) - 1 for file in spools(tmp_path)] == [len(spooled) + 1])
        spooled.append(spools(tmp_path)[0].read_bytes())
    lake = tmp_path / "other"
    expected = {len(spooled[0]): [0], len(spooled[1]): [0, 1], len(spooled[2]): [0, 1, 2]}
    for length in {len(spooled[0]), *range(len(spooled[1]), len(spooled[2]) + 1, 97), len(spooled[2])}:
        recovered = lake / str(length)
        left(recovered, spooled[2][:length])
        recover(recovered)
        assert sequences(recovered) == expected[max(whole for whole in expected if whole <= length)]
        assert not spools(recovered)


def test_a_damaged_frame_ends_the_reading_and_is_not_believed(tmp_path: Path, writer: TelemetryWriter) -> None:
    writer.samples([sample(0)])
    until(lambda: bool(filled(tmp_path)))
    data = bytearray(spools(tmp_path)[0].read_bytes())
    data[-5] ^= 0x40
    lake = tmp_path / "other"
    left(lake, bytes(data))
    recover(lake)
    assert sequences(lake) == []


def test_a_file_that_is_no_spool_is_put_aside(tmp_path: Path) -> None:
    left(tmp_path, b"not a spool at all", "samples.node-a-1-1")
    recover(tmp_path)
    assert [file.name for file in spool_folder(tmp_path).iterdir()] == ["samples.node-a-1-1.bad"]


def test_recovering_a_spool_twice_duplicates_nothing(tmp_path: Path, writer: TelemetryWriter) -> None:
    """A crash between the rename of the Parquet file and the removal of the spool."""
    writer.samples([sample(0), sample(1, at_us=NOON + HOUR_US)])
    until(lambda: bool(filled(tmp_path)))
    spool = spools(tmp_path)[0]
    kept = spool.read_bytes()
    writer.close()
    files = {file: file.read_bytes() for file in tmp_path.rglob("*.parquet")}
    assert len(files) == 2
    for file in files:
        (file.parent / f".{file.name}.tmp").write_bytes(b"torn")
    spool.write_bytes(kept)
    recover(tmp_path)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.parquet")} == files
    assert not spools(tmp_path)
    assert not list(tmp_path.rglob("*.tmp"))


def test_the_spool_of_a_living_writer_is_left_alone(tmp_path: Path, writer: TelemetryWriter) -> None:
    writer.samples([sample(0)])
    until(lambda: bool(filled(tmp_path)))
    recover(tmp_path)
    assert sequences(tmp_path) == []
    writer.close()
    assert sequences(tmp_path) == [0]


def test_a_full_queue_drops_counts_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry_writer, "QUEUED_RECORDS", 10)
    writer = TelemetryWriter(tmp_path, "node-a", rotation=QUICK)
    with caplog.at_level(logging.WARNING):
        for number in range(5):
            writer.samples([sample(number * 4 + step) for step in range(4)])
    assert writer.dropped == 12
    assert len(caplog.records) == 1
    writer.start()
    writer.close()
    assert sequences(tmp_path) == list(range(8))


def test_nothing_is_recorded_after_the_end_and_nothing_is_raised(tmp_path: Path, writer: TelemetryWriter) -> None:
    writer.close()
    writer.samples([sample(0)])
    writer.event(event(0))
    assert writer.dropped == 2
    writer.close()


def test_a_record_that_cannot_be_written_costs_only_itself(
    tmp_path: Path, writer: TelemetryWriter, caplog: pytest.LogCaptureFixture
) -> None:
    writer.samples([sample(0), sample(1, name="\ud800"), sample(2), sample(3, players=1 << 63)])
    writer.samples(["nonsense"])  # type: ignore[list-item]
    until(lambda: "can't be written" in caplog.text)
    writer.samples([sample(4)])
    writer.event(event(0))
    writer.close()
    assert sequences(tmp_path) == [0, 2, 4]
    assert sequences(tmp_path, "events") == [0]
    assert writer.dropped == 3


def us(*date: int) -> int:
    """Microseconds since the epoch of a date in UTC."""
    return int(datetime(*date, tzinfo=UTC).timestamp()) * 1_000_000  # type: ignore[misc, arg-type]


def test_records_dated_before_2020_or_over_a_day_ahead_are_dropped(
    tmp_path: Path, writer: TelemetryWriter, caplog: pytest.LogCaptureFixture
) -> None:
    now, day = int(time.time()) * 1_000_000, 24 * HOUR_US
    misdated = [us(1970, 1, 1), us(2019, 12, 31, 23, 59, 59), now + day + 60_000_000, us(2099, 1, 1), -1, 1 << 62]
    believed = [us(2020, 1, 1), now, now + day - 60_000_000]
    writer.samples([sample(number, at_us=at) for number, at in enumerate(misdated + believed)])
    for number, at in enumerate([us(1970, 1, 1), now, us(2099, 1, 1)]):
        writer.event(event(number, at_us=at))
    writer.close()
    assert sorted(row["at_us"] for row in rows(tmp_path)) == believed  # type: ignore[type-var]
    assert [row["at_us"] for row in rows(tmp_path, "events")] == [now]
    assert writer.dropped == len(misdated) + 2
    assert writer.failing_since is None
    assert not list(spool_folder(tmp_path).iterdir())
    assert len(told(caplog)) == 1, "one line a minute, however many tables"


def test_misdated_records_alone_write_nothing_and_log_once_a_minute(
    tmp_path: Path, writer: TelemetryWriter, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 6):
        writer.samples([sample(number, at_us=us(1970, 1, 1, number))])
        until(lambda count=number: writer.dropped == count)  # type: ignore[misc]
    assert not list(tmp_path.rglob("*.spool"))
    assert [line for line in told(caplog) if " 1 records " in line] == told(caplog)
    assert len(told(caplog)) == 1
    monkeypatch.setattr(telemetry_writer, "LOG_EACH_S", 0.0)
    writer.samples([sample(6, at_us=us(2099, 1, 1))])
    writer.close()
    assert len(told(caplog)) == 2
    assert " 5 records " in told(caplog)[1], "those that it was not told of are counted in the next line"
    assert sequences(tmp_path) == []


def test_misdated_records_are_recognised_by_the_nodes_clock(
    tmp_path: Path, writer: TelemetryWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a machine whose clock was never set: until it is, nothing is written."""
    set_at = [float(us(1970, 1, 1) // 1_000_000)]
    monkeypatch.setattr(clock, "_clock", clock.SteadyClock(lambda: set_at[0], lambda: 0.0))
    writer.samples([sample(0, at_us=int(clock.now() * 1e6)), sample(1)])
    until(lambda: writer.dropped == 2)
    set_at[0] = NOON / 1e6
    monkeypatch.setattr(clock, "_clock", clock.SteadyClock(lambda: set_at[0], lambda: 0.0))
    writer.samples([sample(2), sample(3, at_us=NOON + 25 * HOUR_US)])
    writer.close()
    assert sequences(tmp_path) == [2]
    assert writer.dropped == 3


def test_a_spool_that_cannot_be_converted_is_put_aside(tmp_path: Path) -> None:
    """Such as one that another version wrote."""
    spool_folder(tmp_path).mkdir()
    path = spool_folder(tmp_path) / "samples.node-a-20260329T120000000000-000001.spool"
    schema = pa.schema([("at_ms", pa.int64())])
    spool = Spool.create(path, schema)
    spool.append(pa.record_batch([pa.array([1])], schema=schema))
    spool.release()
    with writing(tmp_path) as writer:
        writer.samples([sample(0)])
    assert sequences(tmp_path) == [0]
    assert [file.name for file in spool_folder(tmp_path).iterdir()] == [path.with_suffix(".bad").name]


def test_an_unwritable_lake_keeps_the_records_until_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = tmp_path / "lake"
    lake.write_text("a file where the folder should be")
    with writing(lake) as writer:
        writer.samples([sample(0)])
        until(lambda: bool(told(caplog, "can't be spooled")))
        writer.samples([sample(1)])
        lake.unlink()
        until(lambda: bool(lake.exists() and spools(lake)))
    assert sequences(lake) == [0, 1]
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


def test_oldest_records_waiting_for_the_disk_are_dropped_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry_writer, "KEPT_ROWS", 3)
    lake = tmp_path / "lake"
    lake.write_text("a file where the folder should be")
    with writing(lake) as writer:
        for number in range(7):
            writer.samples([sample(number)])
        until(lambda: writer.dropped == 4)
        lake.unlink()
        until(lambda: bool(lake.exists() and spools(lake)))
    assert sequences(lake) == [4, 5, 6]
    assert writer.failing_since is None
    assert len(told(caplog, "dropped")) == 1


def test_spool_that_is_being_created_cannot_be_claimed(tmp_path: Path) -> None:
    made, claimed = list[Spool](), 0

    def make() -> None:
        for number in range(300):
            made.append(Spool.create(tmp_path / f"samples.node-a-1-{number}.spool", SAMPLES.schema))

    maker = threading.Thread(target=make)
    maker.start()
    while maker.is_alive():
        for path in tmp_path.glob("*.spool"):
            if spool := Spool.claim(path):
                claimed += 1
                spool.release()
    assert claimed == 0
    assert len(made) == len(list(tmp_path.iterdir())) == 300
    for spool in made:
        spool.release()


def test_unfinished_spool_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    folder = spool_folder(tmp_path)
    folder.mkdir(parents=True)
    left, begun = folder / "samples.node-a-1-1.making", folder / "samples.node-b-1-1.making"
    left.touch()
    begun.touch()
    os.utime(left, (time.time() - 120,) * 2)
    recover(tmp_path)
    assert list(folder.iterdir()) == [begun]


def test_failed_write_to_a_full_disk_leaves_no_file(tmp_path: Path) -> None:
    spool_folder(tmp_path).mkdir(parents=True)
    with full_disk(), pytest.raises(OSError, match="too large"):
        Spool.create(spool_folder(tmp_path) / "samples.node-a-1-1.spool", SAMPLES.schema)
    with full_disk(), pytest.raises(OSError, match="too large"):
        write_parquet(pa.table({"at_us": list(range(10_000))}), tmp_path / "hour" / "part.parquet")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process may be longer than a few bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_many_threads_may_record(tmp_path: Path, writer: TelemetryWriter) -> None:
    def record(first: int) -> None:
        for number in range(first, first + 200):
            writer.samples([sample(number)])

    threads = [threading.Thread(target=record, args=(first,)) for first in (0, 1000, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert set(sequences(tmp_path)) == {*range(200), *range(1000, 1200), *range(2000, 2200)}
    assert len(sequences(tmp_path)) == 600


def record_numbered(lake: Path, first: int, rotate_s: float) -> None:
    """Record numbered samples until the process is killed.

    After each sample, print its number, the count of spooled samples, the count of spoolings, and the longest time for
    which a sample waited to be spooled.
    """
    spooled: list[int] = []
    handed_at: list[float] = []
    longest, append = 0.0, Spool.append

    def clock() -> float:
        """Stands still while this process waits for a processor."""
        return time.monotonic() - waited_s(os.getpid())

    def note(spool: Spool, batch: pa.RecordBatch) -> None:
        nonlocal longest
        append(spool, batch)
        longest = max(longest, clock() - handed_at[sum(spooled)])
        spooled.append(batch.num_rows)

    Spool.append = note  # type: ignore[assignment, method-assign]
    writer = TelemetryWriter(lake, "node-a", rotation=Rotation(flush_s=0.02, age_s=rotate_s))
    writer.start()
    for sequence in itertools.count(first):
        handed_at.append(clock())
        # Every tenth belongs to the next hour, so that each spool becomes two files.
        writer.samples([sample(sequence, at_us=NOON + (sequence % 10 == 9) * HOUR_US)])
        sys.stdout.write(f"{sequence} {sum(spooled)} {len(spooled)} {longest}\n")
        sys.stdout.flush()
        time.sleep(0.002)


@pytest.mark.parametrize("rotate_s", [60.0, 0.0])
def test_kill_9_loses_at_most_two_seconds_and_duplicates_nothing(tmp_path: Path, rotate_s: float) -> None:
    """Killed again and again while it spools (60) or while it rotates all the time (0): what it spooled is kept, and
    that is all but what came since the last time, which is less than 2 s ago.
    """
    assert Rotation().flush_s <= 1
    first, owed = 0, set[int]()
    for _ in range(3):
        program = f"from {__name__} import *; record_numbered(Path({str(tmp_path)!r}), {first}, {rotate_s})"
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            started, times, longest = time.monotonic(), 0, 0.0
            try:
                while times < 12:
                    *counts, waited = process.stdout.readline().split()
                    (handed, spooled, times), longest = map(int, counts), float(waited)
                    assert time.monotonic() - started < 20 * 2
            finally:
                process.kill()
            process.stdout.read()
        assert longest < 2
        owed |= set(range(first, first + spooled))
        first = handed + 1_000
    recover(tmp_path)
    found = sequences(tmp_path)
    assert len(found) == len(set(found))
    assert owed <= set(found)
    assert owed
    assert not spools(tmp_path)


def test_the_process_has_one_known_writer(writer: TelemetryWriter) -> None:
    assert get_writer() is None
    set_writer(writer)
    assert get_writer() is writer
    set_writer(None)
    assert get_writer() is None
