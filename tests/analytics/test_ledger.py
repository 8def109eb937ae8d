"""What is to do, as the ledger sees it, and what a run brings to the lake while its lock is held. Without Spark."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from analytics import ledger, loading, locks, tables
from analytics.ledger import Days, Hours
from analytics.locks import LOCKED_FOR, Lock, LockLost
from analytics.models import METRIC_VERSION, Grain, Partition
from analytics.schemas import Computed
from analytics.tables import figures_file
from ingest.telemetry.lake import hour_folder
from tests.analytics.lakes import note_days_done, note_done

pytestmark = [pytest.mark.django_db, pytest.mark.stores]

DAY = datetime(2026, 3, 29, tzinfo=UTC)
HOUR = timedelta(hours=1)
State = Partition.State


def at(hour: int) -> datetime:
    return DAY + hour * HOUR


def put(lake: Path, hour: int, name: str = "node-1.parquet", size: int = 100, table: str = "samples") -> Path:
    """A file of an hour. What is in it is nothing to the ledger."""
    file = hour_folder(lake, table, at(hour)) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)
    return file


def do(lake: Path, *hours: int, tail: str = "") -> None:
    """As a run does them: the ledger's part of it."""
    for hour in hours:
        note_done(lake, at(hour), tail)


def to_do(lake: Path, now: datetime | None = None) -> list[int]:
    return [int((hour.start - DAY) / HOUR) for hour in Hours(lake).pending(now)]


def row(hour: int) -> Partition:
    return Partition.objects.get(grain=Grain.HOUR, start=at(hour))


def test_an_hour_is_to_do_until_it_is_done_and_again_when_its_files_change(lake: Path) -> None:
    put(lake, 3)
    put(lake, 4, table="events")
    assert to_do(lake) == [3, 4]
    do(lake, 3, 4)
    assert to_do(lake) == []
    put(lake, 3, "late.parquet")
    assert to_do(lake) == [3]
    do(lake, 3)
    put(lake, 4, size=101, table="events")
    assert to_do(lake) == [4]
    do(lake, 4)
    Partition.objects.update(metric_version=METRIC_VERSION - 1)
    assert to_do(lake) == [3, 4], "another metric version means everything anew"


@pytest.mark.parametrize("name", [".node-1.parquet.tmp", "_hidden.parquet", ".hidden.parquet", "notes.txt"])
def test_file_that_spark_ignores_makes_no_hour_pending(lake: Path, name: str) -> None:
    put(lake, 3, name)
    assert to_do(lake) == []


def test_the_same_file_among_samples_and_events_is_not_the_same(lake: Path) -> None:
    put(lake, 3)
    do(lake, 3)
    put(lake, 3).unlink()
    put(lake, 3, table="events")
    assert to_do(lake) == [3]


def test_another_tail_makes_the_next_hour_to_do_and_no_other(lake: Path) -> None:
    for hour in (3, 4, 5, 7):
        put(lake, hour)
    do(lake, 3, 4, 5, 7)
    put(lake, 3, "late.parquet")
    do(lake, 3)
    assert to_do(lake) == [], "its tail is as it was"
    put(lake, 3, "later.parquet")
    do(lake, 3, tail="another")
    assert to_do(lake) == [4]
    assert row(4).state == State.PENDING, "whoever comes next finds it, even without a look at the lake"
    do(lake, 4)
    assert to_do(lake) == []


def test_a_range_takes_hours_from_its_beginning_up_to_its_end(lake: Path) -> None:
    for hour in (2, 3, 4):
        put(lake, hour)
    assert list(ledger.scan(lake, at(3), at(4))) == [at(3)]


def test_a_day_is_to_do_when_an_hour_of_it_was_done(lake: Path) -> None:
    put(lake, 3)
    assert Days().pending() == []
    do(lake, 3)
    assert Partition.objects.get(grain=Grain.DAY).state == State.PENDING
    assert [(day.start, day.file_count) for day in Days().pending()] == [(DAY, 1)]
    note_days_done()
    assert Days().pending() == []
    put(lake, 4)
    do(lake, 4)
    assert [day.file_count for day in Days().pending()] == [2]
    assert Days(since=at(24)).pending() == []
    assert len(Days(since=at(23), until=at(24)).pending()) == 1


