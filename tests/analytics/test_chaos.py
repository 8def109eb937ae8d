"""Disturbed runs leave the same rows as one clean run.

An installation's analytics are killed, robbed of Java or of the disk, or paused until another run has overtaken them.
Meanwhile the lake changes: hours come late and in pieces, files come twice, are corrected and withdrawn. The kind of
disturbance, its moment and the changes differ from one run of the tests to the next. CHAOS_SEED in the environment
repeats their order, but not their exact moments. tests/soak disturbs thirty runs.
"""

import itertools
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from django.db import connection

from analytics import tables
from analytics.metrics import METRICS, Merge
from analytics.models import Dimension, Rollup
from analytics.rollups import united_sketches
from analytics.synthetic import generate
from tests.background import Background
from tests.production.outages.test_disk import full, small_disk
from tests.production.parts import SPARK
from tests.rtmpweb import processes
from tests.server_process import wait_for
from tests.tools import require_tool

pytestmark = [
    pytest.mark.spark,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(900),
    pytest.mark.matrix,
]

START = datetime(2026, 3, 28, 23, tzinfo=UTC)
"""An hour before midnight, so that two days take part."""

BEGIN_TIMEOUT_S = 120.0
END_TIMEOUT_S = 900.0
SETTLING_RUNS = 4
"""The most undisturbed runs until nothing is left to do."""

SUMMED = [metric.name for metric in METRICS if metric.merge == Merge.SUM]
DATABASE = "rtmpweb.sqlite3"

StreamPath = tuple[str, str]


def test_a_disturbed_run_ends_with_the_rows_of_a_clean_one(tmp_path: Path) -> None:
    require_tool("java")
    print(endure(tmp_path, disk="300m", times=1, streams=3, hours=2, files_per_hour=2))  # noqa: T201


class Run(Background):
    """A process of `manage.py analytics run --json`."""

    def __init__(self, data: Path, logs: Path, name: str) -> None:
        environment = {**SPARK, "RTMPWEB_DATA_DIR": str(data), "RTMPWEB_SPARK_MEMORY": "768m"}
        command = [sys.executable, "manage.py", "analytics", "run", "--json"]
        super().__init__(name, command, folder=logs, environment=environment, ready="Begins on")

    def java(self) -> list[int]:
        """Return the process ids of its JVMs."""
        return [pid for pid in processes.descendants(self.pid) if processes.command(pid).split(" ")[0].endswith("java")]

    def end(self) -> dict[str, Any]:
        """Wait for the end. Return the result that the command printed; {} if there is none."""
        wait_for(lambda: not self.running, timeout_s=END_TIMEOUT_S, what=f"{self.name} has ended")
        for line in self.log.splitlines():
            with suppress(ValueError):
                found: dict[str, Any] = json.loads(line)
                return found
        return {}


