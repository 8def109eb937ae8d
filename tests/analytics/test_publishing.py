"""What a run has computed gets into the lake whole, while its lock is held, and what it leaves behind goes."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from analytics import ledger, loading, locks, tables
from analytics.locks import Lock, LockLost
from analytics.models import Grain, Partition
from analytics.tables import figures_file

pytestmark = pytest.mark.django_db

HOUR = datetime(2026, 3, 29, 12, tzinfo=UTC)


@pytest.fixture
def lock() -> Lock:
    return take()


def take() -> Lock:
    ledger.note_pending(Grain.HOUR, [HOUR])
    return locks.take(None, Grain.HOUR, [HOUR])


def write(root: Path, word: str) -> None:
    for table in tables.OF_HOURS:
        file = figures_file(root, table, HOUR)
        file.parent.mkdir(parents=True)
        file.write_text(word)


def files(lake: Path) -> dict[str, str]:
    found = (path for path in lake.rglob("*") if path.is_file())
    return {path.relative_to(lake / "rollups").as_posix(): path.read_text() for path in found}


def of(word: str) -> dict[str, str]:
    return {f"{table}/v=3/dt=2026-03-29/hr=12/figures.parquet": word for table in tables.OF_HOURS}


def publish(lake: Path, lock: Lock, word: str) -> None:
    with loading.work_folder(lake, lock) as out:
        write(out, word)
        loading.publish(lake, out, lock, HOUR)


@pytest.mark.both_forms
def test_what_is_new_replaces_what_was_there(lake: Path, lock: Lock) -> None:
    publish(lake, lock, "first")
    publish(lake, lock, "second")
    assert files(lake) == of("second")


def test_a_reader_finds_a_whole_hour_between_any_two_steps(
    lake: Path, lock: Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def look() -> None:
        seen.extend(figures_file(lake, table, HOUR).read_text() for table in tables.OF_HOURS)

    def watched(step: Callable[..., object]) -> Callable[..., object]:
        def taken(*paths: Any, **options: Any) -> object:
            look()
            done = step(*paths, **options)
            look()
            return done

        return taken

    publish(lake, lock, "first")
    with monkeypatch.context() as patch:
        for name in ("rename", "replace", "unlink"):
            patch.setattr(os, name, watched(getattr(os, name)))
        publish(lake, lock, "second")
    assert set(seen) == {"first", "second"}


@pytest.mark.both_forms
def test_an_hour_of_which_nothing_was_written_has_no_rows_any_more(lake: Path, lock: Lock) -> None:
    publish(lake, lock, "first")
    with loading.work_folder(lake, lock) as out:
        loading.publish(lake, out, lock, HOUR)
    assert files(lake) == {}


@pytest.mark.both_forms
def test_who_lost_its_lock_changes_nothing(lake: Path, lock: Lock) -> None:
    Partition.objects.update(locked_until=timezone.now() - timedelta(seconds=1))
    publish(lake, take(), "newer")
    with pytest.raises(LockLost):
        publish(lake, lock, "stale")
    assert files(lake) == of("newer")


def test_folders_of_killed_runs_are_removed_and_of_others_kept(lake: Path, lock: Lock) -> None:
    left = lake / "rollups" / ".work" / "killed"
    left.mkdir(parents=True)
    (left / "part.parquet").write_text("part")
    with loading.work_folder(lake, lock) as out:
        loading.clear(lake)
        assert out.exists()
        assert not left.exists()
        Partition.objects.update(locked_until=timezone.now() - timedelta(seconds=1))
        loading.clear(lake)
        assert not out.exists()
