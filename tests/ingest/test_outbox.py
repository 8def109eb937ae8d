"""What others are told: exactly one end for each begin, whoever ends the session, and nothing of what never was."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from ingest.models import OutboxEvent, Session, StatusEvent, Stream
from ingest.services import outbox, recordings, sessions
from ingest.services.history import DiscardRow
from ingest.services.history_writer import HistoryWriter
from ingest.services.sessions import EndRow
from tests.ingest.admitting import NOW, hold
from tests.ingest.control import TOTALS
from tests.ingest.faults import at_once
from tests.ingest.ticks import record_event

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_forms]


@pytest.fixture
def session(stream: Stream) -> Session:
    return hold(stream)


def started(session: Session) -> StatusEvent:
    return StatusEvent(
        session_id=session.pk, sequence=1, at=NOW, kind="session.started", level="status", code=session.kind
    )


def judged(
    session: Session, sequence: int, kind: str = "opened", check: str = "starving", at_s: float = 0
) -> StatusEvent:
    detail = {"actual": "14 s", "expected": "at most 5 s", "advice": "Check the encoder."}
    at = NOW + timedelta(seconds=at_s)
    return StatusEvent(
        session_id=session.pk,
        sequence=sequence,
        at=at,
        kind=f"health.{kind}",
        level="bad",
        code=check,
        description="Nothing has arrived.",
        detail=detail,
    )


def flapping(session: Session, sequence: int, at_s: float) -> list[StatusEvent]:
    return [judged(session, sequence, at_s=at_s), judged(session, sequence + 1, "cleared", at_s=at_s + 0.5)]


def end(session: Session, reason: str = "tcp_reset") -> EndRow:
    return EndRow(session.pk, reason, "It broke.", NOW + timedelta(seconds=9), TOTALS)  # type: ignore[arg-type]


def told() -> list[str]:
    """What webhooks are."""
    events = OutboxEvent.objects.order_by("at", "kind")
    return [event.kind for event in events if outbox.is_for_webhooks(event)]


def write(process: HistoryWriter, *rows: Any) -> None:
    for row in rows:
        process.put(row)
    assert process.flush(20)


def test_publish_and_unpublish_events_carry_session_details_and_totals(
    process: HistoryWriter, session: Session
) -> None:
    write(process, started(session), end(session))
    begin, over = OutboxEvent.objects.order_by("at")
    assert begin.payload == {
        "id": str(begin.pk),
        "kind": "publish",
        "at": "2026-03-01T12:00:00Z",
        "app": "live",
        "name": "cam1",
        "session": {"id": str(session.pk), "address": "192.0.2.7", "encoder": "", "node": "node-a"},
        "sequence": 1,
    }
    assert over.payload["sequence"] == 2
    assert over.payload["end"] == {
        "reason": "tcp_reset",
        "description": "It broke.",
        "started_at": "2026-03-01T12:00:00Z",
        "duration_s": 9.0,
        "bytes_in": 1000,
        "video_frames": 30,
        "audio_frames": 40,
        "keyframes": 2,
    }
    assert (over.stream, over.session, over.taken_at) == (session.stream, session, None)


def test_history_written_twice_adds_each_outbox_event_once(process: HistoryWriter, session: Session) -> None:
    for _ in range(2):
        write(process, started(session), judged(session, 2), end(session))
    write(process, end(session, "client_unpublish"))
    assert told() == ["health.opened", "publish", "unpublish"]


def test_players_and_test_publishes_add_no_outbox_events(process: HistoryWriter, stream: Stream) -> None:
    for fields in ({"kind": "play"}, {"is_test": True}):
        session = hold(stream, **fields)
        write(process, started(session), judged(session, 2), end(session))
    assert told() == []


def test_undone_admission_adds_no_outbox_events(process: HistoryWriter, session: Session) -> None:
    write(process, DiscardRow(session.pk), started(session), end(session))
    assert told() == []


def test_session_lost_before_its_publish_event_adds_no_outbox_events(process: HistoryWriter, session: Session) -> None:
    assert sessions.end(session=session.pk, reason="node_lost")
    write(process, started(session))  # Had it waited for the database.
    assert told() == []


def test_concurrent_ends_of_a_session_add_one_unpublish_event(process: HistoryWriter, stream: Stream) -> None:
    for _ in range(5):
        session = hold(stream)
        write(process, started(session))
        at_once(*[partial(sessions.end, session=session.pk, reason="node_lost")] * 3)
    assert sorted(told()) == ["publish"] * 5 + ["unpublish"] * 5


def test_concurrent_begin_and_end_add_both_outbox_events_or_neither(process: HistoryWriter, stream: Stream) -> None:
    for _ in range(10):
        session = hold(stream)
        at_once(
            partial(write, process, started(session)), partial(sessions.end, session=session.pk, reason="node_lost")
        )
        of = OutboxEvent.objects.filter(session=session)
        assert of.count() in (0, 2)


def test_health_events_carry_the_figures_of_the_issue(process: HistoryWriter, session: Session) -> None:
    write(process, judged(session, 2), judged(session, 3, "cleared", at_s=30))
    opened, cleared = OutboxEvent.objects.order_by("at")
    assert opened.payload["health"] == {
        "check": "starving",
        "level": "bad",
        "title": "Nothing has arrived.",
        "actual": "14 s",
        "expected": "at most 5 s",
        "advice": "Check the encoder.",
    }
    assert (cleared.kind, cleared.payload["health"]["check"]) == ("health.cleared", "starving")


def test_flapping_health_check_adds_a_bounded_number_of_events_a_minute(
    process: HistoryWriter, session: Session
) -> None:
    most = outbox.MAX_OPENED_A_MINUTE
    for number in range(most + 5):
        write(process, *flapping(session, 2 * number, number))
    assert told().count("health.opened") == told().count("health.cleared") == most
    write(process, judged(session, 900, at_s=120))
    assert told().count("health.opened") == most + 1


def test_excess_health_events_keep_only_the_last_state_of_a_check(process: HistoryWriter, session: Session) -> None:
    most = outbox.MAX_OPENED_A_MINUTE
    write(process, *(judged(session, number, check=f"check-{number}", at_s=number) for number in range(most)))
    for number in range(3):
        write(process, *flapping(session, 20 + 2 * number, 20 + number))
    (stands,) = OutboxEvent.objects.exclude(once__startswith="health")
    assert (stands.kind, stands.at) == ("health.cleared", NOW + timedelta(seconds=22.5))
    OutboxEvent.objects.update(taken_at=NOW)
    write(process, judged(session, 30, "opened", at_s=40), judged(session, 24, "opened", at_s=22))
    stands.refresh_from_db()
    assert (stands.kind, stands.at, stands.taken_at) == ("health.opened", NOW + timedelta(seconds=40), None)
    assert len(told()) == most


def test_finished_recording_adds_one_recording_done_event(process: HistoryWriter, session: Session) -> None:
    recordings.note(session=session.pk, at=NOW, event=record_event(str(session.pk), began=NOW.timestamp()))
    assert told() == []
    for _ in range(2):
        done: dict[str, Any] = {"state": "closed", "duration_ms": 4000, "size_bytes": 900}
        closed = record_event(str(session.pk), began=NOW.timestamp(), **done)
        recordings.note(session=session.pk, at=NOW, event=closed)
    (row,) = OutboxEvent.objects.all()
    assert (row.kind, row.payload["recording"]["state"]) == ("recording.done", "complete")
    assert row.payload["recording"]["duration_ms"] == 4000
