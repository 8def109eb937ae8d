"""What history writes, in order and once; what it keeps while the database is away or takes no writes, and what it
lets nobody crowd out."""

import threading
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import InternalError, OperationalError, ProgrammingError, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from ingest.models import Application, Attempt, Ban, Lease, Node, Session, SharedObject, StatusEvent, Stream
from ingest.services import history_writer, keys
from ingest.services.attempts import MOST_WAITING, NEW_A_MINUTE, AttemptRow
from ingest.services.history import BanRow, BeginRow, Operation, write
from ingest.services.history_writer import HistoryWriter
from ingest.services.sessions import EndRow
from ingest.services.shared_objects import ObjectRow
from tests.ingest.admitting import NOW, hold
from tests.ingest.control import TOTALS
from tests.ingest.faults import another_program, locked_database, missing_table
from tests.server_process import wait_for

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_forms]


WAITS = "History waits for the database"


@pytest.fixture
def session(stream: Stream) -> Session:
    return hold(stream, summary={"media": {}})


def event(session: uuid.UUID, sequence: int, code: str = "", kind: str = "onstatus") -> StatusEvent:
    code = code or f"code {sequence}"
    return StatusEvent(session_id=session, sequence=sequence, at=NOW, kind=kind, level="status", code=code)


def end(session: uuid.UUID, reason: str = "client_unpublish") -> EndRow:
    return EndRow(session, reason, "Said so.", NOW + timedelta(seconds=9), TOTALS)  # type: ignore[arg-type]


def attempt(name: str, stream: int | None = None) -> AttemptRow:
    return AttemptRow(NOW, "publish", "live", name, "192.0.2.7", "OBS", "node-a", "key_unknown", "", "", stream)


def write_all(process: HistoryWriter, *rows: Operation | AttemptRow) -> None:
    for row in rows:
        process.put(row)
    assert process.flush(10)


