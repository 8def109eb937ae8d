"""What others are told: exactly one end for each begin, whoever ends the session, and nothing of what never was."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from ingest.consumers import decisions
from ingest.models import Lease, Node, OutboxEvent, Session, Stream
from ingest.services import outbox, recordings, sessions
from ingest.services.history import DiscardRow, EndRow, EventRow
from ingest.services.history_writer import HistoryWriter
from tests.ingest.control import TOTALS, Connection
from tests.ingest.simultaneous import at_once

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def session(stream: Stream) -> Session:
    return make_session(stream)


def make_session(stream: Stream, **fields: Any) -> Session:
    node, _ = Node.objects.get_or_create(name="node-a")
    made = Session.objects.create(
        kind=fields.pop("kind", "publish"),
        app="live",
        name="cam1",
        stream=stream,
        node=node,
        address="192.0.2.7",
        started_at=NOW,
        **fields,
    )
    Lease.objects.update_or_create(
        stream=stream, defaults={"session": made, "node": node, "expires_at": NOW + timedelta(seconds=10)}
    )
    return made


def started(session: Session) -> EventRow:
    return EventRow(session.pk, 1, NOW, "session.started", "status", session.kind)


def judged(session: Session, sequence: int, kind: str = "opened", check: str = "starving", at_s: float = 0) -> EventRow:
    detail = {"actual": "14 s", "expected": "5 s at most", "advice": "Check the encoder."}
    at = NOW + timedelta(seconds=at_s)
    return EventRow(session.pk, sequence, at, f"health.{kind}", "bad", check, "Nothing has arrived.", detail)


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


@pytest.mark.both_forms
def test_a_begin_and_an_end_are_told_with_what_is_known(process: HistoryWriter, session: Session) -> None:
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


@pytest.mark.both_forms
def test_whatever_is_written_again_is_told_once(process: HistoryWriter, session: Session) -> None:
    for _ in range(2):
        write(process, started(session), judged(session, 2), end(session))
    write(process, end(session, "client_unpublish"))
    assert told() == ["health.opened", "publish", "unpublish"]


def test_players_and_tests_tell_nothing(process: HistoryWriter, stream: Stream) -> None:
    for fields in ({"kind": "play"}, {"is_test": True}):
        session = make_session(stream, **fields)
        write(process, started(session), judged(session, 2), end(session))
    assert told() == []


@pytest.mark.both_forms
def test_an_admission_that_is_undone_tells_neither(process: HistoryWriter, session: Session) -> None:
    write(process, DiscardRow(session.pk), started(session), end(session))
    assert told() == []


@pytest.mark.both_forms
def test_a_node_that_died_before_it_told_a_begin_tells_no_end(process: HistoryWriter, session: Session) -> None:
    assert sessions.end(session=session.pk, reason="node_lost")
    write(process, started(session))  # Had it waited for the database.
    assert told() == []


@pytest.mark.both_forms
def test_ends_at_once_are_told_once(process: HistoryWriter, stream: Stream) -> None:
    for _ in range(5):
        session = make_session(stream)
        write(process, started(session))
        at_once(*[partial(sessions.end, session=session.pk, reason="node_lost")] * 3)
    assert sorted(told()) == ["publish"] * 5 + ["unpublish"] * 5


@pytest.mark.both_forms
def test_a_begin_and_an_end_at_once_are_both_told_or_neither(process: HistoryWriter, stream: Stream) -> None:
    for _ in range(10):
        session = make_session(stream)
        at_once(
            partial(write, process, started(session)), partial(sessions.end, session=session.pk, reason="node_lost")
        )
        of = OutboxEvent.objects.filter(session=session)
        assert of.count() in (0, 2)


@pytest.mark.both_forms
def test_issues_are_told_with_their_figures(process: HistoryWriter, session: Session) -> None:
    write(process, judged(session, 2), judged(session, 3, "cleared", at_s=30))
    opened, cleared = OutboxEvent.objects.order_by("at")
    assert opened.payload["health"] == {
        "check": "starving",
        "level": "bad",
        "title": "Nothing has arrived.",
        "actual": "14 s",
        "expected": "5 s at most",
        "advice": "Check the encoder.",
    }
    assert (cleared.kind, cleared.payload["health"]["check"]) == ("health.cleared", "starving")


def test_a_flapping_check_is_told_so_often_a_minute_and_what_opened_is_cleared(
    process: HistoryWriter, session: Session
) -> None:
    most = outbox.MAX_OPENED_A_MINUTE
    for number in range(most + 5):
        kinds = ("opened", "cleared")
        rows = [judged(session, 2 * number + n, kinds[n], at_s=number + n / 2) for n in (0, 1)]
        write(process, *rows)
    assert told().count("health.opened") == told().count("health.cleared") == most
    write(process, judged(session, 900, at_s=120))
    assert told().count("health.opened") == most + 1


def test_of_what_is_beyond_that_alerts_hear_how_each_check_stands(process: HistoryWriter, session: Session) -> None:
    most = outbox.MAX_OPENED_A_MINUTE
    write(process, *(judged(session, number, check=f"check-{number}", at_s=number) for number in range(most)))
    for number in range(3):
        kinds = ("opened", "cleared")
        rows = [judged(session, 20 + 2 * number + n, kinds[n], at_s=20 + number + n / 2) for n in (0, 1)]
        write(process, *rows)
    (stands,) = OutboxEvent.objects.exclude(once__startswith="health")
    assert (stands.kind, stands.at) == ("health.cleared", NOW + timedelta(seconds=22.5))
    OutboxEvent.objects.update(taken_at=NOW)
    write(process, judged(session, 30, "opened", at_s=40), judged(session, 24, "opened", at_s=22))
    stands.refresh_from_db()
    assert (stands.kind, stands.at, stands.taken_at) == ("health.opened", NOW + timedelta(seconds=40), None)
    assert len(told()) == most


@pytest.mark.both_forms
def test_what_became_of_a_recording_is_told_once(process: HistoryWriter, session: Session) -> None:
    event: Any = {
        "type": "rtmp.record",
        "session_id": str(session.pk),
        "state": "started",
        "name": "cam1",
        "file": "live/cam1.flv",
        "mode": "all",
        "began": NOW.timestamp(),
        "duration_ms": 0,
        "size_bytes": 13,
        "dropped_frames": 0,
        "description": "",
    }
    recordings.note(session=session.pk, at=NOW, event=event)
    assert told() == []
    for _ in range(2):
        closed = event | {"state": "closed", "duration_ms": 4000, "size_bytes": 900}
        recordings.note(session=session.pk, at=NOW, event=closed)
    (row,) = OutboxEvent.objects.all()
    assert (row.kind, row.payload["recording"]["state"]) == ("recording.done", "complete")
    assert row.payload["recording"]["duration_ms"] == 4000


@pytest.mark.both_forms
async def test_a_real_admission_tells_its_begin_and_one_end(
    encoder: Connection, key: Any, process: HistoryWriter
) -> None:
    accepted = await encoder.publish(key.secret)
    await encoder.unpublish(accepted["session_id"])
    await encoder.disconnect()
    assert process.flush(20)
    kinds = [kind async for kind in OutboxEvent.objects.order_by("at").values_list("kind", flat=True)]
    assert kinds == ["publish", "unpublish"]
    payloads = [str(payload) async for payload in OutboxEvent.objects.values_list("payload", flat=True)]
    assert not any(key.secret in payload for payload in payloads)


@pytest.mark.both_forms
async def test_an_admission_that_came_too_late_tells_nothing(
    encoder: Connection, key: Any, process: HistoryWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "LIMIT_S", 0.0)
    assert (await encoder.publish(key.secret))["type"] == "rtmp.publish.reject"
    await encoder.disconnect()
    assert process.flush(20)
    assert not await OutboxEvent.objects.aexists()
