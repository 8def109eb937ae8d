"""An installation whose analytics are disturbed at random: killed, robbed of Java and of the disk, made to stand still.

Meanwhile the lake changes: hours come late and in pieces, files come twice, are corrected and withdrawn. In the end a
run that nobody disturbs has to leave the very rows that one clean run makes of the same lake, but for what broadcasts
are called.

CHAOS_SEED in the environment repeats what happened: the deeds and their order, though not the very moments.
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
from django.db import connection

from analytics import tables
from analytics.metrics import METRICS, Merge
from analytics.models import Dimension, Rollup
from analytics.rollups import united_sketches
from analytics.synthetic import generate
from analytics.tables import SESSION_HOURS
from tests.background import Background
from tests.production.parts import SPARK
from tests.rtmpweb import processes
from tests.server_process import wait_for
from tests.smalldisk import full, small_disk

START = datetime(2026, 3, 28, 23, tzinfo=UTC)
"""An hour before midnight: two days take part."""

BEGUN_S = 120.0
ENDED_S = 900.0
TRIES = 4
"""Undisturbed runs until nothing is left to do."""

TOGETHER = [metric.name for metric in METRICS if metric.merge == Merge.SUM]
"""Figures of broadcasts that are summed up."""

StreamPath = tuple[str, str]

DATABASE = "rtmpweb.sqlite3"
KINDS = ("kill_worker", "kill_java", "stand_still")
FULL = ("fill_disk",)


class Run(Background):
    """`manage.py analytics run --json`."""

    def __init__(self, data: Path, logs: Path, name: str) -> None:
        environment = {**SPARK, "RTMPWEB_DATA_DIR": str(data), "RTMPWEB_SPARK_MEMORY": "768m"}
        command = [sys.executable, "manage.py", "analytics", "run", "--json"]
        super().__init__(name, command, folder=logs, environment=environment, ready="Begins on")

    def java(self) -> list[int]:
        """Its JVMs."""
        return [pid for pid in processes.descendants(self.pid) if processes.command(pid).split(" ")[0].endswith("java")]

    def end(self) -> dict[str, Any]:
        """What it printed when it has ended by itself; {} if nothing."""
        wait_for(lambda: not self.running, timeout_s=ENDED_S, what=f"{self.name} has ended")
        for line in self.log.splitlines():
            with suppress(ValueError):
                found: dict[str, Any] = json.loads(line)
                return found
        return {}


class Chaos:
    """`disk`: a folder, on a small disk if the disk is to run full. `logs`: on another."""

    def __init__(self, disk: Path, logs: Path, seed: int, *, streams: int, hours: int, files_per_hour: int) -> None:
        self.random = random.Random(seed)
        self.disk, self.logs = disk, logs
        self.data = disk / "data"
        self.lake = self.data / "lake"
        self.source = logs / "source"
        for number in itertools.count(seed):  # So few streams may be off the air all the time.
            generate(self.source, streams=streams, start=START, hours=hours, seed=number, files_per_hour=files_per_hour)
            if any((self.source / "samples").rglob("*.parquet")):
                break
            shutil.rmtree(self.source)
        self.waiting = sorted(self.source.rglob("*.parquet"))
        self.random.shuffle(self.waiting)
        first = next(file for file in self.waiting if file.is_relative_to(self.source / "samples"))
        self.waiting.remove(first)
        self.waiting.append(first)  # The last comes first: without samples there would be nothing to disturb.
        self.did: Counter[str] = Counter()
        self._runs = 0
        self.data.mkdir()

    # What happens to the lake

    def deliver(self, share: float) -> None:
        """So much of what has not come yet comes."""
        for _ in range(round(len(self.waiting) * share)):
            file = self.waiting.pop()
            self._put(file, file.relative_to(self.source))

    def change(self) -> None:
        """Something comes, comes again, comes otherwise, or goes."""
        self.deliver(0.2)
        there = sorted((self.lake / "samples").rglob("*.parquet"))
        deed = self.random.choice([self._again, self._correct, self._withdraw])
        deed(self.random.choice(there))
        self.did[deed.__name__.strip("_")] += 1

    def _again(self, file: Path) -> None:
        self._put(file, file.relative_to(self.lake).with_name(f"again-{file.name}"))

    def _correct(self, file: Path) -> None:
        table = pq.ParquetFile(file).read()
        place = table.schema.get_field_index("out_bytes")
        more = pc.add(table["out_bytes"], pa.scalar(1, pa.int64()))
        partial = file.with_name(f".{file.name}.tmp")
        pq.write_table(table.set_column(place, table.schema.field(place), more), partial)
        partial.rename(file.with_name(f"corrected-{self._runs}-{file.name}"))
        file.unlink()

    def _withdraw(self, file: Path) -> None:
        if len(list(file.parent.glob("*.parquet"))) > 1:  # An hour that loses all its files keeps what was made of it.
            file.unlink()

    def _put(self, file: Path, place: Path) -> None:
        target = self.lake / place
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.tmp")
        shutil.copy(file, partial)
        partial.rename(target)

    # What happens to runs

    def disturb(self, kinds: tuple[str, ...]) -> None:
        """Starts a run, and does one of these to it somewhere on its way."""
        kind = self.random.choice(kinds)
        run = self.run()
        self._somewhere(run)
        if run.running:
            self.did[kind] += 1
            getattr(self, kind)(run)
        self._ended(run)
        self.change()

    def kill_worker(self, run: Run) -> None:
        """SIGKILL; its Java is left to find out by itself."""
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
        """So long that it is taken for lost, and another has done its work; then it goes on.

        Not amid a transaction: who stands still there stops everybody who wants to write to SQLite.
        """
        wait_for(lambda: self._paused(run), timeout_s=ENDED_S, what=f"{run.name} is outside of transactions")
        self.age()
        self.change()
        self.run().end()
        run.resume()

    def _paused(self, run: Run) -> bool:
        """False, and it goes on, where that would be amid a transaction."""
        run.pause()
        if not self._written_to():
            return True
        run.resume()
        return False

    def _somewhere(self, run: Run) -> None:
        """Waits until it is somewhere between its beginning and the end of its work: where, is what is random."""
        places: list[Callable[[], object]] = [
            run.java,
            lambda: list(self.lake.glob("rollups/.work/*/rollups/*/*/*/*")),
            lambda: list(self.lake.glob("rollups/.work/*/rollups/hour/*/*")),
            lambda: self.ask("SELECT 1 FROM analytics_analyticsrun WHERE state = 'running' AND stage LIKE 'Loading%'"),
            lambda: self.ask("SELECT 1 FROM analytics_analyticsrun WHERE state = 'running' AND done > 0"),
            lambda: list(self.lake.glob("rollups/.work/*/rollups/day/*/*")),
        ]
        place = self.random.choice(places)
        wait_for(lambda: not run.running or place(), timeout_s=ENDED_S, what="it is there")
        time.sleep(self.random.uniform(0, 0.5))  # Somewhere after it.

    def run(self) -> Run:
        self._runs += 1
        run = Run(self.data, self.logs, f"run-{self._runs}")
        run.launch()
        wait_for(lambda: not run.running or "Begins on" in run.log, timeout_s=BEGUN_S, what="the run has begun")
        return run

    def _ended(self, run: Run) -> None:
        run.end()
        self.age()

    # The database

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(self.data / DATABASE, 30)) as database:
            return database.execute(query).fetchall()
        return []

    def _written_to(self) -> bool:
        """Whether someone stays in a transaction that writes; whoever runs has a second to end it."""
        with closing(sqlite3.connect(self.data / DATABASE, 1)) as database:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
        return False

    def age(self) -> None:
        """As if two minutes had passed without a sign of life of whoever had locked something."""
        past = (datetime.now(UTC) - timedelta(minutes=2)).replace(tzinfo=None).isoformat(" ")
        with closing(sqlite3.connect(self.data / DATABASE, 30)) as database, database:
            database.execute("UPDATE analytics_analyticsrun SET heartbeat_at = ? WHERE state = 'running'", (past,))
            database.execute("UPDATE analytics_partition SET locked_until = ? WHERE lock != ''", (past,))

    # The end

    def settle(self) -> None:
        """Everything has come, and runs go on until one finds nothing to do."""
        self.deliver(1.0)
        for _ in range(TRIES):
            if self.run().end().get("partitions_expected") == 0:
                break
        else:
            undone = self.ask("SELECT grain, start, state, error FROM analytics_partition WHERE state != 'done'")
            raise AssertionError(f"still not done: {undone}")
        left = self.left_over()
        assert not left, left

    def left_over(self) -> list[str]:
        """What should not be there any more: processes, and folders that nobody will use."""
        found = [processes.command(pid) for pid in processes.of_folder(self.data)]
        found += [str(path) for path in self.lake.glob("rollups/.work/*")]
        known = (".flush-request", ".crc")  # Spark keeps a checksum beside each file.
        found += [str(path) for path in self.lake.rglob(".*") if path.is_file() and not path.name.endswith(known)]
        own = [path for path in (self.data / "spark").glob("*") if int(path.name) in processes.parents()]
        return found + [str(path) for path in own]


def empty_database(file: Path) -> None:
    """A copy of the tests' own, in which nothing is."""
    assert connection.vendor == "sqlite"
    with connection.cursor() as cursor:
        cursor.execute("VACUUM INTO %s", [str(file)])