class Chaos:
    """An installation whose runs are disturbed while its lake changes.

    Args:
        disk: The folder of its data: on a small disk if that may run full.
        logs: A folder on another disk.
    """

    def __init__(self, disk: Path, logs: Path, seed: int, *, streams: int, hours: int, files_per_hour: int) -> None:
        self.random = random.Random(seed)
        self.disk, self.logs, self.data = disk, logs, disk / "data"
        self.lake, self.source = self.data / "lake", logs / "source"
        for number in itertools.count(seed):  # A few streams may all be off air during all hours.
            generate(self.source, streams=streams, start=START, hours=hours, seed=number, files_per_hour=files_per_hour)
            if samples := sorted((self.source / "samples").rglob("*.parquet")):
                break
            shutil.rmtree(self.source)
        self.waiting = sorted(self.source.rglob("*.parquet"))
        self.random.shuffle(self.waiting)
        first = next(file for file in self.waiting if file in samples)
        self.waiting.remove(first)
        self.waiting.append(first)  # The last comes first: without samples there would be nothing to disturb.
        self.counts: Counter[str] = Counter()
        self._runs = 0
        self.data.mkdir()

    # --- Changes of the lake ---

    def deliver(self, share: float) -> None:
        """Copy a share of the waiting files into the lake."""
        for _ in range(round(len(self.waiting) * share)):
            file = self.waiting.pop()
            self._copy(file, file.relative_to(self.source))

    def change(self) -> None:
        """Deliver some files, and repeat, correct or withdraw one."""
        self.deliver(0.2)
        files = sorted((self.lake / "samples").rglob("*.parquet"))
        action = self.random.choice([self._repeat, self._correct, self._withdraw])
        action(self.random.choice(files))
        self.counts[action.__name__.strip("_")] += 1

    def _repeat(self, file: Path) -> None:
        self._copy(file, file.relative_to(self.lake).with_name(f"again-{file.name}"))

    def _correct(self, file: Path) -> None:
        table = pq.ParquetFile(file).read()
        place = table.schema.get_field_index("out_bytes")
        more = pc.add(table["out_bytes"], pa.scalar(1, pa.int64()))
        partial = file.with_name(f".{file.name}.tmp")
        pq.write_table(table.set_column(place, table.schema.field(place), more), partial)
        partial.rename(file.with_name(f"corrected-{self._runs}-{file.name}"))
        file.unlink()

    def _withdraw(self, file: Path) -> None:
        if len(list(file.parent.glob("*.parquet"))) > 1:  # An hour that loses all its files keeps its rollups.
            file.unlink()

    def _copy(self, file: Path, place: Path) -> None:
        target = self.lake / place
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.tmp")
        shutil.copy(file, partial)
        partial.rename(target)

    # --- Disturbances of runs ---

    def disturb(self, kinds: dict[str, Callable[[Run], None]]) -> None:
        """Start a run, and disturb it at a random moment in one of these ways."""
        kind = self.random.choice(list(kinds))
        run = self.start_run()
        self._wait_for_random_moment(run)
        if run.running:
            self.counts[kind] += 1
            kinds[kind](run)
        run.end()
        self.expire_locks()
        self.change()

    def kill_worker(self, run: Run) -> None:
        """Kill the worker only: its Java has to notice by itself."""
        java = run.java()
        os.kill(run.pid, signal.SIGKILL)
        run.end()
        wait_for(lambda: not any(map(processes.command, java)), timeout_s=60, what="Java has ended after its parent")

    def kill_java(self, run: Run) -> None:
        for pid in run.java():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def fill_disk(self, run: Run) -> None:
        with full(self.disk):
            run.end()

    def stand_still(self, run: Run) -> None:
        """Pause the run until it counts as lost and another has done its work, then resume it.

        We never pause it inside a transaction, as it would block all other writers of SQLite.
        """
        wait_for(lambda: self._paused(run), timeout_s=END_TIMEOUT_S, what=f"{run.name} is outside of transactions")
        self.expire_locks()
        self.change()
        self.start_run().end()
        run.resume()

    def _paused(self, run: Run) -> bool:
        """Pause the run. If that is inside a transaction, resume it and return False."""
        run.pause()
        with closing(sqlite3.connect(self.data / DATABASE, 1)) as database, suppress(sqlite3.OperationalError):
            database.execute("BEGIN IMMEDIATE")  # Running processes have a second to end their transactions.
            return True
        run.resume()
        return False

    def _wait_for_random_moment(self, run: Run) -> None:
        """Wait until the run is at a random place between its beginning and the end of its work."""
        is_running = "SELECT 1 FROM analytics_analyticsrun WHERE state = 'running'"
        places: list[Callable[[], object]] = [
            run.java,
            lambda: list(self.lake.glob("rollups/.work/*/rollups/*/*/*/*")),
            lambda: list(self.lake.glob("rollups/.work/*/rollups/hour/*/*")),
            lambda: self.query(f"{is_running} AND stage LIKE 'Loading%'"),
            lambda: self.query(f"{is_running} AND done > 0"),
            lambda: list(self.lake.glob("rollups/.work/*/rollups/day/*/*")),
        ]
        place = self.random.choice(places)
        wait_for(lambda: not run.running or place(), timeout_s=END_TIMEOUT_S, what="the run is at the place")
        time.sleep(self.random.uniform(0, 0.5))

    def start_run(self) -> Run:
        self._runs += 1
        run = Run(self.data, self.logs, f"run-{self._runs}")
        run.launch()
        wait_for(lambda: not run.running or "Begins on" in run.log, timeout_s=BEGIN_TIMEOUT_S, what="the run has begun")
        return run

    # --- The database ---

    def query(self, query: str) -> list[tuple[Any, ...]]:
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(self.data / DATABASE, 30)) as database:
            return database.execute(query).fetchall()
        return []

    def expire_locks(self) -> None:
        """Pretend that all holders of locks have given no sign of life for two minutes."""
        past = (datetime.now(UTC) - timedelta(minutes=2)).replace(tzinfo=None).isoformat(" ")
        with closing(sqlite3.connect(self.data / DATABASE, 30)) as database, database:
            database.execute("UPDATE analytics_analyticsrun SET heartbeat_at = ? WHERE state = 'running'", (past,))
            database.execute("UPDATE analytics_partition SET locked_until = ? WHERE lock != ''", (past,))

    # --- The end ---

    def settle(self) -> None:
        """Deliver all files, and run until a run finds nothing to do."""
        self.deliver(1.0)
        if not any(self.start_run().end().get("partitions_expected") == 0 for _ in range(SETTLING_RUNS)):
            undone = self.query("SELECT grain, start, state, error FROM analytics_partition WHERE state != 'done'")
            raise AssertionError(f"still not done: {undone}")
        left = self.leftovers()
        assert not left, left

    def leftovers(self) -> list[str]:
        """Return the processes and files that should be gone."""
        found = [processes.command(pid) for pid in processes.of_folder(self.data)]
        found += [str(path) for path in self.lake.glob("rollups/.work/*")]
        known = (".flush-request", ".crc")  # Spark keeps a checksum next to each file.
        found += [str(path) for path in self.lake.rglob(".*") if path.is_file() and not path.name.endswith(known)]
        own = [path for path in (self.data / "spark").glob("*") if int(path.name) in processes.parents()]
        return found + [str(path) for path in own]


