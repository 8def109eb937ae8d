"""What history keeps while the database is away or takes no writes, and what it lets nobody crowd out."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import InternalError, ProgrammingError
from django.db.backends.base.base import BaseDatabaseWrapper

from ingest.models import Attempt, Ban, Node, Session, Stream
from ingest.services.attempts import MOST_WAITING, NEW_A_MINUTE, AttemptRow
from ingest.services.history import BanRow, EndRow, EventRow
from ingest.services.history_writer import HistoryWriter
from tests.ingest.faults import locked_database, missing_table

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ROW = AttemptRow(NOW, "play", "live", "cam1", "192.0.2.7", "VLC", "node-a", "database_error", "", "")


@pytest.fixture
def session(stream: Stream) -> Session:
    node = Node.objects.create(name="node-a")
    return Session.objects.create(kind="publish", app="live", name="cam1", stream=stream, node=node, started_at=NOW)


@pytest.mark.both_forms
@pytest.mark.parametrize("error", [InternalError, ProgrammingError])
def test_a_database_that_takes_no_writes_is_waited_for(
    process: HistoryWriter, session: Session, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """As a standby, or one whose roles and tables are just being changed; PostgreSQL has many errors for that."""
    faults = [error("cannot execute UPDATE in a read-only transaction")] * 3

    def check(self: BaseDatabaseWrapper) -> None:
        if threading.current_thread().name == "rtmpweb-history" and faults:
            raise faults.pop()

    monkeypatch.setattr(BaseDatabaseWrapper, "close_if_unusable_or_obsolete", check)
    process.put(EndRow(session.pk, "tcp_reset", "", NOW))
    assert process.flush(5)
    assert not faults
    session.refresh_from_db()
    assert (session.end_reason, process.dropped) == ("tcp_reset", 0)


@pytest.mark.both_forms
def test_a_missing_table_is_waited_for(process: HistoryWriter, session: Session) -> None:
    with missing_table("ingest_statusevent"):
        process.put(EventRow(session.pk, 1, NOW, "onstatus"))
        process.put(EndRow(session.pk, "tcp_reset", "", NOW))
        assert not process.flush(1)
    assert process.flush(5)
    session.refresh_from_db()
    assert (session.end_reason, session.events.count(), process.dropped) == ("tcp_reset", 1, 0)


def test_attempts_crowd_out_nothing_else(session: Session) -> None:
    writer = HistoryWriter(max_waiting=5)
    with locked_database():
        for number in range(21_000):
            writer.put(replace(ROW, at=NOW + timedelta(seconds=number / 1000)))
        assert not writer.full
        assert writer.waiting <= 2  # One under way, and one for all that came since.
        writer.put(EventRow(session.pk, 1, NOW, "health.opened"))
    assert writer.close(10)
    assert writer.dropped == 0
    assert session.events.count() == 1
    row = Attempt.objects.get()
    assert (row.count, row.at, row.last_at) == (21_000, NOW, NOW + timedelta(seconds=20.999))


def test_different_attempts_have_a_bound_of_their_own(session: Session) -> None:
    writer = HistoryWriter(max_waiting=5)
    with locked_database():
        for number in range(MOST_WAITING + 1000):
            writer.put(replace(ROW, address=f"10.0.{number // 250}.{number % 250}"))
        assert not writer.full
        assert MOST_WAITING <= writer.waiting <= MOST_WAITING + 200
        assert 800 <= writer.dropped <= 1000
        writer.put(EndRow(session.pk, "tcp_reset", "", NOW))
    assert writer.close(20)
    session.refresh_from_db()
    assert session.end_reason == "tcp_reset"


def test_one_address_can_fill_little_of_it(session: Session) -> None:
    writer = HistoryWriter()
    with locked_database():
        for number in range(1000):
            writer.put(replace(ROW, name=f"cam{number}", address=f"2001:db8::{number:x}"))
        assert writer.waiting <= 200 + NEW_A_MINUTE + 1
    assert writer.close(10)
    assert sum(Attempt.objects.values_list("count", flat=True)) == 1000


@pytest.mark.both_forms
def test_bans_are_kept(session: Session) -> None:
    writer = HistoryWriter(max_waiting=5)
    with locked_database():
        for sequence in range(1, 1001):
            writer.put(EventRow(session.pk, sequence, NOW, "onstatus"))
        assert writer.full
        writer.put(BanRow("192.0.2.7", NOW, 600, 10, "node-a"))
    assert writer.close(10)
    assert Ban.objects.get().address == "192.0.2.7"