def test_a_day_that_goes_on_rests_between_two_times_unless_somebody_asks_for_it(lake: Path) -> None:
    put(lake, 3)
    do(lake, 3)
    note_days_done()
    put(lake, 4)
    do(lake, 4)
    now = timezone.now()
    assert (len(Days().pending(now)), ledger.due(now)) == (1, 1), "one that is over does not rest"
    assert ledger.resting([DAY], now) == set()
    note_days_done()
    tomorrow = int((ledger.day_of(timezone.now()) + timedelta(days=1) - DAY) / HOUR)  # It goes on whenever this runs.
    put(lake, tomorrow)
    do(lake, tomorrow)
    assert len(Days().pending(timezone.now())) == 1, "the first time there is nothing to rest from"
    note_days_done()
    put(lake, tomorrow + 1)
    do(lake, tomorrow + 1)
    now = timezone.now()
    later = now + ledger.DAY_RESTS
    assert len(Days().pending()) == 1
    assert (Days().pending(now), ledger.due(now)) == ([], 0)
    assert (len(Days().pending(later)), ledger.due(later)) == (1, 1)
    assert ledger.resting([at(tomorrow)], now) == {at(tomorrow)}
    assert ledger.resting([at(tomorrow)], later) == set()


def test_day_computed_while_one_of_its_hours_was_redone_is_computed_again(lake: Path) -> None:
    put(lake, 3)
    put(lake, 4)
    do(lake, 3, 4)
    note_days_done()
    Partition.objects.filter(grain=Grain.HOUR, start=at(3)).update(state=State.PENDING)
    lost = locks.take(None, Grain.HOUR, [at(3)])  # It has moved the hour's files away, and is killed.
    put(lake, 4, "late.parquet")
    do(lake, 4)
    note_days_done()
    assert Days().pending() == [], "a day doesn't wait for an hour that may never be done"
    stand_still(lost)
    do(lake, 3)
    assert [day.start for day in Days().pending()] == [DAY]
    note_days_done()
    assert Days().pending() == []


def test_a_day_that_lost_hours_to_retention_keeps_what_older_metrics_made_of_it(lake: Path) -> None:
    put(lake, 3).unlink()
    put(lake, 4)
    Partition.objects.create(grain=Grain.HOUR, start=at(3), state=State.DONE, metric_version=METRIC_VERSION - 1)
    do(lake, 4)
    assert Days().pending() == []


def test_failed_hour_waits_longer_each_time_unless_asked_for_now(lake: Path) -> None:
    put(lake, 3)
    ledger.note_pending(Grain.HOUR, [at(3)])
    waits = []
    for _ in range(9):
        lock = locks.take(None, Grain.HOUR, [at(3)])
        before = timezone.now()
        retry_at = lock.failed(at(3), "It broke.")
        assert retry_at
        waits.append(round((retry_at - before) / timedelta(minutes=1)))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert (row(3).state, row(3).error, row(3).attempts, row(3).lock) == ("failed", "It broke.", 9, "")
    now = timezone.now()
    assert to_do(lake, now) == []
    assert ledger.due(now) == 0
    assert to_do(lake) == [3]
    assert to_do(lake, now + timedelta(minutes=61)) == [3]
    assert ledger.due(now + timedelta(minutes=61)) == 1
    (hour,) = Hours(lake).pending()
    assert hour.attempts == 9
    do(lake, 3)
    assert (row(3).attempts, row(3).error, row(3).retry_at) == (0, "", None)


def test_pending_hour_gone_from_the_lake_is_dropped(lake: Path) -> None:
    new, done = put(lake, 3), put(lake, 4)
    do(lake, 4)
    ledger.note_pending(Grain.HOUR, [at(3), at(4)])
    new.unlink()
    done.unlink()
    assert ledger.due(timezone.now()) == 3
    assert ledger.drop_gone(Grain.HOUR, [], None, None) == 2
    assert ledger.drop_gone(Grain.DAY, [DAY], None, None) == 0
    assert list(Partition.objects.filter(grain=Grain.HOUR).values_list("start", "state")) == [(at(4), State.DONE)]


def test_locked_hour_is_not_taken_by_another_until_its_lock_expires(lake: Path) -> None:
    ledger.note_pending(Grain.HOUR, [at(3), at(4)])
    first = locks.take(None, Grain.HOUR, [at(3)])
    second = locks.take(None, Grain.HOUR, [at(3), at(4)])
    assert (first.starts, second.starts) == ([at(3)], [at(4)])
    assert ledger.due(timezone.now()) == 0
    later = timezone.now() + LOCKED_FOR + timedelta(seconds=1)
    assert ledger.due(later) == 2
    stand_still(first)
    assert locks.take(None, Grain.HOUR, [at(3), at(4)]).starts == [at(3)]
    second.renew()
    assert second.holds(at(4))