def of_database(file: Path, renamed: set[StreamPath]) -> list[str]:
    """All rollups, with all that they say. `renamed`: as below."""
    columns = [str(field.column) for field in Rollup._meta.concrete_fields if not field.primary_key]
    with closing(sqlite3.connect(file)) as database:
        rows = database.execute(f"SELECT {', '.join(columns)} FROM analytics_rollup")  # noqa: S608
        return comparable((dict(zip(columns, row, strict=True)) for row in rows), renamed)


def of_lake(lake: Path, renamed: set[StreamPath]) -> dict[str, list[str]]:
    """All rows of each table of the rollups."""
    return {table: comparable(rows_of(lake, table), renamed) for table in (*tables.OF_HOURS, tables.DAY)}


def rows_of(lake: Path, table: str) -> Iterator[dict[str, Any]]:
    for file in tables.table_folder(lake, table).rglob("*.parquet"):
        yield from pq.ParquetFile(file).read().to_pylist()


def of_other_names(lake: Path, other: Path) -> set[StreamPath]:
    """Streams of which a session is of another broadcast there. A broadcast keeps the name that it was given first,
    which hangs on the order in which files came, and two that late ones join stay two.
    """
    names = ("app", "name", "start_us", "session", "broadcast_us")
    one, two = ({tuple(row[name] for name in names) for row in rows_of(each, SESSION_HOURS)} for each in (lake, other))
    return {(app, name) for app, name, *_ in one ^ two}


