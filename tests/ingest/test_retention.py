"""What old history goes, what stays, and that encoders are admitted meanwhile."""

import sqlite3
import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django_celery_beat.models import PeriodicTask

from ingest import tasks
from ingest.models import Attempt, AuditEntry, Ban, Lease, Node, Session, StatusEvent, Stream
from ingest.services.retention import Pruned, prune
from tests.ingest.admitting import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.stores]


def days(count: float) -> datetime:
    return NOW - timedelta(days=count)


def attempt(at: datetime) -> Attempt:
    return Attempt.objects.create(at=at, action="publish", address="192.0.2.7", reason="key_unknown")


def session(started: datetime, ended: datetime | None, events: int = 2) -> Session:
    made = Session.objects.create(
        kind="publish", app="live", name="cam1", address="192.0.2.7", started_at=started, ended_at=ended
    )
    StatusEvent.objects.bulk_create(
        StatusEvent(session=made, sequence=sequence, at=started, kind="onstatus") for sequence in range(events)
    )
    return made


def test_old_attempts_and_bans_go() -> None:
    attempt(days(31))
    kept = attempt(days(29))
    Ban.objects.create(address="192.0.2.7", at=days(60), until=days(31), guesses=10)
    long_ban = Ban.objects.create(address="192.0.2.8", at=days(60), until=days(-1), guesses=0)
    done = prune(now=NOW, attempts_days=30, sessions_days=400)
    assert done == Pruned(attempts=1, bans=1)
    assert Attempt.objects.get() == kept
    assert Ban.objects.get() == long_ban


def test_old_sessions_go_with_their_events_but_no_open_one(stream: Stream) -> None:
    node = Node.objects.create(name="node-a")
    gone = session(days(402), days(401), events=1200)
    Lease.objects.create(stream=stream, node=node, session=gone, expires_at=days(401))
    kept = [session(days(500), None), session(days(402), days(399)), session(days(10), days(9))]
    done = prune(now=NOW, attempts_days=30, sessions_days=400)
    assert done == Pruned(sessions=1, events=1200)
    assert set(Session.objects.all()) == set(kept)
    assert StatusEvent.objects.count() == 6
    assert Lease.objects.get().session is None


def test_old_entries_of_the_audit_log_go() -> None:
    for age in (401, 399):
        AuditEntry.objects.create(at=days(age), actor="mira", action="login")
    assert prune(now=NOW, attempts_days=30, sessions_days=400) == Pruned()
    assert prune(now=NOW, attempts_days=30, sessions_days=400, audit_days=400) == Pruned(audit=1)
    assert AuditEntry.objects.get().at == days(399)


def test_nought_keeps_for_ever() -> None:
    attempt(days(5000))
    session(days(5000), days(4999))
    assert prune(now=NOW, attempts_days=0, sessions_days=0) == Pruned()
    assert prune(now=NOW, attempts_days=0, sessions_days=400).sessions == 1
    assert Attempt.objects.count() == 1


def test_prune_out_of_time_leaves_the_rest_for_the_next_run() -> None:
    for _ in range(3):
        attempt(days(31))
    assert prune(now=NOW, attempts_days=30, sessions_days=400, run_s=0) == Pruned(finished=False)
    assert prune(now=NOW, attempts_days=30, sessions_days=400) == Pruned(attempts=3)


@pytest.mark.django_db(transaction=True)
def test_other_processes_can_write_while_pruning_goes_on() -> None:
    """6000 attempts go; another process takes SQLite's write lock all the while, and has it between many pieces."""
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL lets several write")
    Attempt.objects.bulk_create(
        [
            Attempt(at=days(31), action="publish", address="192.0.2.7", reason="key_unknown", description="x" * 200)
            for _ in range(6000)
        ]
    )
    left: set[int] = set()
    over = threading.Event()

    def write() -> None:
        other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None, timeout=20)
        while not over.wait(0.01):
            other.execute("BEGIN IMMEDIATE")
            left.add(other.execute("SELECT count(*) FROM ingest_attempt").fetchone()[0])
            other.execute("ROLLBACK")
        other.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert prune(now=NOW, attempts_days=30, sessions_days=400).attempts == 6000
    finally:
        over.set()
        thread.join()
    assert len(left - {6000, 0}) >= 5


def test_nightly_prune_task_is_scheduled_and_deletes_old_attempts() -> None:
    attempt(days(365 * 20))
    recent = attempt(datetime.now(UTC))
    assert PeriodicTask.objects.get(task="ingest.tasks.prune").queue == "default"
    tasks.prune()
    assert Attempt.objects.get() == recent
