"""What docs/operations/sizing.md begins with: bytes, rows and CPU of an hour's history, for each stream. To be imported
once Django is set up.
"""

import argparse
from collections import defaultdict
from pathlib import Path
from shutil import rmtree

import pyarrow.parquet as pq
from django.core.management import call_command

from analytics import runner, tables
from analytics.jobs.computing import compute_hours, update_partials
from analytics.lake.maintenance import compact_closed
from analytics.loading import load
from analytics.models import Dimension, Grain, Rollup
from analytics.synthetic import World, generate
from bench.analytics.history import (
    DAY,
    HOURS,
    Findings,
    Kind,
    database_bytes,
    hours_from,
    hours_of,
    perform,
    size,
    timed,
)
from ingest.telemetry.lake import table_folder

OF_STREAMS = (Dimension.STREAM, Dimension.KEY, Dimension.BROADCAST)
"""Whose rows grow with the streams."""

AS_WRITTEN = 60
"""Files of a node's hour."""


def measure(options: argparse.Namespace, folder: Path) -> int:
    findings, lake, streams = Findings(), folder / "lake", options.streams
    print("| what | figure |\n|---|---|")
    made = generate(lake, streams=streams, start=DAY, hours=HOURS, files_per_hour=AS_WRITTEN, world=World(always_on=1))
    of = streams * HOURS
    samples, events = (table_folder(lake, table) for table in ("samples", "events"))
    findings.add("samples", f"{made.samples:,}")
    findings.add("bytes a sample, as nodes write them", f"{size(samples) / made.samples:.1f}")
    counted = sum(pq.read_metadata(file).num_rows for file in events.rglob("*.parquet"))
    findings.add("events an hour and stream", f"{counted / of:.0f}, {size(events) / max(1, counted):.0f} bytes each")
    call_command("migrate", verbosity=0)
    _computed(lake, made.samples, findings)
    for what, found in sorted(_by_table(lake).items()):
        findings.add(f"bytes of {what} an hour and stream", f"{found / of:,.0f}")
    _loaded(lake, of, findings)
    perform(lake, Kind.ALL)
    compact_closed(lake, hours_from(HOURS * 24))
    findings.add("bytes a sample, compacted", f"{size(samples) / made.samples:.1f}")
    runner.stop()
    return 0


def _computed(lake: Path, samples: int, findings: Findings) -> None:
    """The hours, into their places; the second time, when all is compiled."""
    inputs = hours_of(lake, HOURS)
    with runner.spark() as session:
        for is_warm in (False, True):
            rmtree(tables.table_folder(lake, tables.PARTIALS), ignore_errors=True)
            with timed() as scanning:
                update_partials(session, lake, inputs)
            with timed() as merging:
                compute_hours(session, lake, inputs, lake)
            if is_warm:
                for what, took in (("scanning", scanning[0]), ("merging", merging[0])):
                    rate = took.cpu_s / samples * 1e6
                    findings.add(f"CPU of {what} a million samples", f"{rate:.2f} s; {took}")


def _by_table(lake: Path) -> dict[str, int]:
    """Bytes of each of the rollups' tables, of partials by their files."""
    found: dict[str, int] = defaultdict(int)
    for table in (tables.PARTIALS, *tables.OF_HOURS):
        for file in tables.table_folder(lake, table).rglob("*.parquet"):
            found[f"partials: {file.stem}" if table == tables.PARTIALS else table] += file.stat().st_size
    return found


def _loaded(lake: Path, of: int, findings: Findings) -> None:
    before = database_bytes()
    with timed() as times:
        for number in range(HOURS):
            load(lake, Grain.HOUR, hours_from(number), lambda: True)
    rows = Rollup.objects.count()
    of_streams = Rollup.objects.filter(dimension__in=OF_STREAMS).count()
    findings.add("rows an hour and stream", f"{of_streams / of:.2f}, and {(rows - of_streams) / HOURS:.0f} an hour")
    findings.add("CPU of loading a row", f"{times[0].cpu_s / rows * 1000:.2f} ms; {times[0]}")
    findings.add("bytes of the database a row", f"{(database_bytes() - before) / rows:,.0f}")