def comparable(rows: Iterable[dict[str, Any]], renamed: set[StreamPath]) -> list[str]:
    """The rows, in an order; of the broadcasts of a stream that is `renamed` what they come to together. A sketch is
    told by how many players it counts: in which order it has them hangs on the order in which events came.
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
            broadcasts.update({f"{where} {name}": row[name] for name in TOGETHER})
        else:
            found.append(repr({name: value for name, value in row.items() if name != "broadcast_us"}))
    return sorted(found) + sorted(map(repr, broadcasts.items()))


def clean_run(chaos: Chaos, database: Path) -> Path:
    """The data folder of an installation that has done the same lake in one run. `database`: an empty one."""
    data = chaos.logs / "clean"
    data.mkdir()
    shutil.copy(database, data / DATABASE)
    for table in ("samples", "events"):
        shutil.copytree(chaos.lake / table, data / "lake" / table)
    run = Run(data, chaos.logs, "clean")
    run.launch()
    ended = run.end()
    assert ended.get("state") == "done", run.log
    assert ended["partitions_done"] > 0
    return data


def endure(folder: Path, *, disk: str, times: int, streams: int, hours: int, files_per_hour: int) -> str:
    """Disturbs so many runs, and compares what is there in the end with what a clean run makes. What was done.

    `disk`: the size of the one that may run full.
    """
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(1 << 32))
    database, small, logs = folder / "empty.sqlite3", folder / "disk", folder / "logs"
    small.mkdir()
    logs.mkdir()
    empty_database(database)
    with small_disk(small, disk) as may_be_filled:
        chaos = Chaos(small, logs, seed, streams=streams, hours=hours, files_per_hour=files_per_hour)
        try:
            _endure(chaos, database, KINDS + (FULL if may_be_filled else ()), times)
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}, after {dict(chaos.did)}: {fault}") from fault
    return f"seed {seed}: {dict(chaos.did)}"


def _endure(chaos: Chaos, database: Path, kinds: tuple[str, ...], times: int) -> None:
    shutil.copy(database, chaos.data / DATABASE)
    chaos.deliver(0.4)
    tried = 0
    while sum(chaos.did[kind] for kind in kinds) < times:
        tried += 1
        assert tried <= 3 * times + 3, f"hardly any run was caught: {chaos.did}"
        chaos.disturb(kinds)
    chaos.settle()
    clean = clean_run(chaos, database)
    renamed = of_other_names(chaos.lake, clean / "lake")
    assert of_lake(chaos.lake, renamed) == of_lake(clean / "lake", renamed)
    assert of_database(chaos.data / DATABASE, renamed) == of_database(clean / DATABASE, renamed)
