"""The measurements of `bench analytics`. To be imported once Django is set up."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import rmtree
from statistics import median

from django.core.management import call_command
from django.db import connection

from analytics import ledger, pipeline, runner, services, tables
from analytics.jobs.computing import compute_hours
from analytics.ledger import DAY_RESTS, HOUR
from analytics.models import AnalyticsRun, Rollup
from analytics.schemas import HourInput
from analytics.synthetic import Generated, World, generate
from bench.analytics import duck, jvm
from bench.process import machine_cpu_s, usage
from bench.table import CALM_CORES

Kind = AnalyticsRun.Kind

DAY = datetime(2026, 3, 2, tzinfo=UTC)
HOURS = 3
"""Of the comparison: 10.8 million samples of 1000 streams."""
OF_A_DAY = 24
CORES = 2

SLOWER = 1.0
"""The bounds: of Spark's time to DuckDB's,"""
TEN_MILLION_S = 13.0
"""of ten million samples' at once,"""
UNEVEN = 1.25
"""of a sample's time in a whole day to one in a few hours,"""
NEW_HOUR_S = 5.0
"""of one new hour's,"""
EMPTY_S = 2.0
"""and of a run that finds nothing to do."""


@dataclass(frozen=True, slots=True)
class Took:
    """Of one run: seconds of wall time, of CPU, and the cores that others used meanwhile."""

    seconds: float
    cpu_s: float
    others: float

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s, {self.cpu_s:.1f} s of CPU, {self.others:.1f} cores of others"


class Findings:
    """Prints each, and remembers those that are over their bound."""

    def __init__(self) -> None:
        self.failed = False

    def add(self, what: str, value: str, *, over: bool = False) -> None:
        self.failed |= over
        print(f"| {what} | {value} |{' over its bound' if over else ''}", flush=True)