def endure(folder: Path, *, disk: str, times: int, streams: int, hours: int, files_per_hour: int) -> str:
    """Disturb runs, and compare their rows with those of a clean run on the same lake.

    Args:
        disk: The size of the disk that may run full.
        times: The number of disturbances.

    Returns:
        The seed, and how often each thing was done.
    """
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(1 << 32))
    empty, small, logs = folder / "empty.sqlite3", folder / "disk", folder / "logs"
    small.mkdir()
    logs.mkdir()
    assert connection.vendor == "sqlite"
    with connection.cursor() as cursor:
        cursor.execute("VACUUM INTO %s", [str(empty)])
    with small_disk(small, disk) as may_be_filled:
        chaos = Chaos(small, logs, seed, streams=streams, hours=hours, files_per_hour=files_per_hour)
        kinds = [chaos.kill_worker, chaos.kill_java, chaos.stand_still]
        kinds += [chaos.fill_disk] if may_be_filled else []
        try:
            _endure(chaos, empty, {kind.__name__: kind for kind in kinds}, times)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, after {dict(chaos.counts)}: {error}") from error
    return f"seed {seed}: {dict(chaos.counts)}"


def _endure(chaos: Chaos, empty: Path, kinds: dict[str, Callable[[Run], None]], times: int) -> None:
    shutil.copy(empty, chaos.data / DATABASE)
    chaos.deliver(0.4)
    tries = 0
    while sum(chaos.counts[kind] for kind in kinds) < times:
        tries += 1
        assert tries <= 3 * times + 3, f"hardly any run was disturbed: {chaos.counts}"
        chaos.disturb(kinds)
    chaos.settle()
    clean = clean_run(chaos, empty)
    renamed = streams_with_other_broadcasts(chaos.lake, clean / "lake")
    assert rows_by_table(chaos.lake, renamed) == rows_by_table(clean / "lake", renamed)
    assert database_rows(chaos.data / DATABASE, renamed) == database_rows(clean / DATABASE, renamed)


def clean_run(chaos: Chaos, empty: Path) -> Path:
    """Compute the same lake in one run with an empty database. Return the data folder."""
    data = chaos.logs / "clean"
    data.mkdir()
    shutil.copy(empty, data / DATABASE)
    for table in ("samples", "events"):
        shutil.copytree(chaos.lake / table, data / "lake" / table)
    run = Run(data, chaos.logs, "clean")
    run.launch()
    ended = run.end()
    assert ended.get("state") == "done", run.log
    assert ended["partitions_done"] > 0
    return data


# --- Rows to compare. `renamed`: the streams whose broadcasts may have other names ---


def database_rows(file: Path, renamed: set[StreamPath]) -> list[str]:
    columns = [str(field.column) for field in Rollup._meta.concrete_fields if not field.primary_key]
    with closing(sqlite3.connect(file)) as database:
        rows = database.execute(f"SELECT {', '.join(columns)} FROM analytics_rollup")  # noqa: S608
        return comparable((dict(zip(columns, row, strict=True)) for row in rows), renamed)


def rows_by_table(lake: Path, renamed: set[StreamPath]) -> dict[str, list[str]]:
    return {table: comparable(lake_rows(lake, table), renamed) for table in (*tables.OF_HOURS, tables.DAY)}


def lake_rows(lake: Path, table: str) -> Iterator[dict[str, Any]]:
    for file in tables.table_folder(lake, table).rglob("*.parquet"):
        yield from pq.ParquetFile(file).read().to_pylist()


def streams_with_other_broadcasts(lake: Path, other: Path) -> set[StreamPath]:
    """Return the streams of which a session belongs to another broadcast in the other lake.

    A broadcast keeps its first name, which depends on the order in which files came. Two broadcasts that late files
    join stay two.
    """
    names = ("app", "name", "start_us", "session", "broadcast_us")
    one, two = (
        {tuple(row[name] for name in names) for row in lake_rows(each, tables.SESSION_HOURS)} for each in (lake, other)
    )
    return {(app, name) for app, name, *_ in one ^ two}


def comparable(rows: Iterable[dict[str, Any]], renamed: set[StreamPath]) -> list[str]:
    """Return the rows in a fixed order; broadcasts of a renamed stream only with their joint sums.

    We compare a sketch by its number of players, as the order of the players in it depends on that of the events.
    """
    found: list[str] = []
    broadcasts: Counter[str] = Counter()
    for each in rows:
        sketch = each.get("players_sketch")
        row = {**each, "players_sketch": united_sketches([sketch])} if sketch else each
        if (row["app"], row["name"]) not in renamed:
            found.append(repr(row))
        elif row.get("dimension") == Dimension.BROADCAST:
            where = [row.get(name) for name in ("grain", "start", "start_us", "app", "name")]
            broadcasts.update({f"{where} {name}": row[name] for name in SUMMED})
        else:
            found.append(repr({name: value for name, value in row.items() if name != "broadcast_us"}))
    return sorted(found) + sorted(map(repr, broadcasts.items()))
