import threading
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from ingest.models import Application, Attempt, Lease, Node, Session, SharedObject, StatusEvent, Stream
from ingest.services import history_writer, keys
from ingest.services.attempts import AttemptRow, Attempts
from ingest.services.history import BeginRow, DiscardRow, EndRow, EventRow, Operation, write
from ingest.services.history_writer import HistoryWriter
from ingest.services.shared_objects import ObjectRow
from tests.ingest.control import TOTALS
from tests.ingest.faults import another_program, locked_database
from tests.server_process import wait_for

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def session(stream: Stream) -> Session:
    node = Node.objects.create(name="node-a")
    made = Session.objects.create(
        kind="publish", app="live", name="cam1", stream=stream, node=node, started_at=NOW, summary={"media": {}}
    )
    Lease.objects.create(stream=stream, session=made, node=node, expires_at=NOW + timedelta(seconds=10))
    return made


def event(session: uuid.UUID, sequence: int, code: str = "") -> EventRow:
    return EventRow(session, sequence, NOW, "onstatus", "status", code or f"code {sequence}")


def end(session: uuid.UUID, reason: str = "client_unpublish") -> EndRow:
    return EndRow(session, reason, "Said so.", NOW + timedelta(seconds=9), TOTALS)  # type: ignore[arg-type]


def attempt(name: str, stream: int | None = None) -> AttemptRow:
    return AttemptRow(NOW, "publish", "live", name, "192.0.2.7", "OBS", "node-a", "key_unknown", "", "", stream)


@pytest.mark.both_forms
def test_what_is_put_is_written_in_order(process: HistoryWriter, session: Session) -> None:
    for sequence in range(1, 501):
        process.put(event(session.pk, sequence))
    process.put(end(session.pk))
    assert process.flush(10)
    assert process.waiting == 0
    codes = StatusEvent.objects.order_by("pk").values_list("code", flat=True)
    assert list(codes) == [f"code {sequence}" for sequence in range(1, 501)]


@pytest.mark.both_forms
def test_an_end_is_written_once_and_frees_the_lease(process: HistoryWriter, session: Session) -> None:
    process.put(end(session.pk))
    process.put(end(session.pk, "tcp_reset"))
    assert process.flush(5)
    session.refresh_from_db()
    assert (session.end_reason, session.end_description, session.video_frames) == ("client_unpublish", "Said so.", 30)
    assert session.ended_at == NOW + timedelta(seconds=9)
    assert session.summary == {"media": {}, "dropped_frames": 1, "duration_ms": 1500}
    assert Lease.objects.get().session is None


@pytest.mark.both_forms
def test_repeating_a_batch_changes_nothing(process: HistoryWriter, session: Session) -> None:
    for _ in range(2):
        process.put(event(session.pk, 1))
        process.put(end(session.pk))
        assert process.flush(5)
    assert StatusEvent.objects.count() == 1


@pytest.mark.both_forms
def test_a_locked_database_is_waited_for_and_order_is_kept(process: HistoryWriter, session: Session) -> None:
    with locked_database():
        for sequence in range(1, 11):
            process.put(event(session.pk, sequence))
        process.put(end(session.pk))
        assert not process.flush(2.5)  # Longer than a statement waits for a lock: at least one try has failed.
        assert process.waiting == 11
    assert process.flush(10)
    assert process.dropped == 0
    assert list(StatusEvent.objects.order_by("pk").values_list("sequence", flat=True)) == list(range(1, 11))
    session.refresh_from_db()
    assert session.end_reason == "client_unpublish"


@pytest.mark.both_forms
def test_what_can_never_be_written_does_not_hold_up_the_rest(process: HistoryWriter, session: Session) -> None:
    process.put(event(session.pk, 1))
    process.put(event(uuid.uuid4(), 1))
    process.put(event(session.pk, 2))
    process.put(end(session.pk))
    assert process.flush(5)
    assert process.dropped == 1
    assert StatusEvent.objects.count() == 2
    session.refresh_from_db()
    assert session.ended_at is not None


@pytest.mark.both_forms
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


@pytest.mark.both_forms
def test_what_was_refused_of_a_stream_that_was_deleted_is_written_without_it(
    process: HistoryWriter, stream: Stream
) -> None:
    key = keys.create(stream=stream).key
    process.put(replace(attempt("cam1", stream.pk), key=key.pk))
    assert process.flush(5)
    process.put(replace(attempt("cam2", stream.pk + 1), key=key.pk + 1))
    assert process.flush(5)
    found = Attempt.objects.order_by("pk").values_list("stream", "key")
    assert (list(found), process.dropped) == ([(stream.pk, key.pk), (None, None)], 0)


@pytest.mark.both_forms
def test_a_fault_of_the_connection_is_not_the_end_of_history(
    process: HistoryWriter, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [OperationalError("gone"), RuntimeError("unforeseen")]

    def check(self: BaseDatabaseWrapper) -> None:
        if threading.current_thread().name == "rtmpweb-history" and faults:
            raise faults.pop(0)

    monkeypatch.setattr(BaseDatabaseWrapper, "close_if_unusable_or_obsolete", check)
    process.put(event(session.pk, 1))
    assert process.flush(5)
    process.put(end(session.pk))
    assert process.flush(5)
    assert not faults
    session.refresh_from_db()
    assert session.end_reason == "client_unpublish"
    assert StatusEvent.objects.count() + process.dropped == 1, "what was lost is counted"


def test_what_waits_is_bounded_but_begins_and_ends_are_kept(session: Session, stream: Stream) -> None:
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


@pytest.mark.both_forms
def test_an_undone_admission_leaves_nothing(process: HistoryWriter, session: Session) -> None:
    process.put(DiscardRow(session.pk))
    assert process.flush(5)
    assert not Session.objects.exists()
    assert Lease.objects.get().session is None


@pytest.mark.both_forms
def test_names_of_attempts(process: HistoryWriter, stream: Stream) -> None:
    """A known stream's name is shown; what is a key is masked, imported ones too."""
    imported = keys.create(stream=stream, secret="oldserver-key-1").secret
    generated = keys.generate()
    process.put(attempt("rk_…", stream=stream.pk))
    for name in (imported, generated, "cam9"):
        process.put(attempt(name))
    assert process.flush(5)
    names = list(Attempt.objects.order_by("pk").values_list("name", flat=True))
    assert (names[0], names[3]) == ("cam1", "cam9")
    assert imported not in names[1]
    assert names[2] == f"{generated[:7]}…"


@pytest.mark.both_forms
def test_closing_writes_what_is_left(session: Session) -> None:
    writer = HistoryWriter()
    for sequence in range(1, 301):
        writer.put(event(session.pk, sequence))
    assert writer.close(10)
    assert StatusEvent.objects.count() == 300


@pytest.mark.both_forms
def test_shared_objects_are_written_apart_from_sessions(
    process: HistoryWriter, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many of either wait: neither holds the other up for longer than its batch."""
    batches: list[set[bool]] = []

    def spied(batch: Sequence[Operation], attempts: Attempts) -> dict[tuple[str, str], int]:
        batches.append({isinstance(operation, ObjectRow) for operation in batch})
        return write(batch, attempts)

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
