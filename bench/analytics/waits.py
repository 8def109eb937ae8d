"""How long somebody waits for history: a small lake's first figures, one that is at once, an hour that has just ended,
one late row. DuckDB beside, over the same files. To be imported once Django is set up.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from shutil import rmtree
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from django.core.management import call_command

from analytics import runner
from analytics.models import Partition
from analytics.synthetic import World, generate
from bench.analytics import duck
from bench.analytics.history import CORES, DAY, Findings, Kind, Took, noted, perform, timed
from ingest.telemetry.lake import hour_folder

ROOT = Path(__file__).parents[2]
ALWAYS = World(always_on=1)

SMALL_S = 10.0
"""The bounds, in seconds: all history of a lake of one hour and stream, in a new process,"""
WARM_S = 3.0
"""in a worker that has Spark,"""
NOTHING_S = 2.0
"""a new process that finds nothing to do,"""
JUST_ENDED_S = 5.0
"""and an hour of 1,000 streams five minutes after its end, whose earlier files were read before."""
AFFECTED = 3
"""What a late row may have computed again: its hour, its day, and the next hour."""

LONG_H = 100
"""Of the broadcast that a late row is of."""
LAST_MINUTES = 10
"""Of the hour that has just ended: not read before."""


def measure(options: argparse.Namespace, folder: Path) -> int:
    findings = Findings()
    print("| what | figure |\n|---|---|")
    call_command("migrate", verbosity=0)
    small(folder / "small", folder, options.rounds, findings)
    just_ended(folder / "ended", folder, options.rounds, options.streams, findings)
    late_row(folder / "long", findings)
    runner.stop()
    return 1 if findings.failed else 0


def small(lake: Path, folder: Path, rounds: int, findings: Findings) -> None:
    made = generate(lake, streams=1, start=DAY, hours=1, world=ALWAYS)
    findings.add("samples of one stream and hour", f"{made.samples:,}")

    def command() -> None:
        words = (sys.executable, "manage.py", "analytics", "run", "all", "--json")
        subprocess.run(words, cwd=ROOT, env=os.environ | {"RTMPWEB_LAKE": str(lake)}, check=True, capture_output=True)

    forget(lake)
    command()  # It makes the archive of Java's classes.
    seconds(findings, "a new process", rounds, command, SMALL_S, before=lambda: forget(lake))
    seconds(findings, "a new process that finds nothing to do", rounds, command, NOTHING_S)
    forget(lake)
    perform(lake, Kind.ALL)
    what = "the same with a Spark that is warm"
    seconds(findings, what, rounds, lambda: perform(lake, Kind.ALL), WARM_S, before=lambda: forget(lake))
    beside(findings, lake, folder, rounds)


def just_ended(lake: Path, folder: Path, rounds: int, streams: int, findings: Findings) -> None:
    """`rounds` after one to warm up."""
    made = generate(lake, streams=streams, start=DAY, hours=1, files_per_hour=60, world=ALWAYS)
    files = sorted((lake / "samples").rglob("*.parquet"))
    begin_us = int((DAY + timedelta(minutes=60 - LAST_MINUTES)).timestamp()) * 1_000_000
    last = [file for file in files if pc.min(pq.ParquetFile(file).read(["at_us"])["at_us"]).as_py() >= begin_us]
    away = folder / "away"
    away.mkdir()

    def before() -> None:
        """All but the last files are read, as by a run within the hour."""
        forget(lake)
        for file in last:
            file.rename(away / file.name)
        perform(lake, Kind.ALL)
        for file in last:
            (away / file.name).rename(file)

    before()
    perform(lake, Kind.ALL)
    what = f"an hour of {streams:,} streams ({made.samples:,} samples) that has just ended"
    seconds(findings, what, rounds, lambda: perform(lake, Kind.ALL), JUST_ENDED_S, before=before)
    beside(findings, lake, folder, rounds)


def late_row(lake: Path, findings: Findings) -> None:
    generate(lake, streams=1, start=DAY, hours=LONG_H, world=ALWAYS)
    first = min(hour_folder(lake, "samples", DAY).glob("*.parquet"))
    rows = pq.ParquetFile(first).read()
    middle = rows.num_rows // 2
    pq.write_table(pa.concat_tables([rows.slice(0, middle), rows.slice(middle + 1)]), first)
    forget(lake)
    perform(lake, Kind.ALL)
    before = dict(Partition.objects.values_list("pk", "processed_at"))
    pq.write_table(rows.slice(middle, 1), first.with_name(f"late-{first.name}"))
    took = perform(lake, Kind.ALL)
    again = sum(before[pk] != at for pk, at in Partition.objects.values_list("pk", "processed_at"))
    shown = f"{took}; {again} hours and days computed again, at most {AFFECTED}"
    findings.add(f"a late row at the begin of a broadcast of {LONG_H} hours", shown, over=again > AFFECTED)


def forget(lake: Path) -> None:
    """All that was computed of the lake."""
    rmtree(lake / "rollups", ignore_errors=True)
    call_command("flush", interactive=False, verbosity=0)


def seconds(
    findings: Findings, what: str, rounds: int, run: Callable[[], Any], most: float, before: Callable[[], Any] = int
) -> None:
    took: list[Took] = []
    for _ in range(rounds):
        before()
        with timed() as times:
            run()
        took += times
    found = median(each.seconds for each in took)
    findings.add(what, f"{noted(took)}{found:.1f} s, at most {most:g}", over=found > most)


def beside(findings: Findings, lake: Path, folder: Path, rounds: int) -> None:
    """DuckDB, warm, over the lake's samples."""
    if lacking := duck.missing():
        print(f"Not compared: {lacking}", file=sys.stderr)
        return
    files = sorted((lake / "samples").rglob("*.parquet"))
    took: list[Took] = []
    with closing(duck.Duck(CORES, folder)) as rival:
        for _ in range(rounds + 1):
            with timed() as times:
                rival.whole(files)
            took += times
    findings.add("DuckDB, the same files", f"{noted(took)}{median(each.seconds for each in took[1:]):.1f} s")