def stand_still(lock: Lock) -> None:
    """So long that its locks expire."""
    Partition.objects.filter(lock=lock.token).update(locked_until=timezone.now() - timedelta(seconds=1))


def test_run_that_lost_its_lock_cannot_write_to_the_ledger(lake: Path) -> None:
    put(lake, 3)
    ledger.note_pending(Grain.HOUR, [at(3)])
    stalled = locks.take(None, Grain.HOUR, [at(3)])
    stand_still(stalled)
    assert stalled.holds(at(3)), "nobody has taken it yet"
    stand_still(stalled)
    other = locks.take(None, Grain.HOUR, [at(3)])
    stalled.renew()
    with pytest.raises(LockLost, match="hour 2026-03-29 03:00"):
        stalled.done(at(3), Computed(1, 1, 1, "stale"), fingerprint="stale", files=1)
    assert stalled.failed(at(3), "stale") is None
    stalled.release()
    assert (row(3).lock, row(3).state, row(3).tail, row(3).fingerprint) == (other.token, "running", "", "")


def test_hour_lost_by_its_run_repeatedly_waits_longer_each_time(lake: Path) -> None:
    ledger.note_pending(Grain.HOUR, [at(3)])
    for losses, minutes in ((1, 0), (2, 1), (3, 2)):
        stand_still(locks.take(None, Grain.HOUR, [at(3)]))
        assert row(3).attempts == losses
        now = timezone.now()
        assert ledger.due(now + timedelta(minutes=minutes, seconds=-30)) == 0 or not minutes
        assert ledger.due(now + timedelta(minutes=minutes)) == 1


def test_work_that_is_given_back_was_no_attempt(lake: Path) -> None:
    ledger.note_pending(Grain.HOUR, [at(3)])
    locks.take(None, Grain.HOUR, [at(3)]).release()
    assert (row(3).state, row(3).attempts, row(3).lock) == ("pending", 0, "")
    locks.take(None, Grain.HOUR, [at(3)]).release(begun=True)
    assert (row(3).state, row(3).attempts) == ("pending", 1)


def test_hour_stays_done_after_its_files_were_compacted(lake: Path) -> None:
    old = put(lake, 3)
    assert locks.hold(at(3)) is None
    do(lake, 3)
    lock = locks.hold(at(3))
    assert lock
    assert locks.hold(at(3)) is None
    assert locks.take(None, Grain.HOUR, [at(3)]).starts == []
    old.unlink()
    put(lake, 3, "compacted.parquet")
    found = ledger.find_hour(lake, at(3))
    assert found
    lock.compacted(at(3), fingerprint=found.fingerprint(""), files=found.file_count)
    assert to_do(lake) == []
    assert row(3).compacted_at
    assert locks.hold(at(3))


NOON = at(12)


@pytest.fixture
def lock() -> Lock:
    return take()


def take() -> Lock:
    ledger.note_pending(Grain.HOUR, [NOON])
    return locks.take(None, Grain.HOUR, [NOON])


def write(root: Path, word: str) -> None:
    for table in tables.OF_HOURS:
        file = figures_file(root, table, NOON)
        file.parent.mkdir(parents=True)
        file.write_text(word)


def files(lake: Path) -> dict[str, str]:
    found = (path for path in lake.rglob("*") if path.is_file())
    return {path.relative_to(lake / "rollups").as_posix(): path.read_text() for path in found}


def of(word: str) -> dict[str, str]:
    return {f"{table}/v={METRIC_VERSION}/dt=2026-03-29/hr=12/figures.parquet": word for table in tables.OF_HOURS}


def publish(lake: Path, lock: Lock, word: str) -> None:
    with loading.work_folder(lake, lock) as out:
        write(out, word)
        loading.publish(lake, out, lock, NOON)


def test_published_hour_replaces_the_former_one(lake: Path, lock: Lock) -> None:
    publish(lake, lock, "first")
    publish(lake, lock, "second")
    assert files(lake) == of("second")


def test_a_reader_finds_a_whole_hour_between_any_two_steps(
    lake: Path, lock: Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def look() -> None:
        seen.extend(figures_file(lake, table, NOON).read_text() for table in tables.OF_HOURS)

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


def test_an_hour_of_which_nothing_was_written_has_no_rows_any_more(lake: Path, lock: Lock) -> None:
    publish(lake, lock, "first")
    with loading.work_folder(lake, lock) as out:
        loading.publish(lake, out, lock, NOON)
    assert files(lake) == {}


def test_rollup_publish_with_a_lost_lock_changes_nothing(lake: Path, lock: Lock) -> None:
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
