"""Whether the lake, the ledger, the rollups' Parquet and the database say the same, and where they do not.

The sums are added up again from the samples, with Arrow alone: none of what made the rollups is asked. What is not
computed yet, or is being computed, is told apart from what is wrong.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analytics import completeness, ledger
from analytics.metrics import MEASURED
from analytics.models import METRIC_VERSION, Dimension, Grain, Partition, Rollup, within
from analytics.rollups import Rollups, hours_in_lake, united_sketches
from analytics.tables import figures_file
from ingest.telemetry.lake import SAMPLES, fitting

State = Partition.State

SUMMED = tuple(metric.name for metric in MEASURED if not metric.over)
"""Columns of samples whose sums rollups have under the same name."""

COMPARED = ("samples", *SUMMED, "live_ms", "good_ms", "warning_ms", "bad_ms", "player_ms", "viewer_ms")
READ = ("session", "sequence", "app", "name", "players", "viewers", "health", *SUMMED)

Sums = dict[str, dict[str, int]]
"""{a stream's path: {a figure: its sum}}."""


@dataclass(slots=True)
class Findings:
    """`undone`: hours of the lake, and days, that are yet to be computed, which is no fault. `incomplete`: hours
    that lack something, the oldest first, which is none of what is compared.
    """

    hours: int = 0
    days: int = 0
    samples: int = 0
    undone: int = 0
    differences: list[str] = field(default_factory=list)
    incomplete: list[Partition] = field(default_factory=list)

    def add(self, grain: Grain, start: datetime, differences: Iterable[str]) -> None:
        self.differences += (f"{grain} {start:%Y-%m-%d %H:%M}: {text}" for text in differences)


def check(lake: Path, since: datetime | None = None, until: datetime | None = None) -> Findings:
    """Checks every hour that the lake holds, and at every day that is done. Raises OSError, ArrowException."""
    findings = Findings()
    pending = {hour.start for hour in ledger.Hours(lake, since, until).pending()}
    for start, hour in ledger.scan(lake, since, until).items():
        if start in pending:
            findings.undone += 1
            continue
        sums = _of_samples([lake / path for path, _, _ in hour.files if path.startswith(SAMPLES.name)])
        findings.hours += 1
        findings.samples += sum(row["samples"] for row in sums.values())
        wrong = [*_compare(sums, _of_parquet(lake, Grain.HOUR, start), "the rollups' Parquet")]
        if not hours_in_lake(Dimension.STREAM, start, start + ledger.HOUR).exists():
            wrong += _compare(sums, _of_rollups(Grain.HOUR, start, start + ledger.HOUR), "the database")
        findings.add(Grain.HOUR, start, [*wrong, *_dimensions(Grain.HOUR, start)])
    days = ledger.Days(since, until)
    pending = {day.start for day in days.pending()}
    findings.undone += len(pending)
    done = Partition.objects.filter(grain=Grain.DAY, state=State.DONE, metric_version=METRIC_VERSION)
    done = done.filter(within(since and ledger.day_of(since), until)).exclude(start__in=pending)
    for day in done.order_by("start").values_list("start", flat=True):
        if not Partition.objects.filter(within(day, day + ledger.DAY), grain=Grain.HOUR).exists():
            continue  # Its hours have gone, as old.
        findings.days += 1
        sums = _of_rollups(Grain.HOUR, day, day + ledger.DAY)
        wrong = [
            *_compare(sums, _of_rollups(Grain.DAY, day, day + ledger.DAY), "the day's row"),
            *_compare(sums, _of_parquet(lake, Grain.DAY, day), "the day's Parquet"),
        ]
        findings.add(Grain.DAY, day, [*wrong, *_players(day), *_dimensions(Grain.DAY, day)])
    findings.incomplete = list(completeness.hours(since, until).order_by("start"))
    return findings


def _of_samples(files: Sequence[Path]) -> Sums:
    """An hour's sums, of each sample once."""
    if not files:
        return {}
    wanted = pa.schema([SAMPLES.schema.field(name) for name in READ])
    rows = pa.concat_tables(
        fitting(pq.read_table(file, columns=list(READ), partitioning=None), wanted) for file in files
    )
    by = rows.append_column("row", pa.array(range(rows.num_rows))).group_by(["session", "sequence"], use_threads=False)
    once = rows.take(by.aggregate([("row", "min")])["row_min"])
    arrived = pc.greater(pc.add(once["video_bytes"], once["audio_bytes"]), 0)
    time = once["elapsed_ms"]
    derived = {
        "samples": pa.array([1] * once.num_rows, pa.int64()),
        "path": pc.binary_join_element_wise(once["app"], once["name"], "/"),
        "live_ms": pc.if_else(arrived, time, 0),
        "player_ms": pc.multiply(once["players"], time),
        "viewer_ms": pc.multiply(once["viewers"], time),
        **{f"{word}_ms": pc.if_else(pc.equal(once["health"], word), time, 0) for word in ("good", "warning", "bad")},
    }
    columns = {**{name: once[name] for name in SUMMED}, **derived}
    summed = pa.table(columns).group_by("path", use_threads=False).aggregate([(name, "sum") for name in COMPARED])
    return {row["path"]: {name: row[f"{name}_sum"] for name in COMPARED} for row in summed.to_pylist()}


def _of_rollups(grain: Grain, since: datetime, until: datetime) -> Sums:
    rows = Rollups(Dimension.STREAM, grain, since, until)
    return {value: _figures(sums) for (value,), sums in rows.sums("value").items()}


def _players(day: datetime) -> Iterator[str]:
    """Of whose players the day's row has not as many as its hours have together."""
    sketches: dict[str, list[bytes]] = defaultdict(list)
    hours = Rollups(Dimension.STREAM, Grain.HOUR, day, day + ledger.DAY)
    for row in hours.values("start", "value", "unique_players", "players_sketch"):
        if row["unique_players"]:
            sketches[row["value"]].append(bytes(row["players_sketch"] or b""))
    rows = Rollup.objects.filter(grain=Grain.DAY, start=day, dimension=Dimension.STREAM)
    found = dict(rows.values_list("value", "unique_players"))
    for path in sorted(found.keys() | sketches.keys()):
        if not all(sketches.get(path, [])):
            continue  # An earlier version left none.
        want, got = united_sketches(sketches.get(path, [])), found.get(path) or 0
        if want != got:
            yield f"{path} in the day's row: unique_players {got:,} instead of {want:,}"


def _of_parquet(lake: Path, grain: Grain, start: datetime) -> Sums:
    file = figures_file(lake, grain, start)
    if not file.exists():
        return {}
    of_streams = pc.field("dimension") == str(Dimension.STREAM)
    rows = pq.read_table(file, columns=["value", *COMPARED], filters=of_streams, partitioning=None).to_pylist()
    return {row["value"]: _figures(row) for row in rows}


def _figures(row: Mapping[str, Any]) -> dict[str, int]:
    return {name: row[name] for name in COMPARED}


def _compare(wanted: Sums, found: Sums, where: str) -> Iterator[str]:
    """What differs, in words. Streams without samples (only events) have no say."""
    for path in sorted(wanted.keys() | {path for path, row in found.items() if row["samples"]}):
        want, got = wanted.get(path), found.get(path)
        if want is None:
            yield f"{path} has no samples in the lake, but is in {where}"
        elif got is None:
            if want["samples"]:
                yield f"{path} is missing in {where}"
        else:
            wrong = [f"{name} {got[name]:,} instead of {want[name]:,}" for name in COMPARED if want[name] != got[name]]
            if wrong:
                yield f"{path} in {where}: {', '.join(wrong)}"


def _dimensions(grain: Grain, start: datetime) -> Iterator[str]:
    """Every way of adding it up comes to the same."""
    until = start + (ledger.HOUR if grain == Grain.HOUR else ledger.DAY)
    totals = {each: _figures(Rollups(each, grain, start, until).sums()[()]) for each in Dimension}
    streams = totals[Dimension.STREAM]
    for dimension in Dimension if streams["samples"] is not None else ():
        if totals[dimension] != streams:
            yield f"the rows by {dimension} do not add up to those by stream"