def measure(options: argparse.Namespace, folder: Path) -> int:
    """The exit code: 1 if a bound is not kept."""
    findings = Findings()
    lake = folder / "lake"

    def fill(streams: int, first: int, hours: int) -> Generated:
        start, files = hours_from(first), options.files
        return generate(lake, streams=streams, start=start, hours=hours, files_per_hour=files, world=World(always_on=1))

    print("| what | figure |\n|---|---|")
    with timed() as making:
        few = fill(options.streams, 0, HOURS)
    findings.add("samples", f"{few.samples:,}")
    findings.add(
        "making them up", f"{making[0].seconds:.0f} s, {making[0].cpu_s / few.samples * 1e6:.1f} us of CPU each"
    )
    findings.add("bytes a sample in the lake", f"{size(lake / 'samples') / few.samples:.1f}")
    took_s = compare(lake, folder, options.rounds, few.samples, findings)
    streams = options.streams
    if options.full:
        rest = fill(streams, HOURS, OF_A_DAY - HOURS)
        linear(lake, folder, few.samples + rest.samples, took_s / few.samples, findings)
    else:  # A day of fewer streams.
        rmtree(lake)
        streams = max(1, streams // 10)
        fill(streams, 0, OF_A_DAY)
    whole_day(lake, streams, findings)
    fill(streams, OF_A_DAY, 1)
    new_hour(lake, findings)
    memory(findings)
    runner.stop()
    return 1 if findings.failed else 0


def compare(lake: Path, folder: Path, rounds: int, samples: int, findings: Findings) -> float:
    """Spark and DuckDB in turns, or Spark alone where DuckDB is not there; seconds of Spark's median round."""
    inputs = hours_of(lake, HOURS)
    contestants: dict[str, Callable[[], object]] = {
        "Spark, partials and hours with histograms": lambda: spark(lake, inputs, folder / "out")
    }
    if lacking := duck.missing():
        print(f"Not compared: {lacking}", file=sys.stderr)
        [ours] = turns(contestants, rounds, samples, findings)
    else:
        files = [lake / path for hour in inputs for path, _, _ in hour.files if path.startswith("samples/")]
        with closing(duck.Duck(CORES, folder)) as rival:
            contestants["DuckDB, the same exactly"] = lambda: rival.whole(files)
            contestants["DuckDB, by stream alone, copies not looked for"] = lambda: rival.streams_alone(files)
            ours, theirs, least = turns(contestants, rounds, samples, findings)
            agree(rival, folder / "out", folder / "hours.parquet")
        found = ratio(ours, theirs, "seconds")
        shown = f"{noted(ours + theirs)}{found:.2f}, at most {SLOWER:g}"
        findings.add("Spark to DuckDB, time", shown, over=found > SLOWER)
        findings.add("Spark to DuckDB, CPU", f"{ratio(ours, theirs, 'cpu_s'):.2f}")
        shown = f"{noted(ours + least)}{ratio(ours, least, 'seconds'):.2f}"
        findings.add("Spark to DuckDB by stream alone, time", shown)
    took_s = median(one.seconds for one in ours)
    ten_million_s = took_s / samples * 1e7
    shown = f"{ten_million_s:.1f} s, at most {TEN_MILLION_S:g}"
    findings.add("ten million samples", shown, over=ten_million_s > TEN_MILLION_S)
    return took_s


def turns(
    contestants: dict[str, Callable[[], object]], rounds: int, samples: int, findings: Findings
) -> list[list[Took]]:
    """The rounds of each contestant."""
    took: dict[str, list[Took]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, run in contestants.items():
            with timed() as times:
                run()
            print(f"[{number}/{rounds}] {name}: {times[0]}", file=sys.stderr, flush=True)
            if number:  # The first only warms up.
                took[name] += times
    for name, rounds_of in took.items():
        seconds, cpu_s = (median(getattr(one, figure) for one in rounds_of) for figure in ("seconds", "cpu_s"))
        rate = samples / seconds / 1e6
        findings.add(name, f"{seconds:.1f} s, {cpu_s:.1f} s of CPU, {rate:.2f} million samples a second")
    return list(took.values())


def linear(lake: Path, folder: Path, samples: int, before_s: float, findings: Findings) -> None:
    """`before_s`: seconds a sample, of fewer."""
    with timed() as times:
        spark(lake, hours_of(lake, OF_A_DAY), folder / "out")
    grown = times[0].seconds / samples / before_s
    findings.add("a day's samples", f"{samples:,}")
    findings.add("Spark, a day at once", str(times[0]))
    findings.add("a sample's time, to that above", f"{grown:.2f}, at most {UNEVEN}", over=grown > UNEVEN)


def whole_day(lake: Path, streams: int, findings: Findings) -> None:
    """Whole runs, with ledger and database: over a day, and once nothing is new."""
    call_command("migrate", verbosity=0)
    rmtree(lake / "rollups", ignore_errors=True)  # What was made of it at once.
    hours, merged = perform(lake, Kind.HOURLY), perform(lake, Kind.DAILY)
    rows = Rollup.objects.count()
    findings.add(f"a run over the hours of a day of {streams} streams", str(hours))
    findings.add(f"one that merges the day, at most each {DAY_RESTS / HOUR:.0f} hours", f"{merged}; {rows:,} rows")
    findings.add("bytes of the figures in the lake", f"{size(lake / 'rollups'):,}")
    findings.add("bytes of the database", f"{database_bytes():,}")
    empty = perform(lake, Kind.ALL)
    findings.add("a run without news", f"{empty.seconds:.2f} s, at most {EMPTY_S:g}", over=empty.seconds > EMPTY_S)


def new_hour(lake: Path, findings: Findings) -> None:
    hour = perform(lake, Kind.HOURLY)
    findings.add("a run over one new hour", f"{hour}; at most {NEW_HOUR_S:g} s", over=hour.seconds > NEW_HOUR_S)


def memory(findings: Findings) -> None:
    with runner.spark() as session:
        used, most = jvm.heap_mb(session)
    findings.add("Java's heap, the most used, garbage included", f"{used:.0f} MB of {most:.0f}")
    findings.add("Java's memory, the most resident", f"{jvm.peak_rss_mb():.0f} MB")


def spark(lake: Path, hours: list[HourInput], out: Path) -> None:
    """All of it: what an earlier round made of the samples is not taken up."""
    for folder in (out, tables.table_folder(lake, tables.PARTIALS)):
        rmtree(folder, ignore_errors=True)
    with runner.spark() as session:
        compute_hours(session, lake, hours, out)


def perform(lake: Path, kind: str) -> Took:
    """A run of what is new of its kind. Raises RuntimeError when it failed."""
    run = services.create_run(trigger=AnalyticsRun.Trigger.COMMAND, kind=kind)
    claimed = services.claim(run_id=run.pk)
    assert claimed is not None
    with timed() as times:
        pipeline.perform(claimed, lake=lake)
    run.refresh_from_db()
    if run.error:
        raise RuntimeError(run.error)
    return times[0]


def agree(rival: duck.Duck, ours: Path, theirs: Path) -> None:
    """Raises AssertionError unless both have found the same: every sum of every dimension, and as many rows."""
    hours = f"{tables.table_folder(ours, tables.HOUR)}/*/*/*.parquet"
    assert rival.sums(hours) == rival.sums(str(theirs)), "Spark and DuckDB have not computed the same."


def hours_of(lake: Path, count: int) -> list[HourInput]:
    found = (ledger.find_hour(lake, hours_from(number)) for number in range(count))
    return [hour for hour in found if hour]


def hours_from(number: int) -> datetime:
    return DAY + timedelta(hours=number)


def size(folder: Path) -> int:
    """Bytes of the Parquet files below it."""
    return sum(file.stat().st_size for file in folder.rglob("*.parquet"))


def database_bytes() -> int:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return sum(file.stat().st_size for file in Path(os.environ["RTMPWEB_DATA_DIR"]).glob("*.sqlite3*"))


@contextmanager
def timed() -> Iterator[list[Took]]:
    """Has one Took at the end."""
    found: list[Took] = []
    machine_s, own_s, begin = machine_cpu_s(), usage(os.getpid()).cpu_s, time.perf_counter()
    yield found
    seconds, own_s = time.perf_counter() - begin, usage(os.getpid()).cpu_s - own_s
    found.append(Took(seconds, own_s, max(0.0, (machine_cpu_s() - machine_s - own_s) / seconds)))


def ratio(ours: list[Took], theirs: list[Took], figure: str) -> float:
    """The median of the rounds'; those in which others were at work are left out if there are better ones."""
    pairs = list(zip(ours, theirs, strict=True))
    calm = [pair for pair in pairs if max(one.others for one in pair) <= CALM_CORES]
    found: float = median(getattr(a, figure) / getattr(b, figure) for a, b in calm or pairs)
    return found


def noted(rounds: list[Took]) -> str:
    """A ~ where others were at work in every round."""
    return "" if min(one.others for one in rounds) <= CALM_CORES else "~"