def raised_in_turn(monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> list[Exception]:
    """By the connection of history's thread, each once; those that are left."""
    left = list(errors)

    def check(self: BaseDatabaseWrapper) -> None:
        if threading.current_thread().name == "rtmpweb-history" and left:
            raise left.pop(0)

    monkeypatch.setattr(BaseDatabaseWrapper, "close_if_unusable_or_obsolete", check)
    return left


def test_history_events_are_written_in_order(process: HistoryWriter, session: Session) -> None:
    for sequence in range(1, 501):
        process.put(event(session.pk, sequence))
    process.put(end(session.pk))
    assert process.flush(10)
    assert process.waiting == 0
    codes = StatusEvent.objects.order_by("pk").values_list("code", flat=True)
    assert list(codes) == [f"code {sequence}" for sequence in range(1, 501)]


def test_repeated_events_and_ends_are_written_once_and_an_end_frees_lease(
    process: HistoryWriter, session: Session
) -> None:
    for _ in range(2):
        write_all(process, event(session.pk, 1), end(session.pk), end(session.pk, "tcp_reset"))
    assert StatusEvent.objects.count() == 1
    session.refresh_from_db()
    assert (session.end_reason, session.end_description, session.video_frames) == ("client_unpublish", "Said so.", 30)
    assert session.ended_at == NOW + timedelta(seconds=9)
    assert session.summary == {"media": {}, "dropped_frames": 1, "duration_ms": 1500}
    assert Lease.objects.get().session is None


def test_a_locked_database_is_waited_for_and_order_is_kept(
    process: HistoryWriter, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    with locked_database():
        for sequence in range(1, 11):
            process.put(event(session.pk, sequence))
        process.put(end(session.pk))
        # In SQLite a try fails after a while; PostgreSQL's waits for as long as the lock is held.
        is_held_up = waits_for_a_lock if connection.vendor == "postgresql" else lambda: WAITS in caplog.text
        wait_for(is_held_up, timeout_s=10, what="the writer to be held up")
        assert process.waiting == 11
    assert process.flush(10)
    assert process.dropped == 0
    assert list(StatusEvent.objects.order_by("pk").values_list("sequence", flat=True)) == list(range(1, 11))
    session.refresh_from_db()
    assert session.end_reason == "client_unpublish"


def test_unwritable_history_event_is_dropped_and_the_rest_written(process: HistoryWriter, session: Session) -> None:
    write_all(process, event(session.pk, 1), event(uuid.uuid4(), 1), event(session.pk, 2), end(session.pk))
    assert process.dropped == 1
    assert StatusEvent.objects.count() == 2
    session.refresh_from_db()
    assert session.ended_at is not None


def test_a_stream_that_is_deleted_while_its_player_is_written_is_left_out(
    process: HistoryWriter, stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    begin = BeginRow(uuid.uuid4(), "live", "cam1", stream.pk, "node-a", "", "192.0.2.7", "VLC", NOW)
    Node.objects.create(name="node-a")
    with another_program() as other:
        other.execute("BEGIN")
        other.execute("DELETE FROM ingest_stream")
        process.put(begin)
        if connection.vendor == "postgresql":  # It has read that there is the stream; SQLite has one writer at a time.
            wait_for(waits_for_a_lock, timeout_s=10, what="the writer to wait for who deletes")
        other.execute("COMMIT")
    assert process.flush(5)
    assert (Session.objects.get(pk=begin.session).stream, process.dropped) == (None, 0)
    assert not caplog.records


def waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


def test_attempt_on_a_deleted_stream_is_written_without_stream_and_key(process: HistoryWriter, stream: Stream) -> None:
    key = keys.create(stream=stream).key
    write_all(process, replace(attempt("cam1", stream.pk), key=key.pk))
    write_all(process, replace(attempt("cam2", stream.pk + 1), key=key.pk + 1))
    found = Attempt.objects.order_by("pk").values_list("stream", "key")
    assert (list(found), process.dropped) == ([(stream.pk, key.pk), (None, None)], 0)


def test_a_fault_of_the_connection_is_not_the_end_of_history(
    process: HistoryWriter, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = raised_in_turn(monkeypatch, OperationalError("gone"), RuntimeError("unforeseen"))
    write_all(process, event(session.pk, 1))
    write_all(process, end(session.pk))
    assert not faults
    session.refresh_from_db()
    assert session.end_reason == "client_unpublish"
    assert StatusEvent.objects.count() + process.dropped == 1, "what was lost is counted"


def test_waiting_history_events_are_bounded_but_begins_and_ends_are_kept(session: Session, stream: Stream) -> None:
    writer = HistoryWriter(max_waiting=5)
    begin = BeginRow(uuid.uuid4(), "live", "cam1", stream.pk, "node-a", "", "192.0.2.7", "VLC", NOW)
    with locked_database():
        for sequence in range(1, 1001):
            writer.put(event(session.pk, sequence))
        writer.put(begin)
        writer.put(end(begin.session))
        writer.put(end(session.pk))
        assert writer.full
        assert writer.waiting <= 5 + 200 + 3
        assert writer.dropped >= 1000 - 205
    assert writer.close(10)
    session.refresh_from_db()
    assert session.end_reason == "client_unpublish"
    assert Session.objects.get(kind="play").end_reason == "client_unpublish"


def test_attempt_shows_its_stream_name_and_masks_keys(process: HistoryWriter, stream: Stream) -> None:
    """A known stream's name is shown; what is a key is masked, imported ones too."""
    imported = keys.create(stream=stream, secret="oldserver-key-1").secret
    generated = keys.generate()
    write_all(process, attempt("rk_…", stream=stream.pk), *map(attempt, (imported, generated, "cam9")))
    names = list(Attempt.objects.order_by("pk").values_list("name", flat=True))
    assert (names[0], names[3]) == ("cam1", "cam9")
    assert imported not in names[1]
    assert names[2] == f"{generated[:7]}…"


def test_shared_objects_are_written_apart_from_sessions(
    process: HistoryWriter, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many of either wait: neither holds the other up for longer than its batch."""
    batches: list[set[bool]] = []

    def spied(batch: Sequence[Operation]) -> dict[tuple[str, str], int]:
        batches.append({isinstance(operation, ObjectRow) for operation in batch})
        return write(batch)

    monkeypatch.setattr(history_writer, "write", spied)
    Application.objects.get_or_create(name="live")
    with locked_database():
        for sequence in range(1, 501):
            process.put(event(session.pk, sequence))
            process.put(ObjectRow("live", f"chat {sequence % 120}", 1, NOW, {"a": b"\x05"}))
    assert process.flush(10)
    assert all(len(kinds) == 1 for kinds in batches)
    assert batches.count({True}) >= 3
    assert batches.index({True}) < len(batches) - 1 - batches[::-1].index({False})
    assert SharedObject.objects.count() == 120
    assert StatusEvent.objects.count() == 500


ROW = AttemptRow(NOW, "play", "live", "cam1", "192.0.2.7", "VLC", "node-a", "database_error", "", "")


@pytest.mark.parametrize("error", [InternalError, ProgrammingError])
def test_a_database_that_takes_no_writes_is_waited_for(
    process: HistoryWriter, session: Session, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """As a standby, or one whose roles and tables are just being changed; PostgreSQL has many errors for that."""
    faults = raised_in_turn(monkeypatch, *[error("cannot execute UPDATE in a read-only transaction")] * 3)
    write_all(process, EndRow(session.pk, "tcp_reset", "", NOW))
    assert not faults
    session.refresh_from_db()
    assert (session.end_reason, process.dropped) == ("tcp_reset", 0)


def test_a_missing_table_is_waited_for(
    process: HistoryWriter, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    with missing_table("ingest_statusevent"):
        process.put(event(session.pk, 1))
        process.put(EndRow(session.pk, "tcp_reset", "", NOW))
        wait_for(lambda: WAITS in caplog.text, timeout_s=10, what="a try that failed")
        assert process.waiting == 2
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
        writer.put(event(session.pk, 1, kind="health.opened"))
    assert writer.close(10)
    assert writer.dropped == 0
    assert session.events.count() == 1
    row = Attempt.objects.get()
    assert (row.count, row.at, row.last_at) == (21_000, NOW, NOW + timedelta(seconds=20.999))


def test_different_attempts_have_a_bound_of_their_own(session: Session) -> None:
    writer = HistoryWriter(max_waiting=5)
    with locked_database():
        for number in range(MOST_WAITING + 1000):
            at = NOW + timedelta(seconds=number / 9)  # So many a minute as may have rows of their own.
            writer.put(replace(ROW, at=at, address=f"10.0.{number // 250}.{number % 250}"))
        assert not writer.full
        assert MOST_WAITING <= writer.waiting <= MOST_WAITING + 200
        assert 800 <= writer.dropped <= 1000
        writer.put(EndRow(session.pk, "tcp_reset", "", NOW))
    assert writer.close(20)
    session.refresh_from_db()
    assert session.end_reason == "tcp_reset"


def test_single_address_fills_only_a_bounded_part_of_the_history_queue(session: Session) -> None:
    writer = HistoryWriter()
    with locked_database():
        for number in range(1000):
            writer.put(replace(ROW, name=f"cam{number}", address=f"2001:db8::{number:x}"))
        assert writer.waiting <= 200 + NEW_A_MINUTE + 1
    assert writer.close(10)
    assert sum(Attempt.objects.values_list("count", flat=True)) == 1000


def test_ban_is_kept_when_the_history_queue_is_full(session: Session) -> None:
    writer = HistoryWriter(max_waiting=5)
    with locked_database():
        for sequence in range(1, 1001):
            writer.put(event(session.pk, sequence))
        assert writer.full
        writer.put(BanRow("192.0.2.7", NOW, 600, 10, "node-a"))
    assert writer.close(10)
    assert Ban.objects.get().address == "192.0.2.7"
