"""Brings what a run has computed into the lake, where it replaces what was there: while the partition's lock is held.

Spark writes into a folder of the run's own below `rollups/.work`, which readers pass over. Renaming is quick enough to
be done inside the transaction that makes sure of the lock, so that a run which stood still for minutes, and whose work
another has done since, can't put its older result in place of that. What a killed run leaves is removed by a later one.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from django.db import transaction
from django.utils import timezone

from analytics import tables
from analytics.locks import Lock
from analytics.models import Grain, Partition
from analytics.tables import figures_file
from ingest.fsync import sync

TABLES = {Grain.HOUR: tables.OF_HOURS, Grain.DAY: (tables.DAY,)}
"""What is computed of an hour and of a day."""


@contextmanager
def work_folder(lake: Path, lock: Lock) -> Iterator[Path]:
    """An empty folder to compute into."""
    folder = _work(lake) / lock.token
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(lake: Path, out: Path, lock: Lock, start: datetime) -> None:
    """Puts an hour or a day that was computed below `out` into the lake. Raises LockLost, and OSError.

    Each table's one file takes the place of the former one at a stroke: a reader finds this or that, never none.
    """
    files = [(figures_file(out, table, start), figures_file(lake, table, start)) for table in TABLES[lock.grain]]
    for new, old in files:
        if new.exists():
            sync(new)  # What the ledger calls done survives a loss of power.
            old.parent.mkdir(parents=True, exist_ok=True)
    with transaction.atomic():
        lock.require(start)
        for new, old in files:
            if new.exists():
                new.replace(old)
            else:  # Nothing was written: it has no rows.
                old.unlink(missing_ok=True)
    for _, old in files:  # Others write to the database meanwhile: a disk may take seconds over it.
        if old.exists():
            sync(old.parent)


def clear(lake: Path) -> None:
    """Removes what runs have left that were killed: the folders of locks that nobody holds."""
    for folder in _work(lake).glob("*"):
        if not Partition.objects.filter(lock=folder.name, locked_until__gte=timezone.now()).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _work(lake: Path) -> Path:
    return lake / "rollups" / ".work"
