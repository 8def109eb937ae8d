"""Brings hours' partials up to date: what is new in the lake is read, once; see analytics.jobs.partials."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pyspark.sql import SparkSession

from analytics import tables
from analytics.jobs import partials, schemas
from analytics.jobs.arrow import spread
from analytics.jobs.minutes import NUMBERS, overlapping
from analytics.jobs.partials import Made, Task
from analytics.work import HourInput, LakeFile

TASK_BYTES = 16_000_000
"""How much of the lake one task reads: some 300,000 samples."""

FEW_BYTES = 8_000_000
"""What is no more than this is read by this process: Spark would take longer to start its Python workers."""


@dataclass(slots=True)
class Scanned:
    """An hour's partials. `rows`: of all its files; `read`: of those that were new; `damaged`: {path: why}."""

    folders: list[Path] = field(default_factory=list)
    rows: int = 0
    read: int = 0
    strays: int = 0
    damaged: dict[str, str] = field(default_factory=dict)


def scan(session: SparkSession, lake: Path, hours: Sequence[HourInput]) -> dict[datetime, Scanned]:
    """Makes the partials that are missing. Raises OSError of what can't be read or written."""
    found = {hour.start: Scanned() for hour in hours}
    folders = {str(_folder(lake, hour.start)): hour.start for hour in hours}
    tasks = [
        _task(lake, hour.start, files=files)
        for hour in hours
        for files in partials.portions(((file, file[1]) for file in _new(lake, hour)), TASK_BYTES)
    ]
    for made in _carried_out(session, tasks):
        scanned = found[folders[made["folder"]]]
        scanned.read += made["rows"]
        scanned.damaged |= made["damaged"]
    doubled = [_task(lake, hour.start, merge=merge) for hour in hours if (merge := _doubled(lake, hour.start))]
    for made in _carried_out(session, doubled):
        found[folders[made["folder"]]].damaged |= made["damaged"]
    for task in doubled:
        for name in task["merge"]:
            shutil.rmtree(Path(task["folder"]) / name)
    for hour in hours:
        scanned = found[hour.start]
        for folder, manifest in partials.there(_folder(lake, hour.start)).items():
            scanned.folders.append(folder)
            scanned.rows += manifest["rows"]
            scanned.strays += manifest["strays"]
    return found


def _folder(lake: Path, start: datetime) -> Path:
    return tables.partition_folder(lake, tables.PARTIALS, start)


def _new(lake: Path, hour: HourInput) -> list[LakeFile]:
    """The hour's files that no partial has; partials that don't count any more are removed."""
    left = set(hour.files)
    for folder, manifest in sorted(
        partials.there(_folder(lake, hour.start)).items(), key=lambda item: -len(item[1]["files"])
    ):
        files = {(path, size, changed) for path, size, changed in manifest["files"]}
        if files <= left:
            left -= files
        else:
            shutil.rmtree(folder)
    return [file for file in hour.files if file in left]


def _doubled(lake: Path, start: datetime) -> list[str]:
    """The names of an hour's partials, if some of them have the same samples: they become one that has each once."""
    folders = sorted(partials.there(_folder(lake, start)))
    if len(folders) < 2 or not overlapping(
        [partials.read_part(folder / "minutes.parquet", NUMBERS) for folder in folders]
    ):
        return []
    return [folder.name for folder in folders]


def _task(lake: Path, start: datetime, *, files: Sequence[LakeFile] = (), merge: Sequence[str] = ()) -> Task:
    hour_us = int(start.timestamp()) * 1_000_000
    folder = str(_folder(lake, start))
    return {"lake": str(lake), "folder": folder, "hour_us": hour_us, "files": list(files), "merge": list(merge)}


def _carried_out(session: SparkSession, tasks: Sequence[Task]) -> list[Made]:
    sizes = (size for task in tasks for _, size, _ in (*task["files"], *_merged(task)))
    told = spread(session, tasks, partials.told, {"made": schemas.TEXT}, here=sum(sizes) <= FEW_BYTES)
    return [json.loads(made) for made in told["made"].to_pylist()]


def _merged(task: Task) -> Iterator[LakeFile]:
    for name in task["merge"]:
        yield from partials.read_manifest(Path(task["folder"]) / name)["files"]
