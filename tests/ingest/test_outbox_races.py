"""Whoever writes what others are told, and whoever else does at the same moment: all is told, and none gives way."""

import uuid
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from ingest.models import Lease, OutboxEvent, Recording, Session, StatusEvent, Stream, StreamTold
from ingest.services import admission, outbox, recordings, sessions
from ingest.services.attempts import Attempts
from ingest.services.authorization import Peer, PublishRequest
from ingest.services.history import EventRow, Operation, status_event
from ingest.services.history import write as write_history
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests.ingest.simultaneous import Work, at_once
from tests.ingest.test_outbox import NOW, judged, make_session, started, write
from tests.ingest.test_outbox_order import ended, session_at, told

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_forms]

SEVERAL = 20
BLOCKED_S = 0.5
"""After so long whoever still runs waits for the test."""


@pytest.fixture(autouse=True)
def nobody_gives_way(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert "History waits for the database" not in caplog.text


def at(batch: Sequence[Operation]) -> None:
    """As a media process's history does."""
    with transaction.atomic():
        write_history(batch, Attempts())


def streams_of(stream: Stream) -> list[Stream]:
    names = [f"cam-{number}" for number in range(SEVERAL)]
    return [Stream.objects.create(application=stream.application, name=name) for name in names]


def test_two_ends_at_once_of_which_one_lets_the_other_begin(process: HistoryWriter, stream: Stream) -> None:
    former, session = session_at(stream, 0), session_at(stream, 1)
    write(process, started(former), started(session))
    with transaction.atomic():
        assert sessions.end(session=former.pk, reason="replaced")
        other = Work(partial(sessions.end, session=session.pk, reason="node_lost"))
        other.join(BLOCKED_S)
    other.finish()
    assert told(stream) == [
        ("publish", former),
        ("unpublish", former),
        ("publish", session),
        ("unpublish", session),
    ]


def test_an_issue_of_a_session_whose_begin_is_just_told_waits_for_it(process: HistoryWriter, stream: Stream) -> None:
    former, session = session_at(stream, 0), session_at(stream, 1)
    write(process, started(former), started(session))
    with transaction.atomic():
        assert sessions.end(session=former.pk, reason="replaced")
        other = Work(partial(at, [judged(session, 2)]))
        other.join(BLOCKED_S)
    other.finish()
    assert told(stream)[2:] == [("publish", session), ("health.opened", session)]


def test_batches_of_the_same_streams_in_other_orders(stream: Stream) -> None:
    """As where encoders come back to another node: both write of all of their streams at the same moment."""
    streams = streams_of(stream)
    held = [session_at(each, 0) for each in streams]
    at([started(session) for session in held])
    issues = [judged(session, 2, at_s=1) for session in reversed(held)]
    at_once(partial(at, [ended(session, 2) for session in held]), partial(at, issues))
    for each, session in zip(streams, held, strict=True):
        assert sorted(told(each)[1:]) == [("health.opened", session), ("unpublish", session)]


def test_a_session_that_its_node_and_another_end_at_once(stream: Stream) -> None:
    held = [session_at(each, 0) for each in streams_of(stream)]
    at([started(session) for session in held])
    batch: list[Operation] = []
    for session in held:
        batch += [judged(session, 2, at_s=1), ended(session, 2)]

    def sweep() -> None:
        for session in held:
            sessions.end(session=session.pk, reason="node_lost")

    at_once(partial(at, batch), sweep)
    for session in held:
        assert [kind for kind, _ in told(session.stream)] in (  # type: ignore[arg-type]
            ["publish", "health.opened", "unpublish"],
            ["publish", "unpublish", "health.opened"],
            ["publish", "unpublish"],
        )
    assert not Lease.objects.exclude(session=None).exists()


def test_a_stream_is_taken_over_from_a_lost_node_while_that_is_back(stream: Stream, key: NewKey) -> None:
    lost = session_at(stream, 0)
    at([started(lost)])
    later = NOW + timedelta(minutes=1)
    request, peer = PublishRequest("live", key.secret, key.secret, True), Peer("192.0.2.9", "", "node-b", "")

    def take_over() -> None:
        admission.admit_publish(session=uuid.uuid4(), request=request, peer=peer, now=later, asked_at=later)

    with transaction.atomic():
        outbox.hold([stream.pk])
        other = Work(take_over)
        other.join(BLOCKED_S)
        assert sessions.end(session=lost.pk, reason="tcp_reset")
    other.finish()
    assert told(stream) == [("publish", lost), ("unpublish", lost)]
    holder = Lease.objects.get().session
    assert holder is not None
    assert holder.address == "192.0.2.9"


def test_a_recording_is_closed_for_a_dead_node_while_that_is_back(stream: Stream) -> None:
    session = session_at(stream, 0)
    at([started(session)])
    recording = Recording.objects.create(
        application=stream.application, stream=stream, session=session, name="cam1", file="live/gone.flv"
    )
    with transaction.atomic():
        outbox.hold([stream.pk])
        other = Work(partial(recordings.recover, recording, for_good=True))
        other.join(BLOCKED_S)
        Recording.objects.filter(pk=recording.pk).update(size_bytes=1)
    other.finish()
    assert told(stream)[-1][0] == "recording.done"


# --- What it costs ---


def issues(of: Sequence[Session], count: int, since: int) -> list[StatusEvent]:
    """In turn of each session, each opened and cleared."""
    rows: list[EventRow] = []
    for number in range(count):
        kind, session = ("opened", "cleared")[number // len(of) % 2], of[number % len(of)]
        rows.append(judged(session, since + number, kind, at_s=since + number))
    return [status_event(row) for row in rows]


def statements(events: Sequence[StatusEvent]) -> list[str]:
    with transaction.atomic(), CaptureQueriesContext(connection) as asked:
        outbox.told(events, outbox.hold_of({event.session_id for event in events}))
    return [each["sql"] for each in asked.captured_queries]


def test_a_hundred_issues_cost_as_many_statements_as_ten(stream: Stream) -> None:
    several = [session_at(each, 0) for each in streams_of(stream)[:5]]
    at([started(session) for session in several])
    few, many = issues(several, 10, since=10), issues(several, 100, since=200)
    assert len(statements(few)) == len(statements(many))
    assert OutboxEvent.objects.filter(kind="health.opened").count() == 55
    again = statements(many)
    assert len(again) < len(statements(issues(several, 10, since=500)))
    assert not any(sql.startswith("UPDATE") for sql in again), "nothing is new"
    assert OutboxEvent.objects.filter(kind="health.opened").count() == 60
    assert sum(StreamTold.objects.values_list("sequence", flat=True)) == OutboxEvent.objects.count()


def test_a_stream_that_is_told_nothing_new_keeps_its_number(stream: Stream) -> None:
    session = make_session(stream)
    for _ in range(2):
        at([started(session), judged(session, 2)])
    assert StreamTold.objects.get().sequence == 2
